//! The stored form of an object: as a loose one of git, or as a list of chunks.

use crate::git::{ObjectId, ObjectKind, parse_header};
use crate::repository_id::RepositoryId;
use crate::store::key::{Key, Semispace};
use crate::store::packs::Packs;
use crate::store::zlib;
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use kit::Env;
use kit::store::StoreError;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;

/// The most that is stored under one key, in bytes.
pub const CHUNK: usize = 1 << 20;

/// The record under the key of an object that is stored in chunks. Its first byte tells it from a loose object: no zlib
/// stream begins with a brace.
#[derive(Serialize, Deserialize)]
pub struct ChunkList {
    /// The id of the upload that wrote the chunks.
    pub upload: String,
    pub chunks: usize,
}

/// Reads a chunk of an object.
pub fn read_chunk(env: &Env, project: RepositoryId, id: ObjectId, key: &str) -> Result<Vec<u8>, StoreError> {
    env.store.get(key)?.ok_or_else(|| corrupt_chunk(project, id, key, "it is missing"))
}

/// Damage of a chunk, whose key tells neither its object nor the project.
pub fn corrupt_chunk(project: RepositoryId, id: ObjectId, key: &str, why: &str) -> StoreError {
    StoreError::corrupt(key, format!("{why} (object {id} of project {project})"))
}

/// An object as git stores it.
pub enum LooseObject {
    Whole(Bytes),
    /// The keys of its chunks, in order.
    Chunks(Vec<String>),
}

impl LooseObject {
    /// The object whose key has this value.
    pub fn parse(semispace: Semispace, key: &str, bytes: Bytes) -> Result<Self, StoreError> {
        if !bytes.starts_with(b"{") {
            return Ok(LooseObject::Whole(bytes));
        }
        let ChunkList { upload, chunks } =
            serde_json::from_slice(&bytes).map_err(|why| StoreError::corrupt(key, why))?;
        let key = |number| Key::Chunk(semispace, &upload, number).to_string();
        Ok(LooseObject::Chunks((0..chunks).map(key).collect()))
    }
}

/// Looks an object up: by `in_packs` in the packs that the instance knows, by `loose` among the loose objects, and then
/// in the present packs. A loose object is removed only once a listed pack has it, so the last step finds an object
/// that moves during the first two.
pub fn look_up<T>(
    env: &Env,
    project: RepositoryId,
    mut in_packs: impl FnMut(&Packs) -> Result<Option<T>, StoreError>,
    loose: impl FnOnce() -> Result<Option<T>, StoreError>,
) -> Result<Option<T>, StoreError> {
    if let Some(found) = Packs::with_cached(env, project, &mut in_packs)? {
        return Ok(Some(found));
    }
    match loose()? {
        Some(found) => Ok(Some(found)),
        None => in_packs(&Packs::load(env, project)?),
    }
}

/// The absence of an object that a ref, or another object, names.
pub fn missing(project: RepositoryId, id: ObjectId) -> StoreError {
    corrupt(project, id, "it is missing")
}

pub fn corrupt(project: RepositoryId, id: ObjectId, why: &str) -> StoreError {
    StoreError::corrupt(&Key::Object(Semispace::First, project, id).to_string(), why)
}

/// Decompresses an object, fed in parts.
pub struct ObjectInflater {
    zlib: Rc<RefCell<Decompress>>,
    /// The largest size of an object, in bytes.
    max_size: u64,
    /// Decompressed header and contents.
    bytes: Vec<u8>,
    ended: bool,
}

impl ObjectInflater {
    pub fn new(env: &Env, max_size: u64) -> Self {
        let zlib = zlib::decompressor(env);
        zlib.borrow_mut().reset(true);
        ObjectInflater { zlib, max_size, bytes: Vec::new(), ended: false }
    }

    pub fn feed(&mut self, input: &[u8]) -> Result<(), &'static str> {
        let mut zlib = self.zlib.borrow_mut();
        let mut rest = input;
        while !self.ended && self.excess_size().is_none() {
            // Until the header tells the size, four times the input is a first guess.
            let expected =
                parse_header(&self.bytes).map_or(4 * input.len() as u64, |(_, size, header)| size + header as u64);
            let missing =
                usize::try_from(expected.min(self.max_size + 32)).unwrap_or_default().saturating_sub(self.bytes.len());
            self.bytes.reserve(missing.max(64));
            let (before_in, before_out) = (zlib.total_in(), self.bytes.len());
            let status = zlib.decompress_vec(rest, &mut self.bytes, FlushDecompress::None);
            let status = status.map_err(|_| "it is not zlib")?;
            let consumed = usize::try_from(zlib.total_in() - before_in).unwrap_or(usize::MAX);
            rest = rest.get(consumed..).unwrap_or_default();
            self.ended = status == Status::StreamEnd;
            if rest.is_empty() && self.bytes.len() < self.bytes.capacity()
                || consumed == 0 && self.bytes.len() == before_out
            {
                break;
            }
        }
        Ok(())
    }

    /// The object's size in bytes, if it is larger than the bound.
    pub fn excess_size(&self) -> Option<u64> {
        parse_header(&self.bytes).map(|(_, size, _)| size).filter(|size| *size > self.max_size)
    }

    /// The object's kind and contents; `None` if the input was not exactly one object.
    pub fn finish(self) -> Option<(ObjectKind, Bytes)> {
        let (kind, size, header) = parse_header(&self.bytes)?;
        let bytes = Bytes::from(self.bytes);
        let is_whole = self.ended && bytes.len() as u64 == size + header as u64;
        is_whole.then(|| (kind, bytes.slice(header..)))
    }
}
