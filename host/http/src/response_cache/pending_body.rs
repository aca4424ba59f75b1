//! Large bodies under recording: a few at once, each by one request only.
//!
//! Concurrent requests for the same body do not share it before it is stored. A client that stops reading must not keep
//! the recorded chunks in memory, so the cache may drop a recording.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use bytes::Bytes;

use super::key::CacheKey;

/// How many large bodies are recorded at once.
const MAX_PENDING: usize = 4;

/// The recorded part of a large body.
pub struct PendingBody {
    key: CacheKey,
    /// When the entry would expire.
    expires_at: Instant,
    chunks: Mutex<Vec<Bytes>>,
}

/// Owns all pending bodies. Recorders hold weak references, so that the cache can drop a slow recording.
#[derive(Default)]
pub struct PendingBodies(Mutex<Vec<Arc<PendingBody>>>);

impl PendingBodies {
    /// Begins a body with these chunks, after it has dropped the expired ones. `None` if another request records the
    /// same body, or if [`MAX_PENDING`] are under way.
    pub fn begin(&self, key: CacheKey, expires_at: Instant, chunks: Vec<Bytes>) -> Option<Weak<PendingBody>> {
        let now = Instant::now();
        let mut bodies = self.lock();
        bodies.retain(|body| body.expires_at > now);
        if bodies.len() >= MAX_PENDING || bodies.iter().any(|body| body.key == key) {
            return None;
        }
        let body = Arc::new(PendingBody { key, expires_at, chunks: Mutex::new(chunks) });
        let weak = Arc::downgrade(&body);
        bodies.push(body);
        Some(weak)
    }

    /// Removes a body and returns its chunks. `None` if the cache has dropped it.
    pub fn finish(&self, body: &Weak<PendingBody>) -> Option<Vec<Bytes>> {
        let body = body.upgrade()?;
        self.lock().retain(|other| !Arc::ptr_eq(other, &body));
        Some(std::mem::take(&mut *body.lock()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<PendingBody>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingBody {
    pub fn push(&self, chunk: Bytes) {
        self.lock().push(chunk);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Bytes>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(number: u8) -> CacheKey {
        CacheKey([number; 32])
    }

    #[test]
    fn a_body_is_recorded_once_and_only_a_few_at_a_time() {
        let bodies = PendingBodies::default();
        let expires_at = Instant::now() + Duration::from_secs(3600);
        let first = bodies.begin(key(0), expires_at, vec![Bytes::from_static(b"a")]).unwrap();
        assert!(bodies.begin(key(0), expires_at, Vec::new()).is_none());
        let others: Vec<_> =
            (1..MAX_PENDING as u8).map(|n| bodies.begin(key(n), expires_at, Vec::new()).unwrap()).collect();
        assert!(bodies.begin(key(99), expires_at, Vec::new()).is_none());
        first.upgrade().unwrap().push(Bytes::from_static(b"b"));
        assert_eq!(bodies.finish(&first).unwrap(), ["a", "b"]);
        assert!(bodies.finish(&first).is_none());
        assert!(bodies.begin(key(0), expires_at, Vec::new()).is_some());
        assert!(bodies.finish(&others[0]).unwrap().is_empty());
    }

    #[test]
    fn an_expired_body_is_dropped_for_another() {
        let bodies = PendingBodies::default();
        let slow: Vec<_> =
            (0..MAX_PENDING as u8).map(|n| bodies.begin(key(n), Instant::now(), vec![Bytes::new()]).unwrap()).collect();
        let other = bodies.begin(key(0), Instant::now() + Duration::from_secs(3600), Vec::new());
        assert!(other.is_some_and(|other| other.upgrade().is_some()));
        assert!(slow.iter().all(|slow| slow.upgrade().is_none() && bodies.finish(slow).is_none()));
    }
}
