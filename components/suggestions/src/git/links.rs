//! What an object names.

use super::{Id, Kind, Tree};
use bytes::Bytes;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// What the object is not whole without.
    Part(Id),
    /// The commit before a commit.
    Parent(Id),
}

/// `None` if the contents are not those of an object of this kind. What is in another repository is
/// left out.
pub fn links(kind: Kind, contents: Bytes) -> Option<Vec<Link>> {
    match kind {
        Kind::Blob => Some(Vec::new()),
        Kind::Tree => {
            let tree = Tree::parse(contents)?;
            let here = tree.entries().filter(|entry| entry.is_tree() || entry.is_blob());
            Some(here.map(|entry| Link::Part(entry.id)).collect())
        }
        Kind::Commit => {
            let mut lines = Lines(&contents);
            let mut links = vec![Link::Part(lines.id(b"tree ")?)];
            while let Some(parent) = lines.id(b"parent ") {
                links.push(Link::Parent(parent));
            }
            Some(links)
        }
        Kind::Tag => Some(vec![Link::Part(Lines(&contents).id(b"object ")?)]),
    }
}

/// The first lines of an object.
struct Lines<'a>(&'a [u8]);

impl Lines<'_> {
    /// The id in the next line, if that begins with these bytes.
    fn id(&mut self, start: &[u8]) -> Option<Id> {
        let rest = self.0.strip_prefix(start)?;
        let (id, rest) = rest.split_at_checked(2 * Id::LENGTH)?;
        let id = Id::parse(std::str::from_utf8(id).ok()?)?;
        self.0 = rest.strip_prefix(b"\n")?;
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    const B: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";

    fn of(kind: Kind, text: String) -> Option<Vec<Link>> {
        links(kind, Bytes::from(text))
    }

    #[test]
    fn commits_name_their_tree_and_parents_and_tags_their_object() {
        let [a, b] = [A, B].map(|id| Id::parse(id).unwrap());
        let commit = format!("tree {A}\nparent {B}\nparent {A}\nauthor x\n\nparent {B}\n");
        assert_eq!(of(Kind::Commit, commit), Some(vec![Link::Part(a), Link::Parent(b), Link::Parent(a)]));
        assert_eq!(of(Kind::Commit, format!("tree {A}\nauthor x\n")), Some(vec![Link::Part(a)]));
        assert_eq!(of(Kind::Tag, format!("object {B}\ntype commit\n")), Some(vec![Link::Part(b)]));
        assert_eq!(of(Kind::Blob, format!("tree {A}\n")), Some(vec![]));
        for bad in ["", "tree ", &format!("tree {A}"), &format!("parent {A}\n")] {
            assert_eq!(of(Kind::Commit, bad.to_owned()), None, "{bad}");
            assert_eq!(of(Kind::Tag, bad.to_owned()), None, "{bad}");
        }
    }

    #[test]
    fn trees_name_files_and_folders_and_not_other_repositories() {
        let mut bytes = Vec::new();
        for (mode, number) in [("100644 a", 1), ("120000 b", 2), ("160000 c", 3), ("40000 d", 4)] {
            bytes.extend_from_slice(format!("{mode}\0").as_bytes());
            bytes.extend_from_slice(&[number; Id::LENGTH]);
        }
        let ids = [1, 2, 4].map(|number| Link::Part(Id::new([number; Id::LENGTH])));
        assert_eq!(links(Kind::Tree, bytes.clone().into()), Some(ids.to_vec()));
        bytes.pop();
        assert_eq!(links(Kind::Tree, bytes.into()), None);
    }
}
