//! Objects as garbage collection and checks read them: for their links, or to verify them.

use super::corruption::missing;
use super::look_up::look_up;
use super::loose::{ChunkList, LooseObject, corrupt_chunk, read_chunk};
use crate::git::pack_entry::EntryKind;
use crate::git::{ObjectId, ObjectKind, id_from_hasher, parse_header};
use crate::repository_id::RepositoryId;
use crate::store::key::Key;
use crate::store::packs::{Location, Packs, ReadObject, inflate};
use crate::store::semispace::Semispace;
use crate::store::zlib;
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use kit::Env;
use kit::store::StoreError;
use sha1::{Digest, Sha1};
use std::cell::RefCell;
use std::rc::Rc;

/// The largest tree, commit or tag whose links are read, in bytes.
const MAX_LINKING: usize = 256 << 20;

/// An object that was scanned.
pub struct ScannedObject {
    pub kind: ObjectKind,
    /// `None` for a blob, which has no links.
    pub contents: Option<Bytes>,
    /// The uploads of its chunks, in each semispace that has the object.
    pub uploads: Vec<String>,
    /// The stored bytes that were read.
    pub size: usize,
}

/// Scans an object, without the instance's cache, in each semispace that has it; with `check` to its
/// end, to verify its id. Fails if the object is missing or damaged.
pub fn scan(env: &Env, project: RepositoryId, id: ObjectId, check: bool) -> Result<ScannedObject, StoreError> {
    let in_packs = |packs: &Packs| scan_packed(env, packs, id, check);
    let scanned = look_up(env, project, in_packs, || scan_loose(env, project, id, check))?;
    scanned.ok_or_else(|| missing(project, id))
}

/// Scans a loose object; `None` if neither semispace has it.
pub fn scan_loose(
    env: &Env,
    project: RepositoryId,
    id: ObjectId,
    check: bool,
) -> Result<Option<ScannedObject>, StoreError> {
    let mut scanned: Option<ScannedObject> = None;
    for semispace in Semispace::BOTH {
        let key = Key::Object(semispace, project, id).to_string();
        let Some(bytes) = env.store.get(&key)? else { continue };
        let mut scanner = ObjectScanner::new(env, check);
        let mut next = ScannedObject { kind: ObjectKind::Blob, contents: None, uploads: Vec::new(), size: bytes.len() };
        match LooseObject::parse(semispace, &key, bytes.clone().into())? {
            LooseObject::Whole(bytes) => drop(scanner.feed(&bytes).map_err(|why| StoreError::corrupt(&key, why))?),
            LooseObject::Chunks(keys) => {
                let list: ChunkList = serde_json::from_slice(&bytes).map_err(|why| StoreError::corrupt(&key, why))?;
                next.uploads.push(list.upload);
                for chunk in keys {
                    let bytes = read_chunk(env, project, id, &chunk)?;
                    next.size += bytes.len();
                    if scanner.feed(&bytes).map_err(|why| corrupt_chunk(project, id, &chunk, why))? {
                        break;
                    }
                }
            }
        }
        (next.kind, next.contents) = scanner.finish(id).map_err(|why| StoreError::corrupt(&key, why))?;
        if let Some(other) = scanned.take() {
            next.uploads.extend(other.uploads);
            next.size += other.size;
        }
        scanned = Some(next);
    }
    Ok(scanned)
}

