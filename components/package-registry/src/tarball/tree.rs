//! The folders, files and links of an archive. No two entries have one path on any file system.

use super::error::{TarballError, excerpt};
use super::name::{self, EntryName};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;

const SAME_NAME: &str =
    "some systems take for another one: they ignore letter case, Unicode forms and what ends a name";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A folder, even if it only occurs in other names.
    Folder,
    File,
    Link,
}

/// Whether an entry repeats an earlier entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    New,
    /// The file was added before, and its contents are known: they must be equal.
    Repeated,
}

/// The paths of the entries so far, with the kind of each.
#[derive(Debug, Default)]
pub struct Tree {
    /// The top-level folder of every entry.
    top: Option<String>,
    /// By [`digest`] of the key, which bounds the memory for an entry of any name. A publisher cannot make two keys'
    /// digests equal.
    nodes: HashMap<[u8; 16], Node>,
    /// Digests of the contents of files that may be repeated.
    contents: HashMap<[u8; 16], [u8; 32]>,
    /// The most entries.
    limit: u32,
}

#[derive(Debug)]
struct Node {
    kind: NodeKind,
    /// The digest of the path as it was first written.
    spelling: [u8; 16],
}

fn digest(text: &str) -> [u8; 16] {
    let digest: [u8; 32] = Sha256::digest(text).into();
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = digest;
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

/// A path and its key, with the offsets in both at which each folder ends.
struct KeyedPath<'a> {
    path: &'a str,
    key: String,
    ends: Vec<(usize, usize)>,
}

impl<'a> KeyedPath<'a> {
    fn new(path: &'a str) -> Self {
        let (mut key, mut ends, mut end) = (String::new(), Vec::new(), 0);
        for (segment, segment_key) in path.split('/').zip(name::segment_keys(path)) {
            if !ends.is_empty() {
                key.push('/');
                end += 1;
            }
            key.push_str(&segment_key);
            end += segment.len();
            ends.push((end, key.len()));
        }
        KeyedPath { path, key, ends }
    }

    /// The path and its folders, the innermost first, each with its key.
    fn prefixes(&self) -> impl Iterator<Item = (&str, &str)> {
        let ends = self.ends.iter().rev();
        ends.filter_map(|(path_end, key_end)| Some((self.path.get(..*path_end)?, self.key.get(..*key_end)?)))
    }
}

impl Tree {
    /// A tree of at most `limit` entries.
    pub fn new(limit: u32) -> Self {
        Tree { limit, ..Tree::default() }
    }

    /// Adds an entry and the folders in its name. A folder may be added again, and so may a file whose contents are
    /// known.
    pub fn add(&mut self, name: &EntryName, kind: NodeKind) -> Result<Added, TarballError> {
        let refused = |why| Err(TarballError::Entry(excerpt(name.text.as_bytes()), why));
        match &self.top {
            Some(top) if top != name.top => return refused("is in another top-level folder than the first entry"),
            Some(_) => {}
            None => self.top = Some(name.top.to_owned()),
        }
        if name.inside.is_empty() {
            return if kind == NodeKind::Folder { Ok(Added::New) } else { refused("is not in a folder") };
        }
        let path = KeyedPath::new(name.inside);
        let mut paths = path.prefixes().map(|(path, key)| (digest(path), digest(key)));
        if let Some((spelling, key)) = paths.next() {
            match self.nodes.get(&key) {
                None => self.insert(key, Node { kind, spelling })?,
                Some(node) if node.spelling != spelling => return refused(SAME_NAME),
                Some(node) if node.kind == NodeKind::Folder && kind == NodeKind::Folder => return Ok(Added::New),
                Some(_) if kind == NodeKind::File && self.contents.contains_key(&key) => return Ok(Added::Repeated),
                Some(_) => return refused("is there twice"),
            }
        }
        for (spelling, key) in paths {
            match self.nodes.get(&key) {
                None => self.insert(key, Node { kind: NodeKind::Folder, spelling })?,
                Some(node) if node.kind != NodeKind::Folder => return refused("is below a file or a link"),
                // If this folder was added, so were the folders above it.
                Some(node) if node.spelling == spelling => return Ok(Added::New),
                Some(_) => return refused(SAME_NAME),
            }
        }
        Ok(Added::New)
    }

    /// Records the contents of a file, or compares them with the recorded contents. False if they differ.
    pub fn has_contents(&mut self, inside: &str, contents: [u8; 32]) -> bool {
        *self.contents.entry(digest(&name::key(inside))).or_insert(contents) == contents
    }

    fn insert(&mut self, key: [u8; 16], node: Node) -> Result<(), TarballError> {
        // Allows a folder for each entry. Packages have fewer.
        if self.nodes.len() as u64 >= 2 * u64::from(self.limit) {
            return Err(TarballError::TooManyEntries(self.limit));
        }
        self.nodes.insert(key, node);
        Ok(())
    }

    /// Whether an entry with the key of `inside` was added.
    pub fn contains(&self, inside: &str) -> bool {
        self.nodes.contains_key(&digest(&name::key(inside)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds entries; a name with a slash at its end is a folder.
    fn add(names: &[&str]) -> Result<Tree, String> {
        let mut tree = Tree::new(10);
        for name in names {
            let kind = if name.ends_with('/') { NodeKind::Folder } else { NodeKind::File };
            let name = EntryName::read(name.as_bytes()).unwrap();
            tree.add(&name, kind).map_err(|error| error.to_string())?;
        }
        Ok(tree)
    }

    #[track_caller]
    fn is_refused(names: &[&str], why: &str) {
        let error = add(names).unwrap_err();
        assert!(error.contains(names[names.len() - 1]) && error.contains(why), "{names:?}: {error}");
    }

    #[test]
    fn a_tree_has_each_name_once() {
        assert!(add(&["package/", "package/a/", "package/a/b", "package/a/", "package/a/c", "package/d/e/f"]).is_ok());
        is_refused(&["package/a", "package/a"], "is there twice");
        is_refused(&["package/a/b", "package/a"], "is there twice");
        is_refused(&["package/a", "package/a/"], "is there twice");
        is_refused(&["package/a", "package/a/b"], "is below a file or a link");
        is_refused(&["package/a", "package/a/b/c/d"], "is below a file or a link");
    }

    #[test]
    fn names_that_a_file_system_takes_for_one_are_refused() {
        for (one, other) in [
            ("package/a", "package/A"),
            ("package/a/x", "package/A/y"),
            ("package/A/x/y/z", "package/a/x/y/w"),
            ("package/\u{e9}", "package/e\u{301}"),
            ("package/package.json", "package/package.json."),
            ("package/package.json", "package/PACKAG~1.JSO"),
            ("package/a/", "package/A/"),
        ] {
            is_refused(&[one, other], "some systems take for another one");
        }
        is_refused(&["package/package.json", "package/PACKAG~1.JSO/x"], "is below a file or a link");
    }

    #[test]
    fn there_is_one_top_level_folder() {
        assert!(add(&["x/", "x/a"]).is_ok());
        is_refused(&["x/a", "y/a"], "is in another top-level folder");
        is_refused(&["x/a", "X/b"], "is in another top-level folder");
        is_refused(&["package.json"], "is not in a folder");
    }

    #[test]
    fn entries_are_found_by_key() {
        let tree = add(&["package/Binding.gyp"]).unwrap();
        assert!(tree.contains("binding.gyp") && !tree.contains("package.json"));
    }
}
