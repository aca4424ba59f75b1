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

/// Size of the pieces in which files are stored, in bytes; only the last chunk is shorter. Hosts return values as a
/// whole, so this bounds the memory of a download.
pub const CHUNK: usize = 1024 * 1024;

/// Most bytes of the chunks that an instance caches, and of a file whose chunks it caches.
const MAX_CACHED: usize = 8 * CHUNK;

/// The most chunks whose first read an instance remembers.
const MAX_REMEMBERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4095);

/// Chunks that an instance caches from their second read on. So a file that is downloaded once does not evict files
/// that are downloaded often. The cache is separate from other blobs, which are smaller and read more often.
struct Chunks {
    cached: ByteLru<String, Bytes>,
    read_once: RefCell<LruCache<String, ()>>,
}

impl Chunks {
    fn of(env: &Env) -> Rc<Self> {
        env.instance_cache.get().unwrap_or_else(|| {
            let read_once = RefCell::new(LruCache::new(MAX_REMEMBERED));
            let chunks = Rc::new(Chunks { cached: ByteLru::new(MAX_CACHED), read_once });
            env.instance_cache.put(chunks.clone());
            chunks
        })
    }

    /// Caches a verified chunk if it was read before.
    fn record_read(&self, key: String, chunk: &Bytes) {
        if self.read_once.borrow_mut().pop(&key).is_some() {
            self.cached.put(key, chunk.len(), chunk.clone());
        } else {
            self.read_once.borrow_mut().put(key, ());
        }
    }
}

/// A chunk of a file, verified, from the store or the instance's cache. Clients verify the file by the digests in the
/// metadata.
pub fn chunk(env: &Env, id: &str, upload: &Upload, number: usize) -> Result<Bytes, StoreError> {
    if upload.size > MAX_CACHED as u64 {
        return chunk_uncached(env, id, upload, number);
    }
    let key = Key::Chunk(id, number).text();
    let chunks = Chunks::of(env);
    if let Some(chunk) = chunks.cached.get(&key) {
        return Ok(chunk);
    }
    let chunk = chunk_uncached(env, id, upload, number)?;
    chunks.record_read(key, &chunk);
    Ok(chunk)
}

/// A chunk of a file from the store, verified.
pub fn chunk_uncached(env: &Env, id: &str, upload: &Upload, number: usize) -> Result<Bytes, StoreError> {
    let key = Key::Chunk(id, number).text();
    let bytes = env.store.get(&key)?.ok_or_else(|| StoreError::corrupt(&key, "it is missing"))?;
    if upload.checksums.get(number) != Some(&Checksum::of(&bytes)) {
        return Err(StoreError::corrupt(&key, "its checksum differs"));
    }
    Ok(bytes.into())
}
