//! Objects: a kind and contents, which together determine the id.

use crate::git::id::ObjectId;
use crate::git::tree::Tree;
use bytes::Bytes;
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

/// A reference from one object to another of the same repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// The tree of a commit, an entry of a tree or the target of a tag: the object is incomplete without it.
    Part(ObjectId),
    /// A parent of a commit; a shallow history lacks it.
    Parent(ObjectId),
}

/// The links of an object in the order of its contents, without submodules. `None` if the contents are
/// not those of an object of this kind.
pub fn parse_links(kind: ObjectKind, contents: Bytes) -> Option<Vec<Link>> {
    match kind {
        ObjectKind::Blob => Some(Vec::new()),
        ObjectKind::Tree => {
            let tree = Tree::parse(contents)?;
            let local = tree.entries().filter(|entry| entry.is_tree() || entry.is_blob());
            Some(local.map(|entry| Link::Part(entry.id)).collect())
        }
        ObjectKind::Commit => {
            let mut header = HeaderLines(&contents);
            let mut links = vec![Link::Part(header.parse_id(b"tree ")?)];
            while let Some(parent) = header.parse_id(b"parent ") {
                links.push(Link::Parent(parent));
            }
            Some(links)
        }
        ObjectKind::Tag => Some(vec![Link::Part(HeaderLines(&contents).parse_id(b"object ")?)]),
    }
}

/// The header lines of a commit or tag that were not parsed yet.
struct HeaderLines<'a>(&'a [u8]);

impl HeaderLines<'_> {
    /// Consumes the next line if it is `start` and an id.
    fn parse_id(&mut self, start: &[u8]) -> Option<ObjectId> {
        let rest = self.0.strip_prefix(start)?;
        let (id, rest) = rest.split_at_checked(2 * ObjectId::LENGTH)?;
        let id = ObjectId::parse(std::str::from_utf8(id).ok()?)?;
        self.0 = rest.strip_prefix(b"\n")?;
        Some(id)
    }
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

#[cfg(test)]
mod links_tests {
    use super::*;

    const A: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    const B: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";

    fn links_of(kind: ObjectKind, text: String) -> Option<Vec<Link>> {
        parse_links(kind, Bytes::from(text))
    }

    #[test]
    fn commits_name_their_tree_and_parents_and_tags_their_object() {
        let [a, b] = [A, B].map(|id| ObjectId::parse(id).unwrap());
        let commit = format!("tree {A}\nparent {B}\nparent {A}\nauthor x\n\nparent {B}\n");
        assert_eq!(links_of(ObjectKind::Commit, commit), Some(vec![Link::Part(a), Link::Parent(b), Link::Parent(a)]));
        assert_eq!(links_of(ObjectKind::Commit, format!("tree {A}\nauthor x\n")), Some(vec![Link::Part(a)]));
        assert_eq!(links_of(ObjectKind::Tag, format!("object {B}\ntype commit\n")), Some(vec![Link::Part(b)]));
        assert_eq!(links_of(ObjectKind::Blob, format!("tree {A}\n")), Some(vec![]));
        for bad in ["", "tree ", &format!("tree {A}"), &format!("parent {A}\n")] {
            assert_eq!(links_of(ObjectKind::Commit, bad.to_owned()), None, "{bad}");
            assert_eq!(links_of(ObjectKind::Tag, bad.to_owned()), None, "{bad}");
        }
    }

    #[test]
    fn trees_name_blobs_and_trees_and_not_submodules() {
        let mut bytes = Vec::new();
        for (mode, number) in [("100644 a", 1), ("120000 b", 2), ("160000 c", 3), ("40000 d", 4)] {
            bytes.extend_from_slice(format!("{mode}\0").as_bytes());
            bytes.extend_from_slice(&[number; ObjectId::LENGTH]);
        }
        let ids = [1, 2, 4].map(|number| Link::Part(ObjectId::new([number; ObjectId::LENGTH])));
        assert_eq!(parse_links(ObjectKind::Tree, bytes.clone().into()), Some(ids.to_vec()));
        bytes.pop();
        assert_eq!(parse_links(ObjectKind::Tree, bytes.into()), None);
    }
}
