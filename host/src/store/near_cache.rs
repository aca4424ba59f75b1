//! A cache of small values that a shard has read recently, and of keys that it found absent, so that
//! a key that every request reads (a user, a setting) is not looked up in the database each time.
//!
//! A cached value is the one that the database has now: [`ChangeClock`] marks the keys of a commit
//! before readers can see the commit, so a reader that has seen a part of a commit gets no older value
//! here. A write by another program is not marked, so an entry expires after [`MAX_AGE`].

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::change_clock::{ChangeClock, Slot};
use super::key::Key;
use crate::byte_lru::ByteLru;

/// How long an entry is used.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The largest value that is cached, in bytes. Copying a larger one takes longer than its lookup.
const MAX_VALUE: usize = 16 * 1024;

/// Bytes of the entries of one shard.
pub const CAPACITY: usize = 4 * 1024 * 1024;

/// Bytes that an entry takes beside its key and value.
const OVERHEAD: usize = 256;

/// The cached values of one shard. The mutex is never contended; it makes the type `Sync`.
pub struct NearCache(Mutex<ByteLru<Key, CachedValue>>);

struct CachedValue {
    value: Option<Box<[u8]>>,
    slot: Slot,
    /// Number of the last commit before the read.
    commit: u64,
    read_at: Instant,
}

impl Default for NearCache {
    fn default() -> Self {
        Self(Mutex::new(ByteLru::new(CAPACITY, |key: &Key, entry: &CachedValue| {
            OVERHEAD + key.key.len() + entry.value.as_deref().map_or(0, <[u8]>::len)
        })))
    }
}

impl NearCache {
    /// The present value of `key`, `Some(None)` if the key is absent; `None` if it is not cached.
    pub fn get(&self, key: &Key, clock: &ChangeClock, now: Instant) -> Option<Option<Vec<u8>>> {
        let mut entries = self.entries();
        let entry = entries.get(key)?;
        let is_current = clock.is_unchanged_since(entry.commit, entry.slot) && now < entry.read_at + MAX_AGE;
        is_current.then(|| entry.value.as_deref().map(<[u8]>::to_vec))
    }

    /// Caches what was read of `key` at `now`, where `commit` was the last commit before the read.
    pub fn insert(&self, key: &Key, value: Option<&[u8]>, clock: &ChangeClock, commit: u64, now: Instant) {
        if value.map_or(0, <[u8]>::len) > MAX_VALUE {
            return;
        }
        let value = CachedValue { value: value.map(Into::into), slot: clock.slot(key), commit, read_at: now };
        self.entries().insert(key.clone(), value);
    }

    fn entries(&self) -> MutexGuard<'_, ByteLru<Key, CachedValue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn key(key: &str) -> Key {
        Key { store: Arc::from("default"), key: Arc::from(key) }
    }

    #[test]
    fn an_absent_key_is_cached_too() {
        let (cache, clock, now) = (NearCache::default(), ChangeClock::default(), Instant::now());
        cache.insert(&key("a"), None, &clock, 0, now);
        assert_eq!(cache.get(&key("a"), &clock, now), Some(None));
        clock.begin_commit(&[clock.slot(&key("a"))]);
        assert_eq!(cache.get(&key("a"), &clock, now), None);
    }

    #[test]
    fn a_value_is_cached_until_a_commit_changes_it() {
        let (cache, clock, now) = (NearCache::default(), ChangeClock::default(), Instant::now());
        assert_eq!(cache.get(&key("a"), &clock, now), None);
        cache.insert(&key("a"), Some(b"1"), &clock, clock.now(), now);
        assert_eq!(cache.get(&key("a"), &clock, now).flatten().as_deref(), Some(&b"1"[..]));

        // A commit of this key begins: from here on, readers may see it.
        let slots = [clock.slot(&key("a"))];
        clock.begin_commit(&slots);
        assert_eq!(cache.get(&key("a"), &clock, now), None);
        // A read during the commit finds the old value or the new one.
        cache.insert(&key("a"), Some(b"1"), &clock, clock.now(), now);
        assert_eq!(cache.get(&key("a"), &clock, now), None);
        clock.end_commit();
        assert_eq!(cache.get(&key("a"), &clock, now), None);
        cache.insert(&key("a"), Some(b"2"), &clock, clock.now(), now);
        assert_eq!(cache.get(&key("a"), &clock, now).flatten().as_deref(), Some(&b"2"[..]));
    }

    #[test]
    fn a_write_of_another_program_is_seen_after_a_second() {
        let (cache, clock, now) = (NearCache::default(), ChangeClock::default(), Instant::now());
        cache.insert(&key("a"), Some(b"1"), &clock, 0, now);
        assert!(cache.get(&key("a"), &clock, now + MAX_AGE - Duration::from_nanos(1)).is_some());
        assert_eq!(cache.get(&key("a"), &clock, now + MAX_AGE), None);
    }

    #[test]
    fn the_memory_of_a_cache_is_bounded() {
        let (cache, clock, now) = (NearCache::default(), ChangeClock::default(), Instant::now());
        cache.insert(&key("large"), Some(&[0; MAX_VALUE + 1]), &clock, 0, now);
        assert_eq!(cache.get(&key("large"), &clock, now), None);
        for number in 0..CAPACITY / MAX_VALUE + 10 {
            cache.insert(&key(&number.to_string()), Some(&[0; MAX_VALUE]), &clock, 0, now);
            cache.insert(&key(&number.to_string()), Some(&[1; MAX_VALUE]), &clock, 0, now);
            cache.get(&key("0"), &clock, now);
        }
        assert!(cache.get(&key("0"), &clock, now).is_some(), "used recently");
        assert_eq!(cache.get(&key("1"), &clock, now), None);
        assert!(cache.entries().bytes() <= CAPACITY);
    }
}
