//! A cache of small values that a shard has read recently, and of keys that it found absent. With it, the host does not
//! look up a key that every request reads (a user, a setting) in the database each time.
//!
//! A cached value is the database's present value. [`ChangeClock`] marks the keys of a commit before readers can see
//! the commit. So a reader that has seen a part of a commit gets no older value here. When another program has
//! committed, engines mark all keys.

use std::sync::Arc;

use async_trait::async_trait;
use hexad_support::byte_lru::ByteLru;
use tokio::sync::OwnedSemaphorePermit;

use super::backend::Key;
use super::backend::{Backend, CasOutcome, CatchUp};
use super::change_clock::{ChangeClock, VersionBucket};
use super::error::StoreError;
use super::ledger::Ledger;
use super::server_clock::ServerClock;

/// The largest value that is cached, in bytes. Copying a larger one takes longer than its lookup.
const MAX_VALUE: usize = 16 * 1024;

/// Most bytes of values that one prefetch reads.
const MAX_PREFETCH: usize = 1024 * 1024;

/// Bytes of the entries of one shard.
pub const CAPACITY: usize = 4 * 1024 * 1024;

/// Bytes that an entry takes in addition to its key and value.
const OVERHEAD: usize = 256;

/// An engine with a near cache for its reads of single keys.
pub struct NearCached<B> {
    engine: B,
    cache: NearCache,
}

/// The cached values of one shard.
struct NearCache(ByteLru<Key, CachedValue>);

struct CachedValue {
    value: Option<Box<[u8]>>,
    bucket: VersionBucket,
    /// Number of the last commit before the read.
    commit: u64,
}

impl<B: Backend> NearCached<B> {
    pub fn new(engine: B) -> Self {
        Self { engine, cache: NearCache::new() }
    }
}

