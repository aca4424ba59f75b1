//! How long guests keep the processor: from where one goes on to where its poll ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::Counters;

/// Measures one instance. Not counted is the part of a poll, a tick of the epoch at most, with
/// which a guest goes on after it has waited for something.
#[derive(Debug)]
pub struct Busy {
    origin: Instant,
    /// When it went on, in nanoseconds since the origin, plus one; 0 while it does not run.
    since: AtomicU64,
    counters: Arc<Counters>,
}

impl Default for Busy {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Busy {
    pub fn new(counters: Arc<Counters>) -> Self {
        Self { origin: Instant::now(), since: AtomicU64::new(0), counters }
    }

    /// Where it is counted.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub fn begin(&self) {
        self.since.store(self.now() + 1, Ordering::Relaxed);
    }

    pub fn end(&self) {
        let since = self.since.swap(0, Ordering::Relaxed);
        if since > 0 {
            self.counters.busy_nanos.add((self.now() + 1).saturating_sub(since));
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
    }
}
