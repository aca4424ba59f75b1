//! A cache of immutable blobs, kept across the requests of one instance. A blob's key never gets other bytes, so a
//! cached blob is never stale. The cache also holds values derived from blobs. Their keys name all inputs and lie
//! outside every prefix of the store.

use crate::lru::ByteLru;
use crate::store::{Store, StoreError};
use bytes::Bytes;

/// An LRU cache of blobs, bounded by their total size.
pub struct BlobCache(ByteLru<String, Bytes>);

impl BlobCache {
    /// A cache of at most `capacity` bytes. A value larger than half of that is not cached.
    pub fn new(capacity: usize) -> Self {
        BlobCache(ByteLru::new(capacity))
    }

    /// The blob under `key`, from the cache or else from `store`. Absence is not cached, because the blob may be
    /// written later.
    pub fn get(&self, store: &dyn Store, key: &str) -> Result<Option<Bytes>, StoreError> {
        if let Some(blob) = self.peek(key) {
            return Ok(Some(blob));
        }
        let Some(blob) = store.get(key)?.map(Bytes::from) else {
            return Ok(None);
        };
        self.put(key, blob.clone());
        Ok(Some(blob))
    }

    /// The blob under `key`, if it is cached.
    pub fn peek(&self, key: &str) -> Option<Bytes> {
        self.0.get(key)
    }

    /// Caches a blob.
    pub fn put(&self, key: &str, blob: Bytes) {
        self.0.put(key.to_owned(), blob.len(), blob);
    }

    /// Drops every blob, to free memory for a large task.
    pub fn clear(&self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemoryStore;

    #[test]
    fn reads_the_store_once() {
        let store = MemoryStore::default();
        store.set("a", b"1").unwrap();
        let cache = BlobCache::new(100);
        assert_eq!(cache.get(&store, "a").unwrap().as_deref(), Some(&b"1"[..]));
        store.delete("a").unwrap();
        assert_eq!(cache.get(&store, "a").unwrap().as_deref(), Some(&b"1"[..]));
    }

    #[test]
    fn an_absent_blob_is_asked_for_again() {
        let store = MemoryStore::default();
        let cache = BlobCache::new(100);
        assert_eq!(cache.get(&store, "a").unwrap(), None);
        store.set("a", b"1").unwrap();
        assert_eq!(cache.get(&store, "a").unwrap().as_deref(), Some(&b"1"[..]));
    }

    #[test]
    fn the_size_of_a_blob_is_that_of_its_bytes() {
        let cache = BlobCache::new(40);
        cache.put("small", Bytes::from_static(&[0; 20]));
        cache.put("large", Bytes::from_static(&[0; 21]));
        assert!(cache.peek("small").is_some() && cache.peek("large").is_none());
    }
}
