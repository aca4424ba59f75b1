//! A guest's processor time: the time during which the host polls it (decision 0021).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Counters;

/// Measures the polls of one instance. The time between two polls does not count.
#[derive(Debug)]
pub struct CpuTimer {
    origin: Instant,
    /// When the current poll started, in nanoseconds since the origin, plus one; 0 between polls.
    started: AtomicU64,
    /// Nanoseconds of the current request's polls.
    request_nanos: AtomicU64,
    counters: Arc<Counters>,
}

impl Default for CpuTimer {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl CpuTimer {
    pub fn new(counters: Arc<Counters>) -> Self {
        Self { origin: Instant::now(), started: AtomicU64::new(0), request_nanos: AtomicU64::new(0), counters }
    }

    /// The counters to which the timer adds.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Sets the time of the current request to 0.
    pub fn begin_request(&self) {
        self.stop();
        self.request_nanos.store(0, Ordering::Relaxed);
    }

    /// The time of the current request, up to the last stop.
    pub fn request_time(&self) -> Duration {
        Duration::from_nanos(self.request_nanos.load(Ordering::Relaxed))
    }

    fn start(&self) {
        self.started.store(self.now() + 1, Ordering::Relaxed);
    }

    /// Adds the time since the start, if the timer runs.
    pub fn stop(&self) {
        let started = self.started.swap(0, Ordering::Relaxed);
        if started > 0 {
            let nanos = (self.now() + 1).saturating_sub(started);
            self.counters.cpu_nanos.add(nanos);
            self.request_nanos.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// Polls a guest and counts the time.
    pub fn measure<T>(&self, poll: impl FnOnce() -> T) -> T {
        self.start();
        let polled = poll();
        self.stop();
        polled
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_counts_the_time_since_the_start_once() {
        let counters = Arc::new(Counters::default());
        let timer = CpuTimer::new(counters.clone());
        timer.stop();
        assert_eq!(counters.cpu_nanos.get(), 0);
        timer.start();
        std::hint::black_box((0..10_000u64).sum::<u64>());
        timer.stop();
        let once = counters.cpu_nanos.get();
        assert!(once > 0);
        timer.stop();
        assert_eq!(counters.cpu_nanos.get(), once);
        assert_eq!(timer.request_time(), Duration::from_nanos(once));
    }

    #[test]
    fn a_new_request_resets_the_time() {
        let timer = CpuTimer::default();
        timer.start();
        std::hint::black_box((0..10_000u64).sum::<u64>());
        timer.stop();
        assert!(timer.request_time() > Duration::ZERO);
        timer.begin_request();
        assert_eq!(timer.request_time(), Duration::ZERO);
    }
}
