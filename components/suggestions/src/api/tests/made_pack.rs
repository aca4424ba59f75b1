//! Packs that no git sends.

use super::ref_names::body;
use super::*;
use crate::git::pack_entry::write_header;
use crate::store::zlib::deflate;
use sha1::{Digest, Sha1};

/// A pack by hand.
pub struct Pack {
    entries: Vec<u8>,
    count: u32,
    env: Env,
}

impl Pack {
    pub fn new() -> Self {
        Pack { entries: Vec::new(), count: 0, env: testing::env(MemoryStore::default(), &[]) }
    }

    /// A pack of whole objects.
    pub fn of<'o>(objects: impl IntoIterator<Item = &'o Object>) -> Self {
        objects.into_iter().fold(Pack::new(), Pack::with)
    }

    pub fn add(mut self, kind: EntryKind, size: usize, contents: &[u8]) -> Self {
        write_header(&mut self.entries, kind, size as u64);
        deflate(&self.env, ObjectKind::Blob, contents, &mut self.entries).unwrap();
        self.count += 1;
        self
    }

    pub fn with(self, object: &Object) -> Self {
        self.add(EntryKind::Object(object.kind), object.contents.len(), &object.contents)
    }

    /// Adds an object as a delta of another one, which the repository or the pack has.
    pub fn with_delta(self, base: &Object, object: &Object) -> Self {
        self.with_delta_as(EntryKind::RefDelta(base.id), base, object)
    }

    pub fn with_delta_as(self, kind: EntryKind, base: &Object, object: &Object) -> Self {
        let delta = crate::git::pack_entry::of_edit(&base.contents, &object.contents);
        self.add(kind, delta.len(), &delta)
    }

    /// Bytes of the entries so far.
    pub fn size(&self) -> u64 {
        self.entries.len() as u64
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"PACK\0\0\0\x02".to_vec();
        bytes.extend_from_slice(&self.count.to_be_bytes());
        bytes.extend_from_slice(&self.entries);
        let checksum = Sha1::digest(&bytes);
        bytes.extend_from_slice(&checksum);
        bytes
    }
}

/// A pack of a commit with one file, and the commit.
pub fn with_one_commit() -> (Vec<u8>, ObjectId) {
    let blob = new_blob("hello\n");
    let tree = new_tree(&[("100644 a", blob.id)]);
    let commit = new_commit(tree.id);
    (Pack::of([&commit, &tree, &blob]).bytes(), commit.id)
}

pub fn new_blob(contents: impl Into<Vec<u8>>) -> Object {
    Object::new(ObjectKind::Blob, contents.into())
}

/// A folder. Each entry has its mode before its name.
pub fn new_tree(entries: &[(&str, ObjectId)]) -> Object {
    Object::new(ObjectKind::Tree, tree_of(entries))
}

pub fn new_commit(tree: ObjectId) -> Object {
    Object::new(ObjectKind::Commit, commit_of(tree))
}

pub fn new_commit_upon(parent: ObjectId, tree: ObjectId) -> Object {
    Object::new(ObjectKind::Commit, commit_upon(parent, tree))
}

pub fn commit_of(tree: ObjectId) -> Vec<u8> {
    format!("tree {tree}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nx").into_bytes()
}

pub fn commit_upon(parent: ObjectId, tree: ObjectId) -> Vec<u8> {
    format!("tree {tree}\nparent {parent}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nx").into_bytes()
}

fn tree_of(entries: &[(&str, ObjectId)]) -> Vec<u8> {
    let entry = |(name, id): &(&str, ObjectId)| [format!("{name}\0").as_bytes(), id.bytes()].concat();
    entries.iter().flat_map(entry).collect()
}

/// The branch `new` was made or moved.
#[track_caller]
pub fn assert_made(report: &str) {
    assert!(report.contains("ok refs/heads/new"), "{report}");
}

/// Pushes a pack with a new branch at `tip`. Returns the server's report.
pub fn push_pack(forge: &Forge, tip: ObjectId, pack: &[u8]) -> String {
    move_by_pack(forge, None, tip, pack)
}

/// Pushes a pack that moves the branch `new`. Returns the server's report.
pub fn move_by_pack(forge: &Forge, old: Option<ObjectId>, tip: ObjectId, pack: &[u8]) -> String {
    let body = [&body(&[("heads/new", old, Some(tip))], "side-band-64k")[..], pack].concat();
    let path = format!("projects/{PUBLIC}/repository.git/git-receive-pack");
    forge.send_bytes(Method::POST, &path, "dev", "application/x-git-receive-pack-request", body).expect(200).text()
}
