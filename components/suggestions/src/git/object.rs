//! Objects: a kind and contents, which together determine the id.

use super::id::ObjectId;
use sha1::{Digest, Sha1};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    Blob,
    Tree,
    Commit,
    Tag,
}

impl ObjectKind {
    pub fn as_str(self) -> &'static str {
        match self {
            ObjectKind::Blob => "blob",
            ObjectKind::Tree => "tree",
            ObjectKind::Commit => "commit",
            ObjectKind::Tag => "tag",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [ObjectKind::Blob, ObjectKind::Tree, ObjectKind::Commit, ObjectKind::Tag]
            .into_iter()
            .find(|kind| kind.as_str() == word)
    }

    /// The header that precedes the contents where an object is hashed and stored: kind, size in bytes, NUL.
    pub fn header(self, size: u64) -> String {
        format!("{} {size}\0", self.as_str())
    }

    /// Starts hashing an object of `size` bytes; [`id_from_hasher`] finishes.
    pub fn hasher(self, size: u64) -> Sha1 {
        Sha1::new().chain_update(self.header(size))
    }
}

/// The id of the header and contents that a hasher has been fed.
pub fn id_from_hasher(hasher: Sha1) -> ObjectId {
    ObjectId::new(hasher.finalize().into())
}

/// An object held in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub id: ObjectId,
    pub kind: ObjectKind,
    pub contents: Vec<u8>,
}

impl Object {
    pub fn new(kind: ObjectKind, contents: Vec<u8>) -> Self {
        let id = id_from_hasher(kind.hasher(contents.len() as u64).chain_update(&contents));
        Object { id, kind, contents }
    }
}

/// Parses an [`ObjectKind::header`] at the beginning of `bytes`: kind, size of the contents, length of the header.
pub fn parse_header(bytes: &[u8]) -> Option<(ObjectKind, u64, usize)> {
    let end = bytes.iter().take(32).position(|byte| *byte == 0)?;
    let (kind, size) = std::str::from_utf8(bytes.get(..end)?).ok()?.split_once(' ')?;
    Some((ObjectKind::parse(kind)?, size.parse().ok()?, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids that git documents or prints: of the empty blob, the empty tree, and `hello\n`.
    #[test]
    fn ids_equal_the_ids_of_git() {
        let id = |kind, contents: &str| Object::new(kind, contents.into()).id.to_string();
        assert_eq!(id(ObjectKind::Blob, ""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(id(ObjectKind::Tree, ""), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        assert_eq!(id(ObjectKind::Blob, "hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
    }

    #[test]
    fn headers() {
        assert_eq!(parse_header(b"blob 12\0rest"), Some((ObjectKind::Blob, 12, 8)));
        assert_eq!(parse_header(ObjectKind::Commit.header(7).as_bytes()), Some((ObjectKind::Commit, 7, 9)));
        for bad in [&b"blob 12"[..], b"blob12\0", b"thing 1\0", b"blob x\0", b"", b"\xff 1\0"] {
            assert_eq!(parse_header(bad), None);
        }
    }
}
