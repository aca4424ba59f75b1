//! The trees of a commit on the paths to some files: read from the top, rewritten from the bottom. No
//! other tree is read or written.

use crate::git::{Object, ObjectId, ObjectKind, Tree};
use std::collections::BTreeMap;

/// Trees of a commit by their path; the root tree's path is empty.
pub struct SparseTree {
    trees: BTreeMap<Vec<u8>, Tree>,
}

/// The path of the directory that a path is in, and the name there.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (path.get(..slash).unwrap_or_default(), path.get(slash + 1..).unwrap_or_default()),
        None => (&[], path),
    }
}

impl SparseTree {
    /// Reads each tree on the way to one of `paths` once, with `read`, whose error is returned.
    pub fn load<'a, E>(
        root: ObjectId,
        paths: impl IntoIterator<Item = &'a str>,
        mut read: impl FnMut(ObjectId) -> Result<Tree, E>,
    ) -> Result<Self, E> {
        let mut sparse_tree = SparseTree { trees: BTreeMap::from([(Vec::new(), read(root)?)]) };
        sparse_tree.extend(paths, read)?;
        Ok(sparse_tree)
    }

    /// Reads the trees on the way to more paths.
    pub fn extend<'a, E>(
        &mut self,
        paths: impl IntoIterator<Item = &'a str>,
        mut read: impl FnMut(ObjectId) -> Result<Tree, E>,
    ) -> Result<(), E> {
        let trees = &mut self.trees;
        for path in paths {
            let (directory, _) = split(path.as_bytes());
            let mut parent: Vec<u8> = Vec::new();
            for name in directory.split(|byte| *byte == b'/').filter(|_| !directory.is_empty()) {
                let mut path = parent.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(name);
                if !trees.contains_key(&path) {
                    let entry = trees.get(&parent).and_then(|tree| tree.find(name)).filter(|entry| entry.is_tree());
                    let Some(id) = entry.map(|entry| entry.id) else { break };
                    trees.insert(path.clone(), read(id)?);
                }
                parent = path;
            }
        }
        Ok(())
    }

    /// The blob at one of the paths that this was loaded for; `None` if there is nothing, a directory or a submodule.
    pub fn blob(&self, path: &str) -> Option<ObjectId> {
        // `split` would take the empty directory of an absolute path for the root tree.
        if path.starts_with('/') {
            return None;
        }
        let (directory, name) = split(path.as_bytes());
        let entry = self.trees.get(directory).and_then(|tree| tree.find(name));
        entry.filter(|entry| entry.is_blob()).map(|entry| entry.id)
    }

    /// The new trees after these existing files got these blobs, each with its former id. The root tree comes last.
    pub fn replace_blobs(&self, files: &BTreeMap<&str, ObjectId>) -> Vec<(Object, ObjectId)> {
        let mut changes: BTreeMap<&[u8], Vec<(&[u8], ObjectId)>> = BTreeMap::new();
        for (path, id) in files {
            let (directory, name) = split(path.as_bytes());
            changes.entry(directory).or_default().push((name, *id));
        }
        let mut objects = Vec::new();
        // A tree sorts after its parent, so in reverse order the changes of each tree are complete.
        for (path, tree) in self.trees.iter().rev() {
            let Some(changed) = changes.remove(path.as_slice()) else { continue };
            let object = Object::new(ObjectKind::Tree, tree.replace(changed).bytes().to_vec());
            if !path.is_empty() {
                let (parent, name) = split(path);
                changes.entry(parent).or_default().push((name, object.id));
            }
            let previous = Object::new(ObjectKind::Tree, tree.bytes().to_vec()).id;
            objects.push((object, previous));
        }
        objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A repository with the files `a`, `dir/b`, `dir/deep/c`, `other/d`.
    struct Repository {
        trees: BTreeMap<ObjectId, Tree>,
        read: RefCell<Vec<ObjectId>>,
        root: ObjectId,
    }

    fn blob(text: &str) -> ObjectId {
        Object::new(ObjectKind::Blob, text.into()).id
    }

    impl Repository {
        fn new(files: [&str; 4]) -> Self {
            let mut repository = Repository { trees: BTreeMap::new(), read: RefCell::default(), root: blob("") };
            let deep = repository.tree(&[("100644", "c", blob(files[2]))]);
            let dir = repository.tree(&[("100755", "b", blob(files[1])), ("40000", "deep", deep)]);
            let other = repository.tree(&[("120000", "d", blob(files[3]))]);
            repository.root = repository.tree(&[
                ("100644", "a", blob(files[0])),
                ("40000", "dir", dir),
                ("160000", "module", blob("x")),
                ("40000", "other", other),
            ]);
            repository
        }

        fn tree(&mut self, entries: &[(&str, &str, ObjectId)]) -> ObjectId {
            let mut bytes = Vec::new();
            for (mode, name, id) in entries {
                bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
                bytes.extend_from_slice(id.bytes());
            }
            let object = Object::new(ObjectKind::Tree, bytes);
            self.trees.insert(object.id, Tree::parse(object.contents.into()).unwrap());
            object.id
        }

        fn load(&self, paths: &[&str]) -> SparseTree {
            let read = |id: ObjectId| {
                self.read.borrow_mut().push(id);
                self.trees.get(&id).cloned().ok_or("missing")
            };
            SparseTree::load(self.root, paths.iter().copied(), read).unwrap()
        }
    }

    #[test]
    fn only_trees_on_the_paths_are_read_and_each_once() {
        let repository = Repository::new(["1", "2", "3", "4"]);
        repository.load(&["dir/deep/c", "dir/b", "dir/deep/x", "dir/nowhere/y", "a"]);
        assert_eq!(repository.read.borrow().len(), 3);
    }

    #[test]
    fn only_files_have_blobs() {
        let paths =
            ["a", "dir/deep/c", "other/d", "dir", "dir/deep", "module", "module/x", "a/b", "", "dir/", "/a", "no"];
        let sparse_tree = Repository::new(["1", "2", "3", "4"]).load(&paths);
        let expected = ["1", "3", "4"].map(blob);
        for (number, path) in paths.iter().enumerate() {
            assert_eq!(sparse_tree.blob(path), expected.get(number).copied(), "{path}");
        }
    }

    #[test]
    fn new_trees_match_a_repository_with_the_new_files() {
        let sparse_tree = Repository::new(["1", "2", "3", "4"]).load(&["a", "dir/b", "dir/deep/c"]);
        let after = Repository::new(["1", "two", "three", "4"]);
        let objects =
            sparse_tree.replace_blobs(&BTreeMap::from([("dir/b", blob("two")), ("dir/deep/c", blob("three"))]));
        assert_eq!(objects.len(), 3);
        assert_eq!(objects.last().map(|(object, _)| object.id), Some(after.root));
        assert_eq!(objects.last().map(|(_, previous)| *previous), Some(Repository::new(["1", "2", "3", "4"]).root));
        for (object, _) in objects {
            assert_eq!(after.trees[&object.id].bytes(), &object.contents);
        }
        let one = sparse_tree.replace_blobs(&BTreeMap::from([("a", blob("one"))]));
        assert_eq!((one.len(), one[0].0.id), (1, Repository::new(["one", "2", "3", "4"]).root));
    }

    #[test]
    fn a_missing_tree_is_an_error() {
        let mut repository = Repository::new(["1", "2", "3", "4"]);
        let root = repository.root;
        repository.trees.retain(|id, _| *id == root);
        let read = |id: ObjectId| repository.trees.get(&id).cloned().ok_or("missing");
        assert!(SparseTree::load(root, ["dir/b"], read).is_err());
    }
}
