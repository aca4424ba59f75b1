//! A cache of immutable blobs, kept across the requests of one instance. A blob's key never gets
//! other bytes, so a cached blob is never stale. The cache also holds values derived from blobs,
//! under keys that name all their inputs and lie outside every prefix of the store.

use crate::store::{Store, StoreError};
use bytes::Bytes;
use lru::LruCache;
use std::cell::RefCell;

/// An LRU cache of blobs, bounded by their total size.
pub struct BlobCache {
    /// Upper bound of `size`, in bytes.
    capacity: usize,
    inner: RefCell<Inner>,
}

struct Inner {
    size: usize,
    blobs: LruCache<String, Bytes>,
}

impl BlobCache {
    /// A cache that holds at most `capacity` bytes of values.
    pub fn new(capacity: usize) -> Self {
        BlobCache { capacity, inner: RefCell::new(Inner { size: 0, blobs: LruCache::unbounded() }) }
    }

    /// The blob under `key`, from the cache or else from `store`. Absence is not cached, because the
    /// blob may be written later.
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
        self.inner.borrow_mut().blobs.get(key).cloned()
    }

    /// Caches a blob and evicts the least recently used ones beyond the capacity. A blob larger than
    /// half of the capacity is not cached, so that it cannot evict all the others.
    pub fn put(&self, key: &str, blob: Bytes) {
        if blob.len() > self.capacity / 2 {
            return;
        }
        let mut inner = self.inner.borrow_mut();
        inner.size += blob.len();
        if let Some((_, replaced)) = inner.blobs.push(key.to_owned(), blob) {
            inner.size -= replaced.len();
        }
        while inner.size > self.capacity {
            let Some((_, oldest)) = inner.blobs.pop_lru() else { break };
            inner.size -= oldest.len();
        }
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
    fn stays_within_its_capacity_and_keeps_the_recently_used() {
        let cache = BlobCache::new(40);
        for key in ["a", "b", "c", "d"] {
            cache.put(key, Bytes::from_static(&[0; 10]));
        }
        assert!(cache.peek("a").is_some());
        cache.put("e", Bytes::from_static(&[0; 10]));
        assert!(cache.peek("a").is_some(), "recently used");
        assert!(cache.peek("b").is_none(), "least recently used");
    }

    #[test]
    fn a_blob_that_would_evict_everything_is_not_kept() {
        let cache = BlobCache::new(40);
        cache.put("small", Bytes::from_static(&[0; 10]));
        cache.put("large", Bytes::from_static(&[0; 21]));
        assert!(cache.peek("small").is_some() && cache.peek("large").is_none());
    }

    #[test]
    fn replacing_a_blob_does_not_count_it_twice() {
        let cache = BlobCache::new(40);
        for _ in 0..10 {
            cache.put("a", Bytes::from_static(&[0; 10]));
        }
        cache.put("b", Bytes::from_static(&[0; 10]));
        assert!(cache.peek("a").is_some() && cache.peek("b").is_some());
    }
}
