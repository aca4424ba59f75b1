//! Circuit breakers of a revision (decision 0021).
//!
//! Each path has a breaker. Consecutive failures at a path, with no complete response between them, open its breaker,
//! and the host refuses the path's requests for a while. Then it lets a few probes through; a complete response closes
//! the breaker. Paths have separate breakers, so that a client with a request that makes the component trap does not
//! block other paths. Each revision has its own breakers, so that a swap or a rollback begins with closed ones.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Consecutive failures within [`WINDOW`] that open the breaker.
const FAILURES: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// How long a breaker is open: at first, and at most. Each failed probe doubles it.
const MIN_BACK_OFF: Duration = Duration::from_secs(1);
const MAX_BACK_OFF: Duration = Duration::from_secs(30);

/// Probes of a half-open breaker. More than one, because the first may be the very request at which the component
/// always fails.
const PROBES: u32 = 3;

/// Without an outcome of the probes for this long, the breaker lets further probes through.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The worst state of a revision's breakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Closed.
    Healthy,
    /// Half-open.
    Recovering,
    /// Open.
    Failing,
}

/// How a failure or a response has changed a breaker.
#[derive(Debug, PartialEq, Eq)]
enum BreakerTransition {
    None,
    /// Open for this long.
    Opened(Duration),
    Closed,
}

#[derive(Debug)]
enum BreakerState {
    /// The consecutive failures, and the time of the first.
    Closed {
        failures: u32,
        first: Instant,
    },
    Open {
        until: Instant,
        back_off: Duration,
    },
    HalfOpen {
        since: Instant,
        probes: u32,
        back_off: Duration,
    },
}

/// The breakers of one revision, over all shards.
#[derive(Debug)]
pub struct Breakers {
    component: String,
    revision: u64,
    /// False until the first failure: until then, every breaker is closed.
    has_failed: AtomicBool,
    /// Counts failures to make an instance.
    instantiation: Breaker,
    /// By the hash of the path. Paths share breakers, because clients choose the paths, and their number must not
    /// decide how much memory breakers take.
    paths: Box<[Breaker]>,
    hasher: RandomState,
}

/// How many breakers the paths of a revision share.
const PATH_BREAKERS: usize = 256;

