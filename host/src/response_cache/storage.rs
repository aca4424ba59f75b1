//! The entries of a cache in bounded memory, and the large bodies under recording.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::entry::{CacheEntry, OVERHEAD};
use super::key::CacheKey;
use super::lru::Lru;
use super::pending_body::PendingBodies;
use crate::store::Key;

/// The largest body in the table of small ones, and the largest in one chunk, in bytes.
pub const SMALL_BODY: usize = 256 * 1024;

/// The memory of all entries with small bodies, and of all with large bodies, in bytes.
const SMALL_MEMORY: usize = 32 * 1024 * 1024;
const LARGE_MEMORY: usize = 32 * 1024 * 1024;

/// Memory of all entries, in bytes.
pub const MAX_BYTES: usize = SMALL_MEMORY + LARGE_MEMORY;

/// Segments of the table of small entries. The table of large ones has one segment, because only a miss in the small
/// one leads there.
const SEGMENTS: usize = 16;

pub struct Storage {
    small: Lru,
    large: Lru,
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
        Self {
            small: Lru::new(SEGMENTS, SMALL_MEMORY),
            large: Lru::new(1, LARGE_MEMORY),
            pending: PendingBodies::default(),
            counters: CacheCounters::default(),
        }
    }

    /// How many entries there are, and the bytes that they take.
    pub fn size(&self) -> (usize, usize) {
        let ((small, small_bytes), (large, large_bytes)) = (self.small.size(), self.large.size());
        (small + large, small_bytes + large_bytes)
    }

    /// The entry with this key that satisfies `is_fresh`. Counts a hit or a miss.
    pub fn find(&self, key: &CacheKey, is_fresh: impl Fn(&Arc<CacheEntry>) -> bool) -> Option<Arc<CacheEntry>> {
        let found = self.small.get(key).filter(&is_fresh).or_else(|| self.large.get(key).filter(&is_fresh));
        let counter = if found.is_some() { &self.counters.hits } else { &self.counters.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// The store's keys on which the response with this key depends, fresh or not.
    pub fn reads(&self, key: &CacheKey) -> Box<[Key]> {
        let entry = self.small.get(key).or_else(|| self.large.get(key));
        entry.map(|entry| entry.keys.clone()).unwrap_or_default()
    }

    pub fn insert(&self, key: CacheKey, entry: Arc<CacheEntry>) {
        self.counters.stored.fetch_add(1, Ordering::Relaxed);
        let table = if entry.bytes() > SMALL_BODY + OVERHEAD { &self.large } else { &self.small };
        table.insert(key, entry, Instant::now());
    }
}
