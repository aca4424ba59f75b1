//! Objects: a kind and contents, and the id that both together have.

use super::Id;
use sha1::{Digest, Sha1};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Blob,
    Tree,
    Commit,
    Tag,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Blob => "blob",
            Kind::Tree => "tree",
            Kind::Commit => "commit",
            Kind::Tag => "tag",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Kind::Blob, Kind::Tree, Kind::Commit, Kind::Tag].into_iter().find(|kind| kind.as_str() == word)
    }

    /// What comes before the contents in all that is hashed and stored: kind, size in bytes, NUL.
    pub fn header(self, size: u64) -> String {
        format!("{} {size}\0", self.as_str())
    }

    /// Begins the id of an object of `size` bytes; [`finish`] ends it.
    pub fn hasher(self, size: u64) -> Sha1 {
        Sha1::new().chain_update(self.header(size))
    }
}

/// The id that a hasher has come to.
pub fn finish(hasher: Sha1) -> Id {
    Id::new(hasher.finalize().into())
}

/// A new object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub id: Id,
    pub kind: Kind,
    pub contents: Vec<u8>,
}

impl Object {
    pub fn new(kind: Kind, contents: Vec<u8>) -> Self {
        let id = finish(kind.hasher(contents.len() as u64).chain_update(&contents));
        Object { id, kind, contents }
    }
}

/// Reads a [`Kind::header`] at the beginning of `bytes`: kind, size, and its own length.
pub fn read_header(bytes: &[u8]) -> Option<(Kind, u64, usize)> {
    let end = bytes.iter().take(32).position(|byte| *byte == 0)?;
    let (kind, size) = std::str::from_utf8(bytes.get(..end)?).ok()?.split_once(' ')?;
    Some((Kind::parse(kind)?, size.parse().ok()?, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids that git documents or prints: of the empty blob, the empty tree, and `hello\n`.
    #[test]
    fn ids_are_those_of_git() {
        let id = |kind, contents: &str| Object::new(kind, contents.into()).id.to_string();
        assert_eq!(id(Kind::Blob, ""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(id(Kind::Tree, ""), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        assert_eq!(id(Kind::Blob, "hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
    }

    #[test]
    fn headers() {
        assert_eq!(read_header(b"blob 12\0rest"), Some((Kind::Blob, 12, 8)));
        assert_eq!(read_header(Kind::Commit.header(7).as_bytes()), Some((Kind::Commit, 7, 9)));
        for bad in [&b"blob 12"[..], b"blob12\0", b"thing 1\0", b"blob x\0", b"", b"\xff 1\0"] {
            assert_eq!(read_header(bad), None);
        }
    }
}
