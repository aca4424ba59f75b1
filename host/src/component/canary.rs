//! A new generation on trial: who gets it, and whether it passes.
//!
//! A caller stays on the side that its credential (or else its address) falls on, so that nobody
//! sees the two versions in turn. The trial ends by itself: the new generation goes as soon as
//! it does worse than its terms allow, and stays once the window is over and enough requests
//! have come.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Generation;

/// Answers of the new generation before anything is concluded from them.
const ENOUGH: u64 = 10;

/// The part of the answers that may be slower than the bound: the bound is on the 95th percentile.
const SLOW_SHARE: f64 = 0.05;

/// What a trial is held to.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// How many of a hundred callers get the new generation, above 0 and at most 100.
    pub percent: f64,
    /// How long the trial takes.
    pub window: Duration,
    /// By how much the part of failed answers (status 500 and above) may be higher than that of
    /// the present generation, from 0 to 1.
    pub max_errors: f64,
    /// What 95 of 100 answers must not take longer than, to their head.
    pub max_latency: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self { percent: 5.0, window: Duration::from_secs(60), max_errors: 0.05, max_latency: Duration::from_secs(1) }
    }
}

/// What a trial comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Undecided,
    Passed,
    /// A sentence with the figures.
    Failed(String),
}

/// The answers of one side.
#[derive(Debug, Default)]
pub struct Tally {
    answers: AtomicU64,
    failed: AtomicU64,
    slow: AtomicU64,
}

impl Tally {
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    fn share(&self, of: &AtomicU64) -> f64 {
        match self.answers() {
            0 => 0.0,
            answers => of.load(Ordering::Relaxed) as f64 / answers as f64,
        }
    }
}

/// A trial under way.
pub struct Canary {
    pub generation: Arc<Generation>,
    pub terms: Terms,
    pub tally: Tally,
    /// The present generation's answers since the trial began.
    pub present: Tally,
    started: Instant,
    /// Somebody has concluded it.
    concluded: AtomicBool,
}

impl Canary {
    pub fn new(generation: Arc<Generation>, terms: Terms) -> Self {
        Self {
            generation,
            terms,
            tally: Tally::default(),
            present: Tally::default(),
            started: Instant::now(),
            concluded: AtomicBool::new(false),
        }
    }

    /// Whether a caller gets the new generation. The digest decides with it, so that it is not
    /// always the same callers who try what is new.
    pub fn takes(&self, caller: u64) -> bool {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.generation.digest.as_bytes());
        hasher.write_u64(caller);
        (hasher.finish() % 10_000) as f64 / 100.0 < self.terms.percent
    }

    /// Counts an answer of either side.
    pub fn count(&self, of_canary: bool, status: u16, latency: Duration) {
        let tally = if of_canary { &self.tally } else { &self.present };
        if status >= 500 {
            tally.failed.fetch_add(1, Ordering::Relaxed);
        }
        if latency > self.terms.max_latency {
            tally.slow.fetch_add(1, Ordering::Relaxed);
        }
        tally.answers.fetch_add(1, Ordering::Relaxed);
    }

    pub fn verdict(&self) -> Verdict {
        self.terms.verdict(&self.tally, &self.present, self.started.elapsed())
    }

    pub fn ends_at(&self) -> Instant {
        self.started + self.terms.window
    }

    /// True for the one caller who may act on the verdict.
    pub fn conclude(&self) -> bool {
        !self.concluded.swap(true, Ordering::SeqCst)
    }
}

impl Terms {
    fn verdict(&self, canary: &Tally, present: &Tally, elapsed: Duration) -> Verdict {
        if canary.answers() < ENOUGH {
            return Verdict::Undecided;
        }
        let (errors, usual) = (canary.share(&canary.failed), present.share(&present.failed));
        if errors > usual + self.max_errors {
            return Verdict::Failed(format!(
                "{:.1} % of its {} answers failed, and {:.1} % of the present version's; allowed are {:.1} points more",
                errors * 100.0,
                canary.answers(),
                usual * 100.0,
                self.max_errors * 100.0
            ));
        }
        let slow = canary.share(&canary.slow);
        if slow > SLOW_SHARE {
            return Verdict::Failed(format!(
                "{:.1} % of its {} answers took longer than {:?}; allowed are {:.0} %",
                slow * 100.0,
                canary.answers(),
                self.max_latency,
                SLOW_SHARE * 100.0
            ));
        }
        match elapsed >= self.window {
            true => Verdict::Passed,
            false => Verdict::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(answers: u64, failed: u64, slow: u64) -> Tally {
        Tally { answers: answers.into(), failed: failed.into(), slow: slow.into() }
    }

    fn verdict(canary: Tally, present: Tally, elapsed: u64) -> Verdict {
        Terms::default().verdict(&canary, &present, Duration::from_secs(elapsed))
    }

    #[test]
    fn few_answers_decide_nothing() {
        assert_eq!(verdict(tally(9, 9, 9), tally(0, 0, 0), 3600), Verdict::Undecided);
    }

    #[test]
    fn errors_are_measured_against_the_present_version() {
        let Verdict::Failed(reason) = verdict(tally(10, 1, 0), tally(100, 0, 0), 1) else { panic!("passed") };
        assert!(reason.contains("10.0 % of its 10 answers") && reason.contains("0.0 % of the present"), "{reason}");
        assert_eq!(verdict(tally(10, 1, 0), tally(100, 5, 0), 1), Verdict::Undecided, "5 points more are allowed");
    }

    #[test]
    fn slowness_is_measured_against_the_bound() {
        assert_eq!(verdict(tally(100, 0, 5), tally(0, 0, 0), 1), Verdict::Undecided);
        assert!(matches!(verdict(tally(100, 0, 6), tally(0, 0, 0), 1), Verdict::Failed(_)));
    }

    #[test]
    fn a_good_canary_passes_when_the_window_is_over_and_not_before() {
        assert_eq!(verdict(tally(1000, 0, 0), tally(0, 0, 0), 59), Verdict::Undecided);
        assert_eq!(verdict(tally(1000, 0, 0), tally(0, 0, 0), 60), Verdict::Passed);
    }
}
