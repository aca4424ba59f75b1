//! Writing of objects of any size in bounded memory.

use super::loose::{CHUNK, ChunkList};
use crate::git::{ObjectId, ObjectKind, id_from_hasher};
use crate::repository_id::RepositoryId;
use crate::store::key::Key;
use crate::store::semispace::Semispace;
use crate::store::zlib::{self, Compressors};
use bytes::Bytes;
use flate2::{FlushCompress, Status};
use kit::Env;
use kit::store::StoreError;
use sha1::{Digest, Sha1};
use std::cell::RefCell;
use std::rc::Rc;

/// Writes objects, one after the other. An object becomes visible only after its contents were found
/// to have its id.
pub struct ObjectWriter<'a> {
    env: &'a Env,
    semispace: Semispace,
    project: RepositoryId,
    compressors: Rc<RefCell<Compressors>>,
    open: Option<OpenObject>,
}

/// The object that is being written.
struct OpenObject {
    id: ObjectId,
    kind: ObjectKind,
    hasher: Sha1,
    /// Compressed bytes that are not in a chunk yet.
    compressed: Vec<u8>,
    /// The id of the upload, once there are chunks.
    upload: Option<String>,
    chunks: usize,
}

/// The contents have another id, or another size, than was declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdMismatch;

impl<'a> ObjectWriter<'a> {
    pub fn new(env: &'a Env, semispace: Semispace, project: RepositoryId) -> Self {
        ObjectWriter { env, semispace, project, compressors: zlib::compressors(env), open: None }
    }

    /// Begins an object of `size` bytes.
    pub fn begin(&mut self, id: ObjectId, kind: ObjectKind, size: u64) -> Result<(), StoreError> {
        let compressed = Vec::with_capacity(usize::try_from(size).unwrap_or(CHUNK).min(CHUNK) / 2 + 64);
        let hasher = kind.hasher(size);
        self.open = Some(OpenObject { id, kind, hasher, compressed, upload: None, chunks: 0 });
        self.compressors.borrow_mut().of(kind).reset();
        self.deflate(kind.header(size).as_bytes(), FlushCompress::None)
    }

    /// Appends to the contents.
    pub fn write(&mut self, contents: &[u8]) -> Result<(), StoreError> {
        if let Some(open) = &mut self.open {
            open.hasher.update(contents);
        }
        self.deflate(contents, FlushCompress::None)
    }

    fn deflate(&mut self, mut input: &[u8], flush: FlushCompress) -> Result<(), StoreError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut compressors = self.compressors.borrow_mut();
        let zlib = compressors.of(open.kind);
        loop {
            open.compressed.reserve((input.len() / 2).clamp(64, CHUNK));
            let before = zlib.total_in();
            let status = zlib.compress_vec(input, &mut open.compressed, flush);
            let status = status.map_err(|why| StoreError::Other(format!("zlib: {why}")))?;
            input = input.get(usize::try_from(zlib.total_in() - before).unwrap_or(usize::MAX)..).unwrap_or_default();
            if open.compressed.len() >= CHUNK {
                open.write_chunks(self.env, self.semispace, CHUNK)?;
            }
            let has_room = open.compressed.len() < open.compressed.capacity();
            if status == Status::StreamEnd || flush == FlushCompress::None && input.is_empty() && has_room {
                return Ok(());
            }
        }
    }

    /// Completes the object and makes it visible, if its contents have its id.
    pub fn finish(&mut self) -> Result<Result<(), IdMismatch>, StoreError> {
        self.deflate(&[], FlushCompress::Finish)?;
        let Some(mut open) = self.open.take() else { return Ok(Err(IdMismatch)) };
        if id_from_hasher(open.hasher.clone()) != open.id {
            return Ok(Err(IdMismatch));
        }
        let key = Key::Object(self.semispace, self.project, open.id).to_string();
        if open.upload.is_none() {
            self.env.store.set(&key, &open.compressed)?;
            if open.kind != ObjectKind::Blob {
                // A copy has no unused capacity, which the cache does not count.
                self.env.blobs.put(&key, Bytes::copy_from_slice(&open.compressed));
            }
            return Ok(Ok(()));
        }
        open.write_chunks(self.env, self.semispace, 1)?;
        let upload = open.upload.unwrap_or_default();
        let record = serde_json::to_vec(&ChunkList { upload, chunks: open.chunks });
        self.env.store.set(&key, &record.map_err(|why| StoreError::corrupt(&key, why))?)?;
        Ok(Ok(()))
    }
}

impl OpenObject {
    /// Writes full chunks, and the remainder if it has at least `least` bytes.
    fn write_chunks(&mut self, env: &Env, semispace: Semispace, least: usize) -> Result<(), StoreError> {
        let upload = self.upload.get_or_insert_with(|| env.id());
        let mut written = 0;
        for chunk in self.compressed.chunks(CHUNK).filter(|chunk| chunk.len() >= least.min(CHUNK)) {
            env.store.set(&Key::Chunk(semispace, upload, self.chunks).to_string(), chunk)?;
            self.chunks += 1;
            written += chunk.len();
        }
        self.compressed.drain(..written);
        Ok(())
    }
}
