//! Checks of a pushed object beyond its hash: `git fsck --strict` must find no error in it, and a checkout of it
//! must write nothing outside the working copy. The messages begin as those of git do (`fsck-msgids`).

use super::id::ObjectId;
use super::object::ObjectKind;
use super::special_file::{SpecialFile, is_alias};
use super::tree::{EntryType, Tree};
use bytes::Bytes;
use std::cmp::Ordering;

/// An object that must exist for another one to be whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypedLink {
    pub id: ObjectId,
    /// `None`: any kind, for the object of a tag, whose type git does not check either.
    pub kind: Option<ObjectKind>,
    /// Whether the linking object is a commit or tag and the link leads to an earlier commit.
    pub is_history: bool,
}

/// The findings of a check besides errors.
#[derive(Debug, Default)]
pub struct CheckedObject {
    pub links: Vec<TypedLink>,
    /// The blobs of files that git reads, whose contents are to be checked.
    pub special_files: Vec<(ObjectId, SpecialFile)>,
}

/// Checks an object. The error says what is wrong with it.
pub fn check(kind: ObjectKind, contents: &Bytes) -> Result<CheckedObject, String> {
    match kind {
        ObjectKind::Blob => Ok(CheckedObject::default()),
        ObjectKind::Tree => check_tree(contents),
        ObjectKind::Commit => check_commit(contents),
        ObjectKind::Tag => check_tag(contents),
    }
}

fn check_tree(contents: &Bytes) -> Result<CheckedObject, String> {
    let tree = Tree::parse(contents.clone()).ok_or("badTree: cannot be parsed as a tree")?;
    let mut checked = CheckedObject::default();
    let mut previous: Option<(Vec<u8>, bool)> = None;
    for entry in tree.entries() {
        let name = entry.name();
        if entry.is_zero_padded() {
            return Err("zeroPaddedFilemode: contains zero-padded file modes".into());
        }
        // git only remarks on permissions that it would not write itself.
        let kind = match entry.entry_type() {
            Some(EntryType::Tree) => Some(ObjectKind::Tree),
            Some(EntryType::File { .. } | EntryType::Link) => Some(ObjectKind::Blob),
            Some(EntryType::Submodule) => None,
            None => return Err("badFilemode: contains bad file modes".into()),
        };
        if *entry.id.bytes() == [0; ObjectId::LENGTH] {
            return Err("nullSha1: contains entries pointing to null sha1".into());
        }
        check_name(name)?;
        let is_link = entry.entry_type() == Some(EntryType::Link);
        if SpecialFile::Modules.is_named(name) {
            match kind {
                Some(ObjectKind::Tree) => return Err("gitmodulesBlob: non-blob found at .gitmodules".into()),
                _ if is_link => return Err("gitmodulesSymlink: .gitmodules is a symbolic link".into()),
                None => return Err("gitmodulesMissing: unable to read .gitmodules blob".into()),
                Some(_) => checked.special_files.push((entry.id, SpecialFile::Modules)),
            }
        }
        // git only warns of a `.gitattributes` that is a link, and does not follow it.
        if !is_link && SpecialFile::Attributes.is_named(name) {
            match kind {
                Some(ObjectKind::Tree) => return Err("gitattributesBlob: non-blob found at .gitattributes".into()),
                None => return Err("gitattributesMissing: unable to read .gitattributes blob".into()),
                Some(_) => checked.special_files.push((entry.id, SpecialFile::Attributes)),
            }
        }
        let is_tree = kind == Some(ObjectKind::Tree);
        if let Some((before, was_tree)) = &previous {
            match compare_names(before, *was_tree, name, is_tree) {
                _ if before == name => return Err("duplicateEntries: contains duplicate file entries".into()),
                Ordering::Less => {}
                _ => return Err("treeNotSorted: not properly sorted".into()),
            }
        }
        // A file and a folder of one name are apart in git's order if others sort between them.
        previous = Some((name.to_vec(), is_tree));
        checked.links.extend(kind.map(|kind| TypedLink { id: entry.id, kind: Some(kind), is_history: false }));
    }
    let mut names: Vec<&[u8]> = tree.entries().map(|entry| entry.name()).collect();
    names.sort_unstable();
    match names.windows(2).any(|pair| pair.first() == pair.last()) {
        true => Err("duplicateEntries: contains duplicate file entries".into()),
        false => Ok(checked),
    }
}

