//! A limit on log lines whose number a guest or a client decides.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A token bucket. It passes `burst` events at once and `per_second` on average, and counts the others.
#[derive(Debug)]
pub struct LogThrottle {
    burst: u32,
    interval: Duration,
    state: Mutex<ThrottleState>,
}

#[derive(Debug)]
struct ThrottleState {
    /// The time when the bucket will be full again.
    full_at: Instant,
    suppressed: u64,
}

impl LogThrottle {
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self {
            burst,
            interval: Duration::from_secs(1) / per_second.max(1),
            state: Mutex::new(ThrottleState { full_at: Instant::now(), suppressed: 0 }),
        }
    }

    /// `Some(n)` if the event may be logged; `n` events were suppressed before it.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(Instant::now())
    }

    fn pass_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = state.full_at.max(now) + self.interval;
        if next > now + self.interval * self.burst {
            state.suppressed += 1;
            return None;
        }
        state.full_at = next;
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_a_burst_then_the_average_and_counts_the_rest() {
        let throttle = LogThrottle::new(10, 3);
        let start = Instant::now();
        let passes = |at: u64| throttle.pass_at(start + Duration::from_millis(at));
        assert_eq!([passes(0), passes(0), passes(0)], [Some(0); 3]);
        assert_eq!([passes(0), passes(50)], [None; 2]);
        assert_eq!(passes(110), Some(2));
        assert_eq!(passes(120), None);
    }
}
