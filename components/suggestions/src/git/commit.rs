//! Commits: parsing one, writing a new one.

use super::id::ObjectId;
use std::fmt;

/// The part of a commit that this component uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub tree: ObjectId,
    pub parents: Vec<ObjectId>,
    /// When it was committed, in seconds since 1970; 0 if that cannot be read.
    pub seconds: i64,
}

impl Commit {
    /// `None` if the bytes are not those of a commit.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
        let id = |line: &[u8], kind: &[u8]| ObjectId::parse(std::str::from_utf8(line.strip_prefix(kind)?).ok()?);
        let tree = id(lines.next()?, b"tree ")?;
        let mut parents = Vec::new();
        // Parents follow the tree: elsewhere git takes such a line for another field.
        while let Some(parent) = lines.peek().and_then(|line| id(line, b"parent ")) {
            parents.push(parent);
            lines.next();
        }
        let mut seconds = 0;
        for line in lines.take_while(|line| !line.is_empty()) {
            if line.starts_with(b"committer ") {
                let time = line.rsplit(|byte| *byte == b' ').nth(1).and_then(|time| std::str::from_utf8(time).ok());
                seconds = time.and_then(|time| time.parse().ok()).unwrap_or_default();
            }
        }
        Some(Commit { tree, parents, seconds })
    }

    /// The contents of a commit on top of `parent`.
    pub fn render(
        tree: ObjectId,
        parent: ObjectId,
        author: &Signature,
        committer: &Signature,
        message: &str,
    ) -> Vec<u8> {
        format!("tree {tree}\nparent {parent}\nauthor {author}\ncommitter {committer}\n\n{message}").into_bytes()
    }
}

/// The author or committer of a commit, and when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub name: String,
    pub email: String,
    /// Seconds since 1970, UTC.
    pub seconds: i64,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <{}> {} +0000", strip_crud(&self.name), strip_crud(&self.email), self.seconds.max(0))
    }
}

/// `text` as it may stand in a signature. Like git, drops `<`, `>` and control characters anywhere, and
/// punctuation at both ends (`strbuf_addstr_without_crud` in git's ident.c).
pub fn strip_crud(text: &str) -> String {
    let crud = |c: char| c.is_control() || matches!(c, ' ' | '.' | ',' | ':' | ';' | '<' | '>' | '"' | '\\' | '\'');
    text.trim_matches(crud).chars().filter(|c| !matches!(c, '<' | '>') && !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::{Object, ObjectKind};

    #[test]
    fn a_commit_is_written_as_git_writes_it() {
        let tree = ObjectId::parse("4b825dc642cb6eb9a060e54bf8d69288fbee4904").unwrap();
        let parent = ObjectId::parse("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391").unwrap();
        let signature = Signature { name: "A U Thor".into(), email: "a@example.com".into(), seconds: 1_700_000_000 };
        let committer = Signature { name: "C O Mitter".into(), email: "c@example.com".into(), ..signature };
        let contents = Commit::render(tree, parent, &signature, &committer, "one\n\ntwo");
        let expected = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\
            parent e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n\
            author A U Thor <a@example.com> 1700000000 +0000\n\
            committer C O Mitter <c@example.com> 1700000000 +0000\n\none\n\ntwo";
        assert_eq!(String::from_utf8(contents.clone()).unwrap(), expected);
        assert_eq!(Commit::parse(&contents), Some(Commit { tree, parents: vec![parent], seconds: 1_700_000_000 }));
        assert_eq!(Object::new(ObjectKind::Commit, contents).id.to_string().len(), 40);
    }

    #[test]
    fn a_signature_cannot_be_broken_by_a_name() {
        assert_eq!(strip_crud(" Eve <root@x> \n"), "Eve root@x");
        assert_eq!(strip_crud("a\nauthor b"), "aauthor b");
        assert_eq!(strip_crud("J. R. \"Bob\" Dobbs, Jr."), "J. R. \"Bob\" Dobbs, Jr");
        assert_eq!(strip_crud("<>"), "");
    }

    #[test]
    fn malformed_commits_are_rejected() {
        for bad in [&b""[..], b"tree ", b"tree 4b825dc\n", b"parent 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"] {
            assert_eq!(Commit::parse(bad), None);
        }
    }
}
