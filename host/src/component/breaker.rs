//! Slows a generation that keeps failing.
//!
//! A path at which it fails time after time, with no whole answer in between, is left alone for a
//! while, and then tried by a few requests first; a whole answer ends it. Paths are counted apart,
//! so that whoever knows a request that makes the component trap does not shut it for everybody.
//! Each generation has its own, so that a swap or a rollback begins afresh.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failures in a row within [`WINDOW`] after which the component is not asked.
const FAILURES: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// How long it is not asked at first; twice as long after each failed attempt.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// Requests that may try whether it works again. More than one, because the first that comes
/// may be the very one that the component fails at.
const PROBES: u32 = 3;

/// Nothing was heard of the probes for this long: others may try.
const PROBE_TIME: Duration = Duration::from_secs(5);

/// How a generation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Good,
    /// A few requests try whether it works again.
    Probed,
    Failing,
}

/// What a failure or an answer has changed.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    None,
    /// It is not asked for this long.
    Opened(Duration),
    Closed,
}

#[derive(Debug)]
enum State {
    /// The failures in a row, and when the first of them was.
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

/// The state of one generation, over all shards.
#[derive(Debug)]
pub struct Breakers {
    component: String,
    generation: u64,
    /// Until the first failure nobody has to look any further.
    tense: AtomicBool,
    /// Of instances that cannot even be made.
    whole: Breaker,
    /// Of paths, by their hash. A fixed number, because clients choose the paths.
    paths: Box<[Breaker]>,
    hasher: RandomState,
}

/// Paths share this many breakers.
const PATHS: usize = 256;

impl Breakers {
    pub fn new(component: &str, generation: u64) -> Self {
        Self {
            component: component.to_owned(),
            generation,
            tense: AtomicBool::new(false),
            whole: Breaker::new(),
            paths: (0..PATHS).map(|_| Breaker::new()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// That of the path in the worst state.
    pub fn health(&self) -> Health {
        if !self.tense.load(Ordering::Relaxed) {
            return Health::Good;
        }
        let all = self.paths.iter().chain([&self.whole]);
        all.fold(Health::Good, |worst, breaker| match (worst, breaker.health()) {
            (Health::Failing, _) | (_, Health::Failing) => Health::Failing,
            (Health::Probed, _) | (_, Health::Probed) => Health::Probed,
            _ => Health::Good,
        })
    }

    /// Lets a request through, or says how long it is to wait before it comes again.
    pub fn admit(&self, path: &str) -> Result<(), Duration> {
        if !self.tense.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.of(Some(path)).admit()?;
        self.whole.admit()
    }

    /// An instance ended before its time while it served `path`, or, if there is none, before it
    /// could serve anything. True if requests are sent away from now on.
    pub fn failed(&self, path: Option<&str>) -> bool {
        self.tense.store(true, Ordering::Relaxed);
        let Change::Opened(back_off) = self.of(path).failed_at(Instant::now()) else { return false };
        let (Self { component, generation, .. }, path) = (self, path.unwrap_or_default().escape_debug());
        tracing::error!(component, generation, %path, ?back_off, "the component keeps failing and is left alone");
        true
    }

    /// A response was complete.
    pub fn answered(&self, path: &str) {
        if !self.tense.load(Ordering::Relaxed) {
            return;
        }
        for breaker in [self.of(Some(path)), &self.whole] {
            if breaker.answered() == Change::Closed {
                let (Self { component, generation, .. }, path) = (self, path.escape_debug());
                tracing::info!(component, generation, %path, "the component works again");
            }
        }
    }

    fn of(&self, path: Option<&str>) -> &Breaker {
        let place = path.map(|path| self.hasher.hash_one(path) as usize % PATHS);
        place.and_then(|place| self.paths.get(place)).unwrap_or(&self.whole)
    }
}

/// The state of one path.
#[derive(Debug)]
struct Breaker {
    /// What requests look at: nothing, failures, or no longer closed.
    mood: AtomicU8,
    state: Mutex<State>,
}

const CALM: u8 = 0;
const TENSE: u8 = 1;
const TRIPPED: u8 = 2;

impl Breaker {
    fn new() -> Self {
        let state = State::Closed { failures: 0, first: Instant::now() };
        Self { mood: AtomicU8::new(CALM), state: Mutex::new(state) }
    }

    fn health(&self) -> Health {
        match &*self.state() {
            State::Closed { .. } => Health::Good,
            State::HalfOpen { .. } => Health::Probed,
            State::Open { until, .. } if *until <= Instant::now() => Health::Probed,
            State::Open { .. } => Health::Failing,
        }
    }

    fn admit(&self) -> Result<(), Duration> {
        match self.mood.load(Ordering::Relaxed) {
            TRIPPED => self.admit_at(Instant::now()),
            _ => Ok(()),
        }
    }

    fn answered(&self) -> Change {
        match self.mood.load(Ordering::Relaxed) {
            CALM => Change::None,
            _ => self.close(),
        }
    }

    fn close(&self) -> Change {
        let mut state = self.state();
        let closed = matches!(*state, State::Closed { .. });
        *state = State::Closed { failures: 0, first: Instant::now() };
        self.mood.store(CALM, Ordering::Relaxed);
        if closed { Change::None } else { Change::Closed }
    }

    fn admit_at(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.state();
        match &mut *state {
            State::Closed { .. } => Ok(()),
            State::Open { until, .. } if now < *until => Err(*until - now),
            State::Open { back_off, .. } => {
                *state = State::HalfOpen { since: now, probes: 1, back_off: *back_off };
                Ok(())
            }
            State::HalfOpen { since, probes, .. } => {
                if now.saturating_duration_since(*since) >= PROBE_TIME {
                    (*since, *probes) = (now, 0);
                }
                if *probes == PROBES {
                    return Err(SHORTEST);
                }
                *probes += 1;
                Ok(())
            }
        }
    }

    fn failed_at(&self, now: Instant) -> Change {
        let mut state = self.state();
        let back_off = match &mut *state {
            // Of a request that was under way.
            State::Open { .. } => return Change::None,
            State::HalfOpen { back_off, .. } => LONGEST.min(*back_off * 2),
            State::Closed { failures, first } => {
                if *failures == 0 || now.saturating_duration_since(*first) > WINDOW {
                    (*failures, *first) = (0, now);
                }
                *failures += 1;
                if *failures < FAILURES {
                    self.mood.store(TENSE, Ordering::Relaxed);
                    return Change::None;
                }
                SHORTEST
            }
        };
        *state = State::Open { until: now + back_off, back_off };
        self.mood.store(TRIPPED, Ordering::Relaxed);
        Change::Opened(back_off)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
            assert_eq!(breaker.failed_at(start), Change::None);
            assert_eq!(breaker.admit_at(start), Ok(()));
        }
        assert_eq!(breaker.failed_at(start), Change::Opened(SHORTEST));
        (breaker, start)
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_good_answer_between_them_does_not_let_them() {
        let (breaker, start) = (Breaker::new(), Instant::now());
        for n in 0..10 * FAILURES {
            assert_eq!(breaker.failed_at(start), Change::None, "{n}");
            if n % (FAILURES - 1) == 0 {
                assert_eq!(breaker.close(), Change::None);
            }
        }
        let (breaker, start) = opened();
        assert_eq!(breaker.admit_at(start), Err(SHORTEST));
        assert_eq!(breaker.health(), Health::Failing);
        assert_eq!(breaker.failed_at(start), Change::None, "one that was under way");
    }

    #[test]
    fn few_failures_in_a_long_time_do_not_open_it() {
        let (breaker, start) = (Breaker::new(), Instant::now());
        for n in 0..10 * FAILURES {
            assert_eq!(breaker.failed_at(start + SECOND * n), Change::None, "{n}");
        }
    }

    #[test]
    fn it_is_tried_by_a_few_and_an_answer_closes_it() {
        let (breaker, start) = opened();
        let later = start + SHORTEST;
        for _ in 0..PROBES {
            assert_eq!(breaker.admit_at(later), Ok(()));
        }
        assert_eq!(breaker.admit_at(later), Err(SHORTEST));
        assert_eq!(breaker.health(), Health::Probed);
        assert_eq!(breaker.admit_at(later + PROBE_TIME), Ok(()), "nothing was heard of the others");
        assert_eq!(breaker.close(), Change::Closed);
        assert_eq!((breaker.health(), breaker.admit()), (Health::Good, Ok(())));
        assert_eq!(breaker.failed_at(later), Change::None, "the count began again");
    }

    #[test]
    fn each_failed_attempt_doubles_the_pause_up_to_a_bound() {
        let (breaker, mut now) = opened();
        for expected in [2, 4, 8, 16, 30, 30] {
            now += LONGEST;
            assert_eq!(breaker.admit_at(now), Ok(()));
            assert_eq!(breaker.failed_at(now), Change::Opened(SECOND * expected));
        }
    }

    #[test]
    fn a_path_at_which_it_fails_is_not_another() {
        let breakers = Breakers::new("a", 1);
        let apart = (0..)
            .map(|n| format!("/{n}"))
            .find(|path| !std::ptr::eq(breakers.of(Some(path)), breakers.of(Some("/trap"))));
        let other = apart.unwrap();
        assert_eq!((1..FAILURES).filter(|_| breakers.failed(Some("/trap"))).count(), 0);
        assert!(breakers.failed(Some("/trap")));
        assert!(breakers.admit("/trap").is_err());
        assert_eq!((breakers.admit(&other), breakers.health()), (Ok(()), Health::Failing));
        breakers.answered(&other);
        assert!(breakers.admit("/trap").is_err(), "that says nothing about this one");
        breakers.answered("/trap");
        assert_eq!((breakers.admit("/trap"), breakers.health()), (Ok(()), Health::Good));
        // What cannot even be made fails at every path.
        for _ in 0..FAILURES {
            breakers.failed(None);
        }
        assert!(breakers.admit(&other).is_err());
    }
}
