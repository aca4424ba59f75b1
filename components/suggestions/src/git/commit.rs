//! Commits: parsing one, writing a new one.

use crate::git::id::ObjectId;
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use kit::Timestamp;
use std::borrow::Cow;
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

/// The text of a commit. Bytes that are invalid in its encoding are replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CommitText {
    pub parents: Vec<ObjectId>,
    pub author: Ident,
    pub committer: Ident,
    pub message: String,
}

/// An author or committer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ident {
    pub name: String,
    pub email: String,
    /// ISO 8601 with milliseconds, in the person's time zone.
    pub date: String,
}

impl CommitText {
    /// The text in the contents of a commit; fields whose lines are missing are empty.
    pub fn parse(contents: &[u8]) -> Self {
        let text = decode(contents);
        let (header, message) = text.split_once("\n\n").unwrap_or((&*text, ""));
        let field = |name: &str| header.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let lines = header.lines().skip_while(|line| line.starts_with("tree "));
        // As in `Commit`: elsewhere they are other fields.
        let parents = lines.map_while(|line| ObjectId::parse(line.strip_prefix("parent ")?)).collect();
        CommitText {
            parents,
            author: Ident::parse(field("author ")),
            committer: Ident::parse(field("committer ")),
            message: message.to_owned(),
        }
    }
}

/// Decodes a commit by its header `encoding`, as git does; by UTF-8 if the header is missing or its encoding unknown.
/// All encodings except UTF-16, which git cannot show either, have ASCII where the header's names are.
fn decode(contents: &[u8]) -> Cow<'_, str> {
    let header = contents.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    let label = header.filter_map(|line| line.strip_prefix(b"encoding ")).next();
    let encoding = label.and_then(Encoding::for_label).filter(|encoding| ![UTF_16BE, UTF_16LE].contains(encoding));
    encoding.unwrap_or(UTF_8).decode_without_bom_handling(contents).0
}

impl Ident {
    /// `Name <e-mail> seconds zone`.
    fn parse(line: &str) -> Self {
        let (name, rest) = line.split_once('<').unwrap_or((line, ""));
        let (email, time) = rest.rsplit_once('>').unwrap_or((rest, ""));
        let mut words = time.split_whitespace();
        let seconds: i64 = words.next().and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
        let zone = words.next().and_then(Zone::parse).unwrap_or_default();
        let shifted = seconds.saturating_add(zone.seconds()).saturating_mul(1000);
        let date = Timestamp::from_millis(shifted).to_iso();
        let date = format!("{}{}", date.trim_end_matches('Z'), zone.text());
        Ident { name: name.trim().to_owned(), email: email.to_owned(), date }
    }
}

/// The difference of a time zone from UTC.
#[derive(Default)]
struct Zone {
    is_west: bool,
    hours: i64,
    minutes: i64,
}

impl Zone {
    /// Reads `+0130`.
    fn parse(text: &str) -> Option<Self> {
        let (sign, digits) = text.split_at_checked(1)?;
        let number: i64 = digits.parse().ok().filter(|_| digits.len() == 4)?;
        let (hours, minutes) = (number / 100, number % 100);
        (hours < 24 && minutes < 60 && number >= 0).then_some(Zone { is_west: sign == "-", hours, minutes })
    }

    fn seconds(&self) -> i64 {
        let seconds = (self.hours * 60 + self.minutes) * 60;
        if self.is_west { -seconds } else { seconds }
    }

    fn text(&self) -> String {
        format!("{}{:02}:{:02}", if self.is_west { '-' } else { '+' }, self.hours, self.minutes)
    }
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

#[cfg(test)]
mod commit_text_tests {
    use super::*;

    #[test]
    fn people_and_their_time_zones() {
        for (line, name, email, date) in [
            ("A B <a@x> 1700000000 +0000", "A B", "a@x", "2023-11-14T22:13:20.000+00:00"),
            ("A <a@x> 1700000000 +0130", "A", "a@x", "2023-11-14T23:43:20.000+01:30"),
            ("A <a@x> 1700000000 -0800", "A", "a@x", "2023-11-14T14:13:20.000-08:00"),
            (" <> 0 +9999", "", "", "1970-01-01T00:00:00.000+00:00"),
            ("A <a>b> 1 x", "A", "a>b", "1970-01-01T00:00:01.000+00:00"),
            ("no address", "no address", "", "1970-01-01T00:00:00.000+00:00"),
        ] {
            let expected = Ident { name: name.into(), email: email.into(), date: date.into() };
            assert_eq!(Ident::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn a_commit_is_decoded_by_its_encoding() {
        for (encoding, bytes, expected) in [
            ("", "J\u{fc}".as_bytes(), "J\u{fc}"),
            ("", b"J\xfc", "J\u{fffd}"),
            ("encoding ISO-8859-1\n", b"J\xfc", "J\u{fc}"),
            ("encoding latin1\n", b"J\xfc", "J\u{fc}"),
            ("encoding windows-1252\n", b"\x93J\x94", "\u{201c}J\u{201d}"),
            ("encoding Shift_JIS\n", b"\x93\xfa\x96\x7b", "\u{65e5}\u{672c}"),
            ("encoding iso-2022-jp\n", b"\x1b$BF|K\\\x1b(B", "\u{65e5}\u{672c}"),
            ("encoding UTF-8\n", b"J\xfc", "J\u{fffd}"),
            ("encoding UTF-16\n", b"J", "J"),
            ("encoding unheard-of\n", b"J\xfc", "J\u{fffd}"),
        ] {
            let header = ["tree x\nauthor ".as_bytes(), bytes, b" <a@x> 0 +0000\n", encoding.as_bytes()].concat();
            let read = CommitText::parse(&[&header, &b"\n"[..], bytes].concat());
            assert_eq!((&*read.author.name, &*read.message), (expected, expected), "{encoding} {bytes:?}");
        }
        // In the message, it is no header.
        assert_eq!(CommitText::parse(b"tree x\n\nencoding latin1\n\xfc").message, "encoding latin1\n\u{fffd}");
    }

    #[test]
    fn a_commit_without_anything() {
        assert_eq!(CommitText::parse(b"").message, "");
        assert_eq!(CommitText::parse(b"tree x\n\nwords\n\nmore").message, "words\n\nmore");
    }
}
