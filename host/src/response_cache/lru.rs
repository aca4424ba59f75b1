//! Cache entries in bounded memory; the least recently used is evicted first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::{CacheKey, Entry};

/// A table in segments, each with a lock, so that threads rarely contend.
pub struct Lru {
    segments: Box<[Mutex<Segment>]>,
    /// Bytes that the entries of one segment may take.
    capacity: usize,
}

struct Segment {
    entries: LruCache<CacheKey, Arc<Entry>>,
    /// Bytes that the entries take.
    bytes: usize,
}

impl Lru {
    /// `memory` is in bytes, for all segments together.
    pub fn new(segments: usize, memory: usize) -> Self {
        let segment = || Mutex::new(Segment { entries: LruCache::unbounded(), bytes: 0 });
        Self { segments: (0..segments).map(|_| segment()).collect(), capacity: memory / segments.max(1) }
    }

    pub fn get(&self, key: &CacheKey) -> Option<Arc<Entry>> {
        self.segment(key)?.entries.get(key).cloned()
    }

    pub fn insert(&self, key: CacheKey, entry: Arc<Entry>) {
        let Some(mut segment) = self.segment(&key) else {
            return;
        };
        segment.bytes += entry.bytes();
        if let Some((_, replaced)) = segment.entries.push(key, entry) {
            segment.bytes = segment.bytes.saturating_sub(replaced.bytes());
        }
        while segment.bytes > self.capacity
            && let Some((_, oldest)) = segment.entries.pop_lru()
        {
            segment.bytes = segment.bytes.saturating_sub(oldest.bytes());
        }
    }

    /// How many entries there are, and the bytes that they take.
    pub fn size(&self) -> (usize, usize) {
        let segments = self.segments.iter().map(|segment| segment.lock().unwrap_or_else(PoisonError::into_inner));
        segments.fold((0, 0), |(entries, bytes), segment| (entries + segment.entries.len(), bytes + segment.bytes))
    }

    fn segment(&self, key: &CacheKey) -> Option<MutexGuard<'_, Segment>> {
        let segment = self.segments.get(usize::from(key.0[0]) % self.segments.len().max(1))?;
        Some(segment.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
