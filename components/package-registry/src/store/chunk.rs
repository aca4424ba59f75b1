//! The chunks of files. Each is compared with its checksum when it is read.

use super::key::Key;
use super::upload::Upload;
use crate::checksum::Checksum;
use bytes::Bytes;
use kit::Env;
use kit::lru::ByteLru;
use kit::store::StoreError;
use lru::LruCache;
use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::rc::Rc;

/// Size of the pieces in which files are stored, in bytes; only the last one is shorter. Hosts
/// hand values over as a whole, so this bounds the memory of a download.
pub const CHUNK: usize = 1024 * 1024;

/// Upper bound of the chunks that an instance keeps, in bytes, and of the file that one is of.
const KEPT: usize = 8 * CHUNK;

/// The chunks that an instance remembers to have read once.
const REMEMBERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4095);

/// Chunks that an instance keeps from their second read on, so that files that are downloaded once do not
/// evict files that are downloaded often. They are apart from other blobs, which are smaller and read more
/// often.
struct Chunks {
    kept: ByteLru<String, Bytes>,
    read_once: RefCell<LruCache<String, ()>>,
}

impl Chunks {
    fn of(env: &Env) -> Rc<Self> {
        env.instance_cache.get().unwrap_or_else(|| {
            let read_once = RefCell::new(LruCache::new(REMEMBERED));
            let chunks = Rc::new(Chunks { kept: ByteLru::new(KEPT), read_once });
            env.instance_cache.put(chunks.clone());
            chunks
        })
    }

    /// Keeps a verified chunk if it was read before.
    fn record_read(&self, key: String, chunk: &Bytes) {
        if self.read_once.borrow_mut().pop(&key).is_some() {
            self.kept.put(key, chunk.len(), chunk.clone());
        } else {
            self.read_once.borrow_mut().put(key, ());
        }
    }
}

/// A chunk of a file, verified, from the store or as the instance has kept it.
/// Clients verify the file by the digests in the metadata.
pub fn chunk(env: &Env, id: &str, upload: &Upload, number: usize) -> Result<Bytes, StoreError> {
    if upload.size > KEPT as u64 {
        return chunk_uncached(env, id, upload, number);
    }
    let key = Key::Chunk(id, number).text();
    let chunks = Chunks::of(env);
    if let Some(chunk) = chunks.kept.get(&key) {
        return Ok(chunk);
    }
    let chunk = chunk_uncached(env, id, upload, number)?;
    chunks.record_read(key, &chunk);
    Ok(chunk)
}

/// A chunk of a file as it is stored now, verified.
pub fn chunk_uncached(env: &Env, id: &str, upload: &Upload, number: usize) -> Result<Bytes, StoreError> {
    let key = Key::Chunk(id, number).text();
    let bytes = env.store.get(&key)?.ok_or_else(|| StoreError::corrupt(&key, "it is missing"))?;
    if upload.checksums.get(number) != Some(&Checksum::of(&bytes)) {
        return Err(StoreError::corrupt(&key, "its checksum differs"));
    }
    Ok(bytes.into())
}