/// git's order of names in a tree: a folder sorts as if its name ended in a slash.
fn compare_names(a: &[u8], a_is_tree: bool, b: &[u8], b_is_tree: bool) -> Ordering {
    let end = |is_tree: bool| is_tree.then_some(b'/');
    a.iter().copied().chain(end(a_is_tree)).cmp(b.iter().copied().chain(end(b_is_tree)))
}

/// The longest name in a tree, in bytes, as git has it.
const MAX_NAME: usize = 4096;

fn check_name(name: &[u8]) -> Result<(), String> {
    if name.contains(&b'/') {
        return Err("fullPathname: contains full pathnames".into());
    }
    match name {
        b"." => Err("hasDot: contains '.'".into()),
        b".." => Err("hasDotdot: contains '..'".into()),
        _ if name.len() > MAX_NAME => Err("largePathname: contains excessively large pathname".into()),
        _ if is_alias(name, "git", "git~1") => Err("hasDotgit: contains '.git'".into()),
        _ => Ok(()),
    }
}

/// The header lines of a commit or tag that were not read yet.
struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let line = self.0.get(..end)?;
        self.0 = self.0.get(end + 1..)?;
        Some(line)
    }

    /// Reads the next line if it is `key`, a space and a value.
    fn field(&mut self, key: &str) -> Option<&'a [u8]> {
        let before = self.0;
        let value = self.next().and_then(|line| line.strip_prefix(key.as_bytes())?.strip_prefix(b" "));
        if value.is_none() {
            self.0 = before;
        }
        value
    }

    fn id(&mut self, key: &str) -> Option<Option<ObjectId>> {
        self.field(key).map(|value| std::str::from_utf8(value).ok().and_then(ObjectId::parse))
    }
}

fn check_commit(contents: &[u8]) -> Result<CheckedObject, String> {
    let header_end = contents.windows(2).position(|pair| pair == b"\n\n").map_or(contents.len(), |end| end + 1);
    let header = contents.get(..header_end).unwrap_or_default();
    if header.contains(&0) {
        return Err("nulInHeader: unterminated header: NUL at an offset in it".into());
    }
    if !header.ends_with(b"\n") {
        return Err("unterminatedHeader: unterminated header".into());
    }
    if contents.contains(&0) {
        return Err("nulInCommit: NUL byte in the commit object body".into());
    }
    let mut lines = Lines(header);
    let tree = lines.id("tree").ok_or("missingTree: invalid format - expected 'tree' line")?;
    let tree = tree.ok_or("badTreeSha1: invalid 'tree' line format - bad sha1")?;
    let mut links = vec![TypedLink { id: tree, kind: Some(ObjectKind::Tree), is_history: false }];
    while let Some(parent) = lines.id("parent") {
        let id = parent.ok_or("badParentSha1: invalid 'parent' line format - bad sha1")?;
        links.push(TypedLink { id, kind: Some(ObjectKind::Commit), is_history: true });
    }
    let author = lines.field("author").ok_or("missingAuthor: invalid format - expected 'author' line")?;
    check_ident(author)?;
    if lines.field("author").is_some() {
        return Err("multipleAuthors: invalid format - multiple 'author' lines".into());
    }
    let committer = lines.field("committer").ok_or("missingCommitter: invalid format - expected 'committer' line")?;
    check_ident(committer)?;
    Ok(CheckedObject { links, special_files: Vec::new() })
}

