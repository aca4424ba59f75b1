//! The time of a server that several hosts share.
//!
//! Areas compare times that different hosts have written: when a blob was made, when a token ends. If each host used
//! its own clock, a wrong clock could remove a blob that another host is about to name. So all hosts give their guests
//! the server's time, and extrapolate it between two readings.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jiff::SignedDuration;
use rustix::time::{ClockId, clock_gettime};

/// The clock for the time between two readings, also while the machine is suspended.
#[cfg(target_os = "linux")]
const COUNTER: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const COUNTER: ClockId = ClockId::Monotonic;

/// The server's time, as far as this host knows.
#[derive(Debug, Default)]
pub struct ServerClock {
    /// The server's time when the counter was 0, in nanoseconds since 1970.
    start: AtomicI64,
}

/// A reading of the server's time.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    start: i64,
    /// How far `start` may be wrong, in nanoseconds.
    error: i64,
}

impl ClockReading {
    /// `micros` is the server's time, in microseconds since 1970. It came in the reply to a statement that was sent at
    /// `began`. The reply has just arrived.
    pub fn new(micros: i64, began: Instant) -> Self {
        let error = nanoseconds(began.elapsed()) / 2;
        Self { start: micros.saturating_mul(1000).saturating_add(error).saturating_sub(counter()), error }
    }
}

impl ServerClock {
    /// Uses a reading from now on, if it differs from the readings before by more than its error.
    pub fn set(&self, reading: ClockReading) {
        let difference = reading.start.saturating_sub(self.start.load(Ordering::Relaxed));
        if difference.saturating_abs() > reading.error {
            self.start.store(reading.start, Ordering::Relaxed);
        }
    }

    /// The server's time since 1970.
    pub fn now(&self) -> Duration {
        let now = self.start.load(Ordering::Relaxed).saturating_add(counter());
        Duration::from_nanos(u64::try_from(now).unwrap_or_default())
    }

    /// How far this machine's clock is ahead of the server's.
    pub fn machine_ahead(&self) -> SignedDuration {
        let machine = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let signed = |time: Duration| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        signed(machine).saturating_sub(signed(self.now()))
    }
}

fn counter() -> i64 {
    let time = clock_gettime(COUNTER);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(micros: i64) -> ClockReading {
        ClockReading::new(micros, Instant::now())
    }

    #[test]
    fn a_reading_counts_if_it_says_something_else() {
        let clock = ServerClock::default();
        let hour = Duration::from_secs(3600);
        for start in [3 * hour, 9 * hour, 6 * hour] {
            clock.set(reading(start.as_micros() as i64));
            let now = clock.now();
            assert!(now >= start && now < start + hour, "{now:?} after {start:?}");
        }
        let vague = ClockReading { error: nanoseconds(2 * hour), ..reading((5 * hour).as_micros() as i64) };
        clock.set(vague);
        assert!(clock.now() >= 6 * hour, "a reply that took so long says nothing new");
        assert!(clock.machine_ahead().is_positive());
    }
}