impl Breakers {
    pub fn new(component: &str, revision: u64) -> Self {
        Self {
            component: component.to_owned(),
            revision,
            has_failed: AtomicBool::new(false),
            instantiation: Breaker::new(),
            paths: (0..PATH_BREAKERS).map(|_| Breaker::new()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// The worst state of all breakers.
    pub fn health(&self) -> Health {
        if !self.has_failed.load(Ordering::Relaxed) {
            return Health::Healthy;
        }
        let all = self.paths.iter().chain([&self.instantiation]);
        all.fold(Health::Healthy, |worst, breaker| match (worst, breaker.health()) {
            (Health::Failing, _) | (_, Health::Failing) => Health::Failing,
            (Health::Recovering, _) | (_, Health::Recovering) => Health::Recovering,
            _ => Health::Healthy,
        })
    }

    /// Lets a request through, or returns how long the client should wait before it retries.
    pub fn admit(&self, path: &str) -> Result<(), Duration> {
        if !self.has_failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.breaker_for(Some(path)).admit()?;
        self.instantiation.admit()
    }

    /// Records that an instance failed while it served `path` or, without a path, while it was made. True if the
    /// failure opens a breaker.
    pub fn record_failure(&self, path: Option<&str>) -> bool {
        self.has_failed.store(true, Ordering::Relaxed);
        let BreakerTransition::Opened(back_off) = self.breaker_for(path).record_failure_at(Instant::now()) else {
            return false;
        };
        let (Self { component, revision, .. }, path) = (self, path.unwrap_or_default().escape_debug());
        tracing::error!(component, revision, %path, ?back_off, "the component keeps failing; its circuit breaker opens");
        true
    }

    pub fn record_success(&self, path: &str) {
        if !self.has_failed.load(Ordering::Relaxed) {
            return;
        }
        for breaker in [self.breaker_for(Some(path)), &self.instantiation] {
            if breaker.record_success() == BreakerTransition::Closed {
                let (Self { component, revision, .. }, path) = (self, path.escape_debug());
                tracing::info!(component, revision, %path, "the component responds again; its circuit breaker closes");
            }
        }
    }

    fn breaker_for(&self, path: Option<&str>) -> &Breaker {
        let index = path.map(|path| self.hasher.hash_one(path) as usize % PATH_BREAKERS);
        index.and_then(|index| self.paths.get(index)).unwrap_or(&self.instantiation)
    }
}

#[derive(Debug)]
struct Breaker {
    /// The kind of `detail`, so that a request without failures takes no lock.
    state: AtomicU8,
    detail: Mutex<BreakerState>,
}

/// Closed, without failures.
const CLOSED: u8 = 0;
/// Closed, with failures.
const COUNTING: u8 = 1;
const OPEN: u8 = 2;
const HALF_OPEN: u8 = 3;

impl Breaker {
    fn new() -> Self {
        let detail = BreakerState::Closed { failures: 0, first: Instant::now() };
        Self { state: AtomicU8::new(CLOSED), detail: Mutex::new(detail) }
    }

    fn health(&self) -> Health {
        match &*self.detail() {
            BreakerState::Closed { .. } => Health::Healthy,
            BreakerState::HalfOpen { .. } => Health::Recovering,
            BreakerState::Open { until, .. } if *until <= Instant::now() => Health::Recovering,
            BreakerState::Open { .. } => Health::Failing,
        }
    }

    fn admit(&self) -> Result<(), Duration> {
        match self.state.load(Ordering::Relaxed) {
            OPEN | HALF_OPEN => self.admit_at(Instant::now()),
            _ => Ok(()),
        }
    }

    fn record_success(&self) -> BreakerTransition {
        match self.state.load(Ordering::Relaxed) {
            CLOSED => BreakerTransition::None,
            _ => self.close(),
        }
    }

    fn close(&self) -> BreakerTransition {
        let mut detail = self.detail();
        let closed = matches!(*detail, BreakerState::Closed { .. });
        *detail = BreakerState::Closed { failures: 0, first: Instant::now() };
        self.state.store(CLOSED, Ordering::Relaxed);
        if closed { BreakerTransition::None } else { BreakerTransition::Closed }
    }

    fn admit_at(&self, now: Instant) -> Result<(), Duration> {
        let mut detail = self.detail();
        match &mut *detail {
            BreakerState::Closed { .. } => Ok(()),
            BreakerState::Open { until, .. } if now < *until => Err(*until - now),
            BreakerState::Open { back_off, .. } => {
                *detail = BreakerState::HalfOpen { since: now, probes: 1, back_off: *back_off };
                self.state.store(HALF_OPEN, Ordering::Relaxed);
                Ok(())
            }
            BreakerState::HalfOpen { since, probes, .. } => {
                if now.saturating_duration_since(*since) >= PROBE_TIMEOUT {
                    (*since, *probes) = (now, 0);
                }
                if *probes == PROBES {
                    return Err(MIN_BACK_OFF);
                }
                *probes += 1;
                Ok(())
            }
        }
    }

    fn record_failure_at(&self, now: Instant) -> BreakerTransition {
        let mut detail = self.detail();
        let back_off = match &mut *detail {
            // The request was admitted before the breaker opened.
            BreakerState::Open { .. } => return BreakerTransition::None,
            BreakerState::HalfOpen { back_off, .. } => MAX_BACK_OFF.min(*back_off * 2),
            BreakerState::Closed { failures, first } => {
                if *failures == 0 || now.saturating_duration_since(*first) > WINDOW {
                    (*failures, *first) = (0, now);
                }
                *failures += 1;
                if *failures < FAILURES {
                    self.state.store(COUNTING, Ordering::Relaxed);
                    return BreakerTransition::None;
                }
                MIN_BACK_OFF
            }
        };
        *detail = BreakerState::Open { until: now + back_off, back_off };
        self.state.store(OPEN, Ordering::Relaxed);
        BreakerTransition::Opened(back_off)
    }

    fn detail(&self) -> MutexGuard<'_, BreakerState> {
        self.detail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A breaker that has just opened, and when.
    fn opened() -> (Breaker, Instant) {
        let (breaker, start) = (Breaker::new(), Instant::now());
        for _ in 1..FAILURES {
            assert_eq!(breaker.record_failure_at(start), BreakerTransition::None);
            assert_eq!(breaker.admit_at(start), Ok(()));
        }
        assert_eq!(breaker.record_failure_at(start), BreakerTransition::Opened(MIN_BACK_OFF));
        (breaker, start)
    }

    #[test]
    fn failures_in_a_row_open_it_unless_a_response_is_between_them() {
        let (breaker, start) = (Breaker::new(), Instant::now());
        for n in 0..10 * FAILURES {
            assert_eq!(breaker.record_failure_at(start), BreakerTransition::None, "{n}");
            if n % (FAILURES - 1) == 0 {
                assert_eq!(breaker.close(), BreakerTransition::None);
            }
        }
        let (breaker, start) = opened();
        assert_eq!(breaker.admit_at(start), Err(MIN_BACK_OFF));
        assert_eq!(breaker.health(), Health::Failing);
        assert_eq!(breaker.record_failure_at(start), BreakerTransition::None, "a request that was admitted before");
    }

    #[test]
    fn few_failures_in_a_long_time_do_not_open_it() {
        let (breaker, start) = (Breaker::new(), Instant::now());
        for n in 0..10 * FAILURES {
            assert_eq!(breaker.record_failure_at(start + SECOND * n), BreakerTransition::None, "{n}");
        }
    }

    #[test]
    fn a_few_probes_are_let_through_and_a_response_closes_it() {
        let (breaker, start) = opened();
        let later = start + MIN_BACK_OFF;
        for _ in 0..PROBES {
            assert_eq!(breaker.admit_at(later), Ok(()));
        }
        assert_eq!(breaker.admit_at(later), Err(MIN_BACK_OFF));
        assert_eq!(breaker.health(), Health::Recovering);
        assert_eq!(breaker.admit_at(later + PROBE_TIMEOUT), Ok(()), "the other probes have no outcome");
        assert_eq!(breaker.close(), BreakerTransition::Closed);
        assert_eq!((breaker.health(), breaker.admit()), (Health::Healthy, Ok(())));
        assert_eq!(breaker.record_failure_at(later), BreakerTransition::None, "the count began again");
    }

    #[test]
    fn each_failed_probe_doubles_the_back_off_up_to_a_bound() {
        let (breaker, mut now) = opened();
        for expected in [2, 4, 8, 16, 30, 30] {
            now += MAX_BACK_OFF;
            assert_eq!(breaker.admit_at(now), Ok(()));
            assert_eq!(breaker.record_failure_at(now), BreakerTransition::Opened(SECOND * expected));
        }
    }

    #[test]
    fn paths_have_separate_breakers() {
        let breakers = Breakers::new("a", 1);
        let apart = (0..)
            .map(|n| format!("/{n}"))
            .find(|path| !std::ptr::eq(breakers.breaker_for(Some(path)), breakers.breaker_for(Some("/trap"))));
        let other = apart.unwrap();
        assert_eq!((1..FAILURES).filter(|_| breakers.record_failure(Some("/trap"))).count(), 0);
        assert!(breakers.record_failure(Some("/trap")));
        assert!(breakers.admit("/trap").is_err());
        assert_eq!((breakers.admit(&other), breakers.health()), (Ok(()), Health::Failing));
        breakers.record_success(&other);
        assert!(breakers.admit("/trap").is_err(), "a response at another path");
        breakers.record_success("/trap");
        assert_eq!((breakers.admit("/trap"), breakers.health()), (Ok(()), Health::Healthy));
        // A failed instantiation is a failure at every path.
        for _ in 0..FAILURES {
            breakers.record_failure(None);
        }
        assert!(breakers.admit(&other).is_err());
    }
}