/// Scans an object of a pack.
fn scan_packed(env: &Env, packs: &Packs, id: ObjectId, check: bool) -> Result<Option<ScannedObject>, StoreError> {
    let Some(location) = packs.find(id)? else { return Ok(None) };
    let Location { pack, entry } = location;
    let size = usize::try_from(entry.length).unwrap_or(usize::MAX);
    let mut scanned = ScannedObject { kind: entry.kind, contents: None, uploads: Vec::new(), size };
    if entry.kind == ObjectKind::Blob && !check {
        return Ok(Some(scanned));
    }
    let bytes = packs.bytes(pack)?;
    let corrupt = |why: &str| bytes.corrupt(entry.offset, format!("{why}: object {id}"));
    // A large object is no delta.
    if entry.kind == ObjectKind::Blob && entry.depth == 0 {
        let header = packs.header(pack, entry.offset)?;
        let found = inflate::id(env, bytes, entry.offset, &header, entry.kind)?;
        let is_blob = matches!(header.kind, EntryKind::Object(ObjectKind::Blob));
        return if is_blob && found == id { Ok(Some(scanned)) } else { Err(corrupt("its contents have another id")) };
    }
    let ReadObject::Object(kind, contents) = packs.read(&location, MAX_LINKING as u64)? else {
        return Err(corrupt("it is too large to be followed"));
    };
    let hashed = || id_from_hasher(kind.hasher(contents.len() as u64).chain_update(&contents));
    if kind != entry.kind || check && hashed() != id {
        return Err(corrupt("its contents have another id"));
    }
    scanned.contents = (kind != ObjectKind::Blob).then_some(contents);
    Ok(Some(scanned))
}

/// Decompresses an object, and keeps no more of it than is needed.
struct ObjectScanner {
    zlib: Rc<RefCell<Decompress>>,
    check: bool,
    /// Header and contents; for a blob only the header and the bytes that were decompressed together with it.
    bytes: Vec<u8>,
    header: Option<(ObjectKind, u64, usize)>,
    hasher: Sha1,
    /// Decompressed bytes so far.
    size: u64,
    ended: bool,
}

impl ObjectScanner {
    fn new(env: &Env, check: bool) -> Self {
        let zlib = zlib::decompressor(env);
        zlib.borrow_mut().reset(true);
        ObjectScanner { zlib, check, bytes: Vec::new(), header: None, hasher: Sha1::new(), size: 0, ended: false }
    }

    /// Returns true if no more input is needed.
    fn feed(&mut self, mut input: &[u8]) -> Result<bool, &'static str> {
        let mut zlib = self.zlib.borrow_mut();
        let mut part = Vec::with_capacity(64 << 10);
        while !self.ended {
            part.clear();
            let before = zlib.total_in();
            let status = zlib.decompress_vec(input, &mut part, FlushDecompress::None);
            self.ended = status.map_err(|_| "it is not zlib")? == Status::StreamEnd;
            let consumed = usize::try_from(zlib.total_in() - before).unwrap_or(usize::MAX);
            input = input.get(consumed..).unwrap_or_default();
            self.size += part.len() as u64;
            if self.check {
                self.hasher.update(&part);
            }
            let is_blob = self.header.is_some_and(|(kind, ..)| kind == ObjectKind::Blob);
            if !is_blob {
                self.bytes.extend_from_slice(&part);
            }
            if self.bytes.len() > MAX_LINKING {
                return Err("it is too large to be followed");
            }
            self.header = self.header.or_else(|| parse_header(&self.bytes));
            if !self.check && self.header.is_some_and(|(kind, ..)| kind == ObjectKind::Blob) {
                return Ok(true);
            }
            if part.is_empty() || input.is_empty() && part.len() < part.capacity() {
                break;
            }
        }
        Ok(self.ended)
    }

    /// The kind, and the contents unless it is a blob. Fails if the input was not a whole object, or, with
    /// `check`, has another id.
    fn finish(self, id: ObjectId) -> Result<(ObjectKind, Option<Bytes>), &'static str> {
        let (kind, size, header) = self.header.ok_or("it is not an object")?;
        if !self.check && kind == ObjectKind::Blob {
            return Ok((kind, None));
        }
        if !self.ended || self.size != size + header as u64 {
            return Err("it is not a whole object");
        }
        if self.check && id_from_hasher(self.hasher) != id {
            return Err("its contents have another id");
        }
        Ok((kind, (kind != ObjectKind::Blob).then(|| Bytes::from(self.bytes).slice(header..))))
    }
}
