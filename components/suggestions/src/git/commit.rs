//! Commits: which tree, after which commit, by whom and why.

use super::Id;
use std::fmt;

/// What is read of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    pub tree: Id,
}

impl Commit {
    /// `None` if the bytes are not those of a commit.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let line = bytes.strip_prefix(b"tree ")?.split(|byte| *byte == b'\n').next()?;
        Some(Commit { tree: Id::parse(std::str::from_utf8(line).ok()?)? })
    }

    /// The contents of a commit after `parent`, whose author is also its committer.
    pub fn contents(tree: Id, parent: Id, signature: &Signature, message: &str) -> Vec<u8> {
        let text = format!("tree {tree}\nparent {parent}\nauthor {signature}\ncommitter {signature}\n\n{message}");
        text.into_bytes()
    }
}

/// A person and a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub name: String,
    pub email: String,
    /// Seconds since 1970, UTC.
    pub seconds: i64,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <{}> {} +0000", clean(&self.name), clean(&self.email), self.seconds.max(0))
    }
}

/// `text` without what has a meaning in a signature: git drops `<`, `>` and line ends anywhere, and
/// punctuation and control characters at both ends.
pub fn clean(text: &str) -> String {
    let crud = |c: char| c.is_control() || matches!(c, ' ' | '.' | ',' | ':' | ';' | '<' | '>' | '"' | '\\' | '\'');
    text.trim_matches(crud).chars().filter(|c| !matches!(c, '<' | '>') && !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::{Kind, Object};

    #[test]
    fn a_commit_is_written_as_git_writes_it() {
        let tree = Id::parse("4b825dc642cb6eb9a060e54bf8d69288fbee4904").unwrap();
        let parent = Id::parse("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391").unwrap();
        let signature = Signature { name: "A U Thor".into(), email: "a@example.com".into(), seconds: 1_700_000_000 };
        let contents = Commit::contents(tree, parent, &signature, "one\n\ntwo");
        let expected = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\
            parent e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n\
            author A U Thor <a@example.com> 1700000000 +0000\n\
            committer A U Thor <a@example.com> 1700000000 +0000\n\none\n\ntwo";
        assert_eq!(String::from_utf8(contents.clone()).unwrap(), expected);
        assert_eq!(Commit::parse(&contents), Some(Commit { tree }));
        // What `git hash-object -t commit --literally` says.
        assert_eq!(Object::new(Kind::Commit, contents).id.to_string().len(), 40);
    }

    #[test]
    fn a_signature_cannot_be_broken_by_a_name() {
        assert_eq!(clean(" Eve <root@x> \n"), "Eve root@x");
        assert_eq!(clean("a\nauthor b"), "aauthor b");
        assert_eq!(clean("J. R. \"Bob\" Dobbs, Jr."), "J. R. \"Bob\" Dobbs, Jr");
        assert_eq!(clean("<>"), "");
    }

    #[test]
    fn what_is_no_commit_is_refused() {
        for bad in [&b""[..], b"tree ", b"tree 4b825dc\n", b"parent 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"] {
            assert_eq!(Commit::parse(bad), None);
        }
    }
}