#[async_trait]
impl<B: Backend> Backend for NearCached<B> {
    async fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(clock) = self.engine.change_clock() else { return self.engine.get(key).await };
        if let Some(value) = self.cache.get(key, clock) {
            return Ok(value);
        }
        let commit = clock.now();
        let value = self.engine.get(key).await?;
        self.cache.insert(key, value.as_deref(), clock, commit);
        Ok(value)
    }

    async fn exists(&self, key: &Key) -> Result<bool, StoreError> {
        self.engine.exists(key).await
    }

    async fn list(&self, store: &Arc<str>, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.engine.list(store, prefix, after, limit).await
    }

    async fn get_many(&self, keys: &[Key], limit: usize) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.engine.get_many(keys, limit).await
    }

    async fn set_many(
        &self,
        ledger: &Ledger,
        pairs: Vec<(Key, Vec<u8>)>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), StoreError> {
        self.engine.set_many(ledger, pairs, permit).await
    }

    async fn delete_many(&self, ledger: &Ledger, keys: Vec<Key>) -> Result<(), StoreError> {
        self.engine.delete_many(ledger, keys).await
    }

    async fn increment(&self, ledger: &Ledger, key: Key, delta: i64) -> Result<i64, StoreError> {
        self.engine.increment(ledger, key, delta).await
    }

    async fn cas(
        &self,
        ledger: &Ledger,
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<CasOutcome, StoreError> {
        self.engine.cas(ledger, key, expected, value).await
    }

    async fn increment_volatile(&self, ledger: &Ledger, key: Key, delta: i64) -> Result<i64, StoreError> {
        self.engine.increment_volatile(ledger, key, delta).await
    }

    async fn cas_volatile(
        &self,
        ledger: &Ledger,
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<CasOutcome, StoreError> {
        self.engine.cas_volatile(ledger, key, expected, value).await
    }

    fn change_clock(&self) -> Option<&ChangeClock> {
        self.engine.change_clock()
    }

    fn server_clock(&self) -> Option<&Arc<ServerClock>> {
        self.engine.server_clock()
    }

    fn catch_up(&self) -> Option<CatchUp> {
        self.engine.catch_up()
    }

    fn bind_reads(&self, ledger: &Ledger) {
        self.engine.bind_reads(ledger);
    }

    fn losses(&self) -> u64 {
        self.engine.losses()
    }

    fn prefetches(&self) -> bool {
        self.engine.prefetches()
    }

    async fn prefetch(&self, keys: &[Key]) {
        let Some(clock) = self.engine.change_clock() else { return };
        let missing: Vec<Key> = keys.iter().filter(|key| self.cache.get(key, clock).is_none()).cloned().collect();
        if missing.is_empty() {
            return;
        }
        let commit = clock.now();
        // If the values are too large together, or the engine fails, the request reads them one by one.
        let Ok(values) = self.engine.get_many(&missing, MAX_PREFETCH).await else { return };
        for (key, value) in missing.iter().zip(values) {
            self.cache.insert(key, value.as_deref(), clock, commit);
        }
    }

    async fn durable(&self, ledger: &Ledger) -> Result<(), StoreError> {
        self.engine.durable(ledger).await
    }
}

impl NearCache {
    fn new() -> Self {
        Self(ByteLru::new(CAPACITY, |key, entry| {
            OVERHEAD + key.key.len() + entry.value.as_deref().map_or(0, <[u8]>::len)
        }))
    }

    /// The present value of `key`, `Some(None)` if the key is absent; `None` if it is not cached.
    fn get(&self, key: &Key, clock: &ChangeClock) -> Option<Option<Vec<u8>>> {
        let current = self.0.get(key, |entry| {
            let is_current = clock.is_unchanged_since(entry.commit, entry.bucket);
            is_current.then(|| entry.value.as_deref().map(<[u8]>::to_vec))
        });
        current.flatten()
    }

    /// Caches the value of `key`, where `commit` was the last commit before the read.
    fn insert(&self, key: &Key, value: Option<&[u8]>, clock: &ChangeClock, commit: u64) {
        if value.map_or(0, <[u8]>::len) > MAX_VALUE {
            return;
        }
        let value = CachedValue { value: value.map(Into::into), bucket: clock.bucket(key), commit };
        self.0.insert(key.clone(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> NearCache {
        NearCache::new()
    }

    fn key(key: &str) -> Key {
        Key { store: Arc::from("default"), key: Arc::from(key) }
    }

    #[test]
    fn an_absent_key_is_cached_too() {
        let (cache, clock) = (cache(), ChangeClock::default());
        cache.insert(&key("a"), None, &clock, 0);
        assert_eq!(cache.get(&key("a"), &clock), Some(None));
        clock.begin_commit(&[clock.bucket(&key("a"))]);
        assert_eq!(cache.get(&key("a"), &clock), None);
    }

    #[test]
    fn a_value_is_cached_until_a_commit_changes_it() {
        let (cache, clock) = (cache(), ChangeClock::default());
        assert_eq!(cache.get(&key("a"), &clock), None);
        cache.insert(&key("a"), Some(b"1"), &clock, clock.now());
        assert_eq!(cache.get(&key("a"), &clock).flatten().as_deref(), Some(&b"1"[..]));

        // A commit of this key begins: from here on, readers may see it.
        let buckets = [clock.bucket(&key("a"))];
        clock.begin_commit(&buckets);
        assert_eq!(cache.get(&key("a"), &clock), None);
        // A read during the commit finds the old value or the new one.
        cache.insert(&key("a"), Some(b"1"), &clock, clock.now());
        assert_eq!(cache.get(&key("a"), &clock), None);
        clock.end_commit();
        assert_eq!(cache.get(&key("a"), &clock), None);
        cache.insert(&key("a"), Some(b"2"), &clock, clock.now());
        assert_eq!(cache.get(&key("a"), &clock).flatten().as_deref(), Some(&b"2"[..]));
    }

    #[test]
    fn nothing_is_cached_after_a_commit_of_another_program() {
        let (cache, clock) = (cache(), ChangeClock::default());
        cache.insert(&key("a"), Some(b"1"), &clock, clock.now());
        assert!(cache.get(&key("a"), &clock).is_some());
        clock.invalidate_all();
        assert_eq!(cache.get(&key("a"), &clock), None);
    }

    #[test]
    fn the_memory_of_a_cache_is_bounded() {
        let (cache, clock) = (cache(), ChangeClock::default());
        cache.insert(&key("large"), Some(&[0; MAX_VALUE + 1]), &clock, 0);
        assert_eq!(cache.get(&key("large"), &clock), None);
        for number in 0..CAPACITY / MAX_VALUE + 10 {
            cache.insert(&key(&number.to_string()), Some(&[0; MAX_VALUE]), &clock, 0);
            cache.insert(&key(&number.to_string()), Some(&[1; MAX_VALUE]), &clock, 0);
            cache.get(&key("0"), &clock);
        }
        assert!(cache.get(&key("0"), &clock).is_some(), "used recently");
        assert_eq!(cache.get(&key("1"), &clock), None);
        assert!(cache.0.size().1 <= CAPACITY);
    }
}
