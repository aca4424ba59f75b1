//! The stored form of an object: as a loose one of git, or as a list of chunks.

use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use crate::store::key::Key;
use crate::store::semispace::Semispace;
use bytes::Bytes;
use kit::Env;
use kit::store::StoreError;
use serde::{Deserialize, Serialize};

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
