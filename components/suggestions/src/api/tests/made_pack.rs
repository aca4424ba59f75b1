//! Packs that no git sends.

use super::{Forge, PUBLIC};
use crate::git::pack_entry::{EntryKind, write_header};
use crate::git::{Object, ObjectId, ObjectKind, pktline};
use crate::store::zlib::deflate;
use http::Method;
use kit::Env;
use kit::testing::{self, MemoryStore};
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

    pub fn add(mut self, kind: EntryKind, size: usize, contents: &[u8]) -> Self {
        write_header(&mut self.entries, kind, size as u64);
        deflate(&self.env, ObjectKind::Blob, contents, &mut self.entries).unwrap();
        self.count += 1;
        self
    }

    pub fn object(self, kind: ObjectKind, contents: &[u8]) -> Self {
        self.add(EntryKind::Object(kind), contents.len(), contents)
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
    let blob = Object::new(ObjectKind::Blob, b"hello\n".to_vec());
    let tree = Object::new(ObjectKind::Tree, tree_of(&[("100644 a", blob.id)]));
    let commit = Object::new(ObjectKind::Commit, commit_of(tree.id));
    let objects = [&commit, &tree, &blob].into_iter();
    let pack = objects.fold(Pack::new(), |pack, object| pack.object(object.kind, &object.contents));
    (pack.bytes(), commit.id)
}

pub fn commit_of(tree: ObjectId) -> Vec<u8> {
    format!("tree {tree}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nx").into_bytes()
}

pub fn commit_upon(parent: ObjectId, tree: ObjectId) -> Vec<u8> {
    format!("tree {tree}\nparent {parent}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nx").into_bytes()
}

pub fn tree_of(entries: &[(&str, ObjectId)]) -> Vec<u8> {
    let entry = |(name, id): &(&str, ObjectId)| [format!("{name}\0").as_bytes(), id.bytes()].concat();
    entries.iter().flat_map(entry).collect()
}

/// Pushes a pack with a new branch at `tip`. Returns the server's report.
pub fn push_pack(forge: &Forge, tip: ObjectId, pack: &[u8]) -> String {
    move_by_pack(forge, None, tip, pack)
}

/// Pushes a pack that moves the branch `new`. Returns the server's report.
pub fn move_by_pack(forge: &Forge, old: Option<ObjectId>, tip: ObjectId, pack: &[u8]) -> String {
    let mut body = Vec::new();
    let old = old.map_or("0".repeat(40), |id| id.to_string());
    pktline::write_text(&mut body, &format!("{old} {tip} refs/heads/new\0 report-status side-band-64k"));
    pktline::write_flush(&mut body);
    body.extend_from_slice(pack);
    let path = format!("projects/{PUBLIC}/repository.git/git-receive-pack");
    let answer = forge.send_bytes(Method::POST, &path, "dev", "application/x-git-receive-pack-request", body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}
