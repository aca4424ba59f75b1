//! How long guests keep the processor: from where one goes on to where its poll ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Counters;

/// Measures one instance: what its polls take, a guest that waits aside.
#[derive(Debug)]
pub struct Busy {
    origin: Instant,
    /// When it went on, in nanoseconds since the origin, plus one; 0 while it does not run.
    since: AtomicU64,
    /// Of the current request, in nanoseconds.
    spent: AtomicU64,
    counters: Arc<Counters>,
}

impl Default for Busy {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Busy {
    pub fn new(counters: Arc<Counters>) -> Self {
        Self { origin: Instant::now(), since: AtomicU64::new(0), spent: AtomicU64::new(0), counters }
    }

    /// Where it is counted.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// What follows belongs to another request.
    pub fn begin_request(&self) {
        self.end();
        self.spent.store(0, Ordering::Relaxed);
    }

    /// What the current request has taken so far, up to the last end.
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed))
    }

    /// The guest goes on.
    pub fn begin(&self) {
        self.since.store(self.now() + 1, Ordering::Relaxed);
    }

    /// The guest stops, or somebody wants to know how long it has taken so far.
    pub fn end(&self) {
        let since = self.since.swap(0, Ordering::Relaxed);
        if since > 0 {
            let nanos = (self.now() + 1).saturating_sub(since);
            self.counters.busy_nanos.add(nanos);
            self.spent.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_began_is_counted_and_only_once() {
        let counters = Arc::new(Counters::default());
        let busy = Busy::new(counters.clone());
        busy.end();
        assert_eq!(counters.busy_nanos.get(), 0);
        busy.begin();
        std::hint::black_box((0..10_000u64).sum::<u64>());
        busy.end();
        let once = counters.busy_nanos.get();
        assert!(once > 0);
        busy.end();
        assert_eq!(counters.busy_nanos.get(), once);
        assert_eq!(busy.spent(), Duration::from_nanos(once));
    }

    #[test]
    fn a_request_begins_with_nothing() {
        let busy = Busy::default();
        busy.begin();
        std::hint::black_box((0..10_000u64).sum::<u64>());
        busy.end();
        assert!(busy.spent() > Duration::ZERO);
        busy.begin_request();
        assert_eq!(busy.spent(), Duration::ZERO);
    }
}
