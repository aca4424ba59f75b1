//! The folders of a commit that lead to some files: read from the top, edited, and put together
//! again from the bottom. Only folders on the way to a file are ever read or written.

use crate::git::{Id, Kind, Object, Tree};
use std::collections::BTreeMap;

/// Folders of a commit by their path, the top one by the empty path.
pub struct Snapshot {
    folders: BTreeMap<Vec<u8>, Tree>,
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    Blob(Id),
    /// Nothing, a folder, or the commit of another repository.
    NoFile,
}

/// The folder that a path is in, and the name there.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (path.get(..slash).unwrap_or_default(), path.get(slash + 1..).unwrap_or_default()),
        None => (&[], path),
    }
}

impl Snapshot {
    /// Reads, with `read`, each folder on the way to one of `paths` once. An error is `read`'s.
    pub fn load<'a, E>(
        root: Id,
        paths: impl IntoIterator<Item = &'a str>,
        mut read: impl FnMut(Id) -> Result<Tree, E>,
    ) -> Result<Self, E> {
        let mut folders = BTreeMap::from([(Vec::new(), read(root)?)]);
        for path in paths {
            let (folder, _) = split(path.as_bytes());
            let mut above: Vec<u8> = Vec::new();
            for name in folder.split(|byte| *byte == b'/').filter(|_| !folder.is_empty()) {
                let mut here = above.clone();
                if !here.is_empty() {
                    here.push(b'/');
                }
                here.extend_from_slice(name);
                if !folders.contains_key(&here) {
                    let entry = folders.get(&above).and_then(|tree| tree.find(name)).filter(|entry| entry.is_tree());
                    let Some(id) = entry.map(|entry| entry.id) else { break };
                    folders.insert(here.clone(), read(id)?);
                }
                above = here;
            }
        }
        Ok(Snapshot { folders })
    }

    /// What stands at one of the paths that this was loaded for.
    pub fn node(&self, path: &str) -> Node {
        let (folder, name) = split(path.as_bytes());
        // Nothing is above the top folder.
        if path.starts_with('/') {
            return Node::NoFile;
        }
        let entry = self.folders.get(folder).and_then(|tree| tree.find(name));
        entry.filter(|entry| entry.is_blob()).map_or(Node::NoFile, |entry| Node::Blob(entry.id))
    }

    /// The new folders if these files, which must be there, get these contents; the last one is
    /// the top.
    pub fn replace(&self, files: &BTreeMap<&str, Id>) -> Vec<Object> {
        let mut changes: BTreeMap<&[u8], Vec<(&[u8], Id)>> = BTreeMap::new();
        for (path, id) in files {
            let (folder, name) = split(path.as_bytes());
            changes.entry(folder).or_default().push((name, *id));
        }
        let mut objects = Vec::new();
        // A folder comes after the one that it is in, so from the end each is complete when its
        // turn comes.
        for (path, tree) in self.folders.iter().rev() {
            let Some(changed) = changes.remove(path.as_slice()) else { continue };
            let object = Object::new(Kind::Tree, tree.replace(changed).bytes().to_vec());
            if !path.is_empty() {
                let (above, name) = split(path);
                changes.entry(above).or_default().push((name, object.id));
            }
            objects.push(object);
        }
        objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A repository of folders: `a`, `dir/b`, `dir/deep/c`, `other/d`.
    struct Repository {
        trees: BTreeMap<Id, Tree>,
        read: RefCell<Vec<Id>>,
        root: Id,
    }

    fn blob(text: &str) -> Id {
        Object::new(Kind::Blob, text.into()).id
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

        fn tree(&mut self, entries: &[(&str, &str, Id)]) -> Id {
            let mut bytes = Vec::new();
            for (mode, name, id) in entries {
                bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
                bytes.extend_from_slice(id.bytes());
            }
            let object = Object::new(Kind::Tree, bytes);
            self.trees.insert(object.id, Tree::parse(object.contents.into()).unwrap());
            object.id
        }

        fn load(&self, paths: &[&str]) -> Snapshot {
            let read = |id: Id| {
                self.read.borrow_mut().push(id);
                self.trees.get(&id).cloned().ok_or("missing")
            };
            Snapshot::load(self.root, paths.iter().copied(), read).unwrap()
        }
    }

    #[test]
    fn only_folders_on_the_way_are_read_and_each_once() {
        let repository = Repository::new(["1", "2", "3", "4"]);
        repository.load(&["dir/deep/c", "dir/b", "dir/deep/x", "dir/nowhere/y", "a"]);
        assert_eq!(repository.read.borrow().len(), 3);
    }

    #[test]
    fn files_are_told_from_other_things() {
        let paths =
            ["a", "dir/deep/c", "other/d", "dir", "dir/deep", "module", "module/x", "a/b", "", "dir/", "/a", "no"];
        let snapshot = Repository::new(["1", "2", "3", "4"]).load(&paths);
        let expected = ["1", "3", "4"].map(|text| Node::Blob(blob(text)));
        for (number, path) in paths.iter().enumerate() {
            assert_eq!(snapshot.node(path), expected.get(number).copied().unwrap_or(Node::NoFile), "{path}");
        }
    }

    #[test]
    fn new_folders_are_those_of_a_repository_with_the_new_files() {
        let snapshot = Repository::new(["1", "2", "3", "4"]).load(&["a", "dir/b", "dir/deep/c"]);
        let after = Repository::new(["1", "two", "three", "4"]);
        let objects = snapshot.replace(&BTreeMap::from([("dir/b", blob("two")), ("dir/deep/c", blob("three"))]));
        assert_eq!(objects.len(), 3);
        assert_eq!(objects.last().map(|object| object.id), Some(after.root));
        for object in objects {
            assert_eq!(after.trees[&object.id].bytes(), &object.contents);
        }
        let one = snapshot.replace(&BTreeMap::from([("a", blob("one"))]));
        assert_eq!((one.len(), one[0].id), (1, Repository::new(["one", "2", "3", "4"]).root));
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let mut repository = Repository::new(["1", "2", "3", "4"]);
        let root = repository.root;
        repository.trees.retain(|id, _| *id == root);
        let read = |id: Id| repository.trees.get(&id).cloned().ok_or("missing");
        assert!(Snapshot::load(root, ["dir/b"], read).is_err());
    }
}