fn check_tag(contents: &[u8]) -> Result<CheckedObject, String> {
    let header_end = contents.windows(2).position(|pair| pair == b"\n\n").unwrap_or(contents.len());
    if contents.get(..header_end).is_some_and(|header| header.contains(&0)) {
        return Err("nulInHeader: unterminated header: NUL at an offset in it".into());
    }
    let mut lines = Lines(contents);
    let object = lines.id("object").ok_or("missingObject: invalid format - expected 'object' line")?;
    let id = object.ok_or("badObjectSha1: invalid 'object' line format - bad sha1")?;
    let kind = lines.field("type").ok_or("missingTypeEntry: invalid format - expected 'type' line")?;
    let kind = std::str::from_utf8(kind).ok().and_then(ObjectKind::parse).ok_or("badType: invalid 'type' value")?;
    lines.field("tag").ok_or("missingTagEntry: invalid format - expected 'tag' line")?;
    // Very old tags have no tagger.
    if let Some(tagger) = lines.field("tagger") {
        check_ident(tagger)?;
    }
    let is_history = kind == ObjectKind::Commit || kind == ObjectKind::Tag;
    Ok(CheckedObject { links: vec![TypedLink { id, kind: Some(kind), is_history }], special_files: Vec::new() })
}

/// `Name <address> seconds +zone`.
fn check_ident(line: &[u8]) -> Result<(), String> {
    let open = line.iter().position(|byte| matches!(byte, b'<' | b'>'));
    let open = open.ok_or("missingEmail: invalid author/committer line - missing email")?;
    if open == 0 && line.first() == Some(&b'<') {
        return Err("missingNameBeforeEmail: invalid author/committer line - missing space before email".into());
    }
    if line.get(open) == Some(&b'>') {
        return Err("badName: invalid author/committer line - bad name".into());
    }
    if line.get(open - 1) != Some(&b' ') {
        return Err("missingSpaceBeforeEmail: invalid author/committer line - missing space before email".into());
    }
    let address = line.get(open + 1..).unwrap_or_default();
    let close = address.iter().position(|byte| matches!(byte, b'<' | b'>'));
    let close = close
        .filter(|at| address.get(*at) == Some(&b'>'))
        .ok_or("badEmail: invalid author/committer line - bad email")?;
    let rest = address.get(close + 1..).unwrap_or_default();
    let rest = rest
        .strip_prefix(b" ")
        .ok_or("missingSpaceBeforeDate: invalid author/committer line - missing space before date")?;
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let rest = rest.get(blanks..).unwrap_or_default();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (date, zone) = rest.split_at_checked(digits).unwrap_or_default();
    if date.is_empty() {
        return Err("badDate: invalid author/committer line - bad date".into());
    }
    if date.len() > 1 && date.starts_with(b"0") {
        return Err("zeroPaddedDate: invalid author/committer line - zero-padded date".into());
    }
    if std::str::from_utf8(date).ok().and_then(|date| date.parse::<i64>().ok()).is_none() {
        return Err("badDateOverflow: invalid author/committer line - date causes integer overflow".into());
    }
    let is_zone =
        matches!(zone, [b' ', b'+' | b'-', digits @ ..] if digits.len() == 4 && digits.iter().all(u8::is_ascii_digit));
    if is_zone { Ok(()) } else { Err("badTimezone: invalid author/committer line - bad time zone".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: &[(&str, &[u8])]) -> Result<CheckedObject, String> {
        let mut bytes = Vec::new();
        for (mode, name) in entries {
            bytes.extend_from_slice(mode.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(name);
            bytes.push(0);
            bytes.extend_from_slice(&[1; ObjectId::LENGTH]);
        }
        check(ObjectKind::Tree, &bytes.into())
    }

    fn error(result: Result<CheckedObject, String>) -> String {
        result.err().map_or_else(|| "none".into(), |text| text.split(':').next().unwrap().to_owned())
    }

    #[test]
    fn trees_that_git_writes_pass() {
        let good =
            tree(&[("100644", b".gitignore"), ("100644", b"a.b"), ("40000", b"a"), ("160000", b"m"), ("120000", b"z")]);
        assert_eq!(good.unwrap().links.len(), 4);
        assert_eq!(tree(&[("100644", b".gitmodules")]).unwrap().special_files.len(), 1);
        assert_eq!(tree(&[("100644", b".GITATTRIBUTES ")]).unwrap().special_files.len(), 1);
        assert_eq!(tree(&[("120000", b".gitattributes")]).unwrap().special_files.len(), 0);
        for name in [&b"git"[..], b"...", b".git2", b"agit~1", b".github", &[b'n'; MAX_NAME]] {
            assert_eq!(error(tree(&[("100644", name)])), "none", "{name:?}");
        }
    }

    #[test]
    fn names_that_leave_the_working_copy_are_refused() {
        for (name, expected) in [
            (&b"."[..], "hasDot"),
            (b"..", "hasDotdot"),
            (b"a/b", "fullPathname"),
            (&[b'n'; MAX_NAME + 1], "largePathname"),
            (b".git", "hasDotgit"),
            (b".GIT", "hasDotgit"),
            (b".GIT ", "hasDotgit"),
            (b".git . .", "hasDotgit"),
            (b"git~1", "hasDotgit"),
            (b"GIT~1.", "hasDotgit"),
            (b".git::$INDEX_ALLOCATION", "hasDotgit"),
            (b"a\\.git\\b", "hasDotgit"),
            ("\u{200c}.Gi\u{200d}T".as_bytes(), "hasDotgit"),
        ] {
            assert_eq!(error(tree(&[("40000", name)])), expected, "{name:?}");
        }
        for name in [&b".gitmodules"[..], b".GITMODULES ", b"GITMOD~1", b"gi7eba~1", b"gi7eb~10"] {
            assert_eq!(error(tree(&[("120000", name)])), "gitmodulesSymlink", "{name:?}");
        }
    }

    #[test]
    fn trees_out_of_order_or_with_odd_modes_are_refused() {
        assert_eq!(error(tree(&[("100644", b"b"), ("100644", b"a")])), "treeNotSorted");
        assert_eq!(error(tree(&[("40000", b"a"), ("100644", b"a.b")])), "treeNotSorted");
        assert_eq!(error(tree(&[("100644", b"a"), ("100644", b"a")])), "duplicateEntries");
        assert_eq!(error(tree(&[("100644", b"a"), ("100644", b"a.b"), ("40000", b"a")])), "duplicateEntries");
        assert_eq!(error(tree(&[("040000", b"a")])), "zeroPaddedFilemode");
        for (mode, expected) in
            [("100777", "none"), ("100640", "none"), ("644", "badFilemode"), ("60000", "badFilemode")]
        {
            assert_eq!(error(tree(&[(mode, b"a")])), expected, "{mode}");
        }
        assert_eq!(error(check(ObjectKind::Tree, &Bytes::from_static(b"100644 a\0short"))), "badTree");
    }

    #[test]
    fn commits_and_tags_are_checked_line_by_line() {
        let id = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let person = "A U Thor <a@x> 1700000000 +0000";
        let commit = |text: String| check(ObjectKind::Commit, &Bytes::from(text));
        let good = format!("tree {id}\nparent {id}\nauthor {person}\ncommitter {person}\nencoding x\n\ntext");
        assert_eq!(commit(good.clone()).unwrap().links.len(), 2);
        for (from, to, expected) in [
            ("tree ", "treee ", "missingTree"),
            ("parent 4b", "parent 4", "badParentSha1"),
            ("author", "auteur", "missingAuthor"),
            ("committer", "comitter", "missingCommitter"),
            ("<a@x>", "a@x", "missingEmail"),
            ("<a@x>", "<a@x", "badEmail"),
            ("A U Thor <", "<", "missingNameBeforeEmail"),
            ("Thor <", "Thor> <", "badName"),
            ("text", "te\0xt", "nulInCommit"),
            (" <a@x>", "<a@x>", "missingSpaceBeforeEmail"),
            ("1700000000", "99999999999999999999", "badDateOverflow"),
            ("1700000000", "0170", "zeroPaddedDate"),
            ("1700000000", "x", "badDate"),
            ("+0000", "0000", "badTimezone"),
            ("encoding", "enc\0ding", "nulInHeader"),
        ] {
            assert_eq!(error(commit(good.replacen(from, to, 1))), expected, "{to}");
        }
        let tag = |text: String| check(ObjectKind::Tag, &Bytes::from(text));
        let good = format!("object {id}\ntype commit\ntag v1\ntagger {person}\n\ntext");
        assert!(tag(good.clone()).unwrap().links.first().unwrap().is_history);
        assert_eq!(error(tag(good.replace("type commit", "type thing"))), "badType");
        assert_eq!(error(tag(good.replace("tag v1\n", ""))), "missingTagEntry");
    }
}
