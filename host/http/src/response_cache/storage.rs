//! The entries of a cache in bounded memory, and the large bodies under recording.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hexad_store::Key;
use hexad_support::byte_lru::ByteLru;

use super::entry::{CacheEntry, OVERHEAD};
use super::key::CacheKey;
use super::pending_body::PendingBodies;

/// The largest body in the table of small ones, and the largest in one chunk, in bytes.
pub const SMALL_BODY: usize = 256 * 1024;

/// The memory of all entries with small bodies, and of all with large bodies, in bytes.
const SMALL_MEMORY: usize = 32 * 1024 * 1024;
const LARGE_MEMORY: usize = 32 * 1024 * 1024;

/// Memory of all entries, in bytes.
pub const MAX_BYTES: usize = SMALL_MEMORY + LARGE_MEMORY;

/// How many tables the small entries have. Each table has a lock of its own, so that threads rarely contend. The large
/// entries have one table, because only a miss among the small ones leads there.
const SMALL_TABLES: usize = 16;

/// How long a table keeps an expired entry: at the next equal request, the host prefetches its keys. Without this
/// limit, entries of earlier revisions and of unused tokens would fill the table.
const KEPT_EXPIRED: Duration = Duration::from_secs(60);

/// The most expired entries that an insertion removes. More than one, so that their number falls.
const REMOVED_AT_ONCE: usize = 2;

type Table = ByteLru<CacheKey, Arc<CacheEntry>>;

pub struct Storage {
    small: [Table; SMALL_TABLES],
    large: Table,
    pub pending: PendingBodies,
    pub counters: CacheCounters,
}

/// Counts since the host started.
#[derive(Debug, Default)]
pub struct CacheCounters {
    /// Requests with a cached response.
    pub hits: AtomicU64,
    /// Requests whose response may be cached and was not.
    pub misses: AtomicU64,
    /// Responses that were stored.
    pub stored: AtomicU64,
}

impl CacheCounters {
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }
}

impl Storage {
    pub fn new() -> Self {
        let table = |memory| Table::new(memory, |_, entry| entry.bytes());
        Self {
            small: std::array::from_fn(|_| table(SMALL_MEMORY / SMALL_TABLES)),
            large: table(LARGE_MEMORY),
            pending: PendingBodies::default(),
            counters: CacheCounters::default(),
        }
    }

    /// How many entries there are, and the bytes that they take.
    pub fn size(&self) -> (usize, usize) {
        let sizes = self.small.iter().chain([&self.large]).map(Table::size);
        sizes.fold((0, 0), |(entries, bytes), (more, more_bytes)| (entries + more, bytes + more_bytes))
    }

    /// The entry with this key that satisfies `is_fresh`. Counts a hit or a miss.
    pub fn find(&self, key: &CacheKey, is_fresh: impl Fn(&Arc<CacheEntry>) -> bool) -> Option<Arc<CacheEntry>> {
        let found = self.tables(key).find_map(|table| table.get(key, Arc::clone).filter(&is_fresh));
        let counter = if found.is_some() { &self.counters.hits } else { &self.counters.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// The store's keys on which the response with this key depends, fresh or not.
    pub fn reads(&self, key: &CacheKey) -> Box<[Key]> {
        self.tables(key).find_map(|table| table.get(key, |entry| entry.keys.clone())).unwrap_or_default()
    }

    /// Inserts or replaces an entry at the time `now`.
    pub fn insert(&self, key: CacheKey, entry: Arc<CacheEntry>, now: Instant) {
        self.counters.stored.fetch_add(1, Ordering::Relaxed);
        let mut tables = self.tables(&key);
        let table = if entry.bytes() > SMALL_BODY + OVERHEAD { tables.last() } else { tables.next() };
        if let Some(table) = table {
            table.insert(key, entry);
            table.remove_oldest(REMOVED_AT_ONCE, |oldest| now < oldest.expires_at + KEPT_EXPIRED);
        }
    }

    /// The tables that can have an entry with this key: one of the small entries, then that of the large ones.
    fn tables<'a>(&'a self, key: &CacheKey) -> impl Iterator<Item = &'a Table> + use<'a> {
        let small = self.small.get(usize::from(key.0[0]) % SMALL_TABLES);
        small.into_iter().chain([&self.large])
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};

    use super::super::entry::CachedBody;
    use super::*;

    fn entry(body: usize, expires_at: Instant) -> Arc<CacheEntry> {
        Arc::new(CacheEntry {
            commit: 0,
            reads: Box::default(),
            keys: Box::default(),
            dependencies: Arc::default(),
            nested: Box::default(),
            expires_at,
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: CachedBody::Whole(Bytes::from(vec![0; body])),
        })
    }

    /// A key of the same table as all others.
    fn key(number: u8) -> CacheKey {
        let mut key = [0; 32];
        key[1] = number;
        CacheKey(key)
    }

    #[test]
    fn entries_that_expired_long_ago_make_room_for_others() {
        let (storage, now) = (Storage::new(), Instant::now());
        let later = now + KEPT_EXPIRED + Duration::from_secs(1);
        (0..10).for_each(|number| storage.insert(key(number), entry(1000, now), now));
        (10..14).for_each(|number| storage.insert(key(number), entry(1000, later), now));
        assert_eq!(storage.size().0, 14, "they are kept for a while");
        (14..20).for_each(|number| storage.insert(key(number), entry(1000, later), later));
        assert_eq!(storage.size().0, 10);
        assert!((10..20).all(|number| storage.find(&key(number), |_| true).is_some()));
    }

    #[test]
    fn large_bodies_evict_no_small_ones() {
        let (storage, now) = (Storage::new(), Instant::now());
        storage.insert(key(0), entry(1000, now), now);
        (1..20).for_each(|number| storage.insert(key(number), entry(LARGE_MEMORY / 10, now), now));
        assert!(storage.find(&key(0), |_| true).is_some() && storage.find(&key(1), |_| true).is_none());
        assert!(storage.size().1 <= MAX_BYTES);
    }
}
