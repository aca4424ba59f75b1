//! Cache entries in bounded memory, in segments.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::entry::CacheEntry;
use super::key::CacheKey;
use crate::byte_lru::ByteLru;

type Segment = ByteLru<CacheKey, Arc<CacheEntry>>;

/// How long the table keeps an expired entry: at the next equal request, the host prefetches its keys. Without this
/// limit, entries of earlier revisions and of unused tokens would fill the table.
const KEPT_EXPIRED: Duration = Duration::from_secs(60);

/// The most expired entries that an insertion removes. More than one, so that their number falls.
const REMOVED_AT_ONCE: usize = 2;

/// A table in segments with a lock each, so that threads rarely contend.
pub struct Lru(Box<[Mutex<Segment>]>);

impl Lru {
    /// `memory` is in bytes, for all segments together.
    pub fn new(segments: usize, memory: usize) -> Self {
        let segment = || {
            Mutex::new(ByteLru::new(memory / segments.max(1), |_: &CacheKey, entry: &Arc<CacheEntry>| entry.bytes()))
        };
        Self((0..segments).map(|_| segment()).collect())
    }

    pub fn get(&self, key: &CacheKey) -> Option<Arc<CacheEntry>> {
        self.segment(key)?.get(key).cloned()
    }

    /// Inserts or replaces an entry at the time `now`.
    pub fn insert(&self, key: CacheKey, entry: Arc<CacheEntry>, now: Instant) {
        if let Some(mut segment) = self.segment(&key) {
            segment.insert(key, entry);
            segment.remove_oldest(REMOVED_AT_ONCE, |oldest| now < oldest.expires_at + KEPT_EXPIRED);
        }
    }

    /// How many entries there are, and the bytes that they take.
    pub fn size(&self) -> (usize, usize) {
        let segments = self.0.iter().map(|segment| segment.lock().unwrap_or_else(PoisonError::into_inner));
        segments.fold((0, 0), |(entries, bytes), segment| (entries + segment.len(), bytes + segment.bytes()))
    }

    fn segment(&self, key: &CacheKey) -> Option<MutexGuard<'_, Segment>> {
        let segment = self.0.get(usize::from(key.0[0]) % self.0.len().max(1))?;
        Some(segment.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};

    use super::super::entry::{CachedBody, OVERHEAD};
    use super::*;

    fn entry(body: usize) -> Arc<CacheEntry> {
        Arc::new(CacheEntry {
            commit: 0,
            reads: Box::default(),
            keys: Box::default(),
            dependencies: Arc::default(),
            nested: Box::default(),
            expires_at: Instant::now(),
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: CachedBody::Whole(Bytes::from(vec![0; body])),
        })
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted_first() {
        let table = Lru::new(1, 10 * (OVERHEAD + 1000));
        let (key, now) = (|number: u8| CacheKey([number; 32]), Instant::now());
        (0..10).for_each(|number| table.insert(key(number), entry(1000), now));
        table.insert(key(0), entry(1000), now);
        assert!((0..10).all(|number| table.get(&key(number)).is_some()), "replacing takes no more room");
        table.get(&key(0));
        table.insert(key(10), entry(1000), now);
        assert!(table.get(&key(0)).is_some() && table.get(&key(10)).is_some());
        assert!(table.get(&key(1)).is_none());
    }

    #[test]
    fn entries_that_expired_long_ago_make_room_for_others() {
        let table = Lru::new(1, 100 * (OVERHEAD + 1000));
        let (key, now) = (|number: u8| CacheKey([number; 32]), Instant::now());
        (0..10).for_each(|number| table.insert(key(number), entry(1000), now));
        let later = now + KEPT_EXPIRED + Duration::from_secs(1);
        let fresh = || Arc::new(CacheEntry { expires_at: later, ..Arc::into_inner(entry(1000)).unwrap() });
        (10..14).for_each(|number| table.insert(key(number), fresh(), now));
        assert_eq!(table.size().0, 14, "they are kept for a while");
        (14..20).for_each(|number| table.insert(key(number), fresh(), later));
        assert_eq!(table.size().0, 10);
        assert!((10..20).all(|number| table.get(&key(number)).is_some()));
    }
}
