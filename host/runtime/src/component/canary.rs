//! A canary: a new revision that serves some of the callers until its trial is decided (decision 0029).
//!
//! The hash of a caller's credential (or else of its address) decides which revision serves it, so that a caller does
//! not alternate between versions. The host ends the trial. The canary fails as soon as it does worse than its policy
//! allows. It passes when the window is over and enough requests have come.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hexad_support::digest::Digest;

use super::revision::Revision;
use crate::request_context::{Awaited, RequestContext};

/// The least responses of a canary for a verdict: among fewer, a single failure says too little.
const MIN_RESPONSES: u64 = 10;

/// The share of responses that may be slower than the limit, because the limit is on the 95th percentile.
const MAX_SLOW_SHARE: f64 = 0.05;

/// The least slow responses that decide against a canary. Of ten responses, one exceeds the share already. But one or
/// two can be slow by chance, even if the 95th percentile is within the limit.
const MIN_SLOW_RESPONSES: u64 = 3;

/// How a trial is conducted and decided.
#[derive(Clone, Debug, PartialEq)]
pub struct CanaryPolicy {
    /// How many of a hundred callers the canary serves, above 0 and at most 100.
    pub percent: f64,
    /// How long the trial takes.
    pub window: Duration,
    /// By how much (from 0 to 1) the canary's share of failed responses may exceed the current revision's. A response
    /// failed if its status is 500 or above, or if its body breaks or stalls.
    pub max_errors: f64,
    /// The limit on the time to the head of a response, for 95 in 100 responses. The time runs from the permit on,
    /// without the guest's waits for its client. A body without a byte for this long has stalled.
    pub max_latency: Duration,
}

impl Default for CanaryPolicy {
    fn default() -> Self {
        Self { percent: 5.0, window: Duration::from_secs(60), max_errors: 0.05, max_latency: Duration::from_secs(1) }
    }
}

/// The verdict on a trial.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Undecided,
    Passed,
    /// A sentence with the figures.
    Failed(String),
}

/// A trial under way.
pub struct Canary {
    pub revision: Arc<Revision>,
    pub policy: CanaryPolicy,
    stats: CanaryStats,
    /// The current revision's responses since the trial began.
    baseline: CanaryStats,
    started: Instant,
    /// Set by the thread that acts on the verdict.
    concluded: AtomicBool,
    /// Set by the thread that logs the missing responses.
    shortage_reported: AtomicBool,
    /// Why the canary failed. It serves no further requests.
    failure: OnceLock<String>,
}

impl Canary {
    pub fn new(revision: Arc<Revision>, policy: CanaryPolicy) -> Self {
        Self {
            revision,
            policy,
            stats: CanaryStats::default(),
            baseline: CanaryStats::default(),
            started: Instant::now(),
            concluded: AtomicBool::new(false),
            shortage_reported: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    /// Whether the canary serves this caller. The hash includes the digest, so that different canaries have different
    /// callers.
    pub fn serves(&self, caller: u64) -> bool {
        if self.failure().is_some() {
            return false;
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(self.revision.digest.as_bytes());
        hasher.write_u64(caller);
        (hasher.finish() % 10_000) as f64 / 100.0 < self.policy.percent
    }

    /// Takes all callers from the canary if the verdict is against it. One thread gets the reason, and must end the
    /// trial.
    pub fn fail_by_verdict(&self) -> Option<String> {
        match self.verdict() {
            Verdict::Failed(reason) if self.conclude() => {
                self.fail(&reason);
                Some(reason)
            }
            _ => None,
        }
    }

    /// Takes all callers from the canary at once.
    pub fn fail(&self, reason: &str) {
        self.failure.get_or_init(|| reason.to_owned());
    }

    /// Why the canary serves no further requests, if so.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// The responses of the canary, or of the current revision.
    pub fn stats(&self, of_canary: bool) -> &CanaryStats {
        if of_canary { &self.stats } else { &self.baseline }
    }

    /// The canary's responses so far.
    pub fn counts(&self) -> ResponseCounts {
        self.stats.counts(self.policy.max_latency)
    }

    /// How many responses the canary lacks for a verdict.
    pub fn missing_responses(&self) -> u64 {
        MIN_RESPONSES.saturating_sub(self.counts().responses)
    }

    /// The missing responses, once the window is over. One thread gets them, and logs them.
    pub fn take_shortage(&self) -> Option<u64> {
        let missing = self.missing_responses();
        let is_short = missing > 0 && self.ends_at() <= Instant::now();
        (is_short && !self.shortage_reported.swap(true, Ordering::SeqCst)).then_some(missing)
    }

    pub fn verdict(&self) -> Verdict {
        let baseline = self.baseline.counts(self.policy.max_latency);
        self.policy.verdict(&self.counts(), &baseline, self.started.elapsed())
    }

    pub fn ends_at(&self) -> Instant {
        self.started + self.policy.window
    }

    /// True for one thread, which may act on the verdict.
    pub fn conclude(&self) -> bool {
        !self.concluded.swap(true, Ordering::SeqCst)
    }
}

impl CanaryPolicy {
    fn verdict(&self, canary: &ResponseCounts, baseline: &ResponseCounts, elapsed: Duration) -> Verdict {
        if canary.responses < MIN_RESPONSES {
            return Verdict::Undecided;
        }
        let (errors, expected) = (canary.failed_share(), baseline.failed_share());
        if errors > expected + self.max_errors {
            return Verdict::Failed(format!(
                "{:.1} % of its {} answers failed, and {:.1} % of the present version's; allowed are {:.1} points more",
                errors * 100.0,
                canary.responses,
                expected * 100.0,
                self.max_errors * 100.0
            ));
        }
        let slow = canary.slow_share();
        if canary.slow >= MIN_SLOW_RESPONSES && slow > MAX_SLOW_SHARE {
            return Verdict::Failed(format!(
                "{:.1} % of its {} answers took longer than {:?}; allowed are {:.0} %",
                slow * 100.0,
                canary.responses,
                self.max_latency,
                MAX_SLOW_SHARE * 100.0
            ));
        }
        match elapsed >= self.window {
            true => Verdict::Passed,
            false => Verdict::Undecided,
        }
    }
}

/// How many responses there were, how many of them failed, and how many were slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseCounts {
    pub responses: u64,
    pub failed: u64,
    pub slow: u64,
}

impl ResponseCounts {
    pub fn add(&mut self, failed: bool, slow: bool) {
        self.responses += 1;
        self.failed += u64::from(failed);
        self.slow += u64::from(slow);
    }

    pub fn failed_share(&self) -> f64 {
        self.share(self.failed)
    }

    pub fn slow_share(&self) -> f64 {
        self.share(self.slow)
    }

    fn share(&self, part: u64) -> f64 {
        if self.responses == 0 { 0.0 } else { part as f64 / self.responses as f64 }
    }
}

/// Counts the responses of one revision.
#[derive(Default)]
pub struct CanaryStats(Mutex<Responses>);

#[derive(Default)]
struct Responses {
    ended: ResponseCounts,
    /// By the order in which they began.
    under_way: BTreeMap<u64, Arc<RequestContext>>,
    begun: u64,
}

impl CanaryStats {
    /// Begins a request. Returns its number.
    pub fn begin(&self, context: Arc<RequestContext>) -> u64 {
        let mut responses = self.responses();
        responses.begun += 1;
        let number = responses.begun;
        responses.under_way.insert(number, context);
        number
    }

    /// Removes an ended request.
    pub fn end(&self, number: u64) {
        self.responses().under_way.remove(&number);
    }

    pub fn count(&self, failed: bool, slow: bool) {
        self.responses().ended.add(failed, slow);
    }

    /// Counts the ended responses, and responses under way whose clients have waited for longer than `patience`. Of
    /// these, a response without its head is slow, and one with an incomplete body has failed.
    pub fn counts(&self, patience: Duration) -> ResponseCounts {
        let responses = self.responses();
        let mut counts = responses.ended;
        for context in responses.under_way.values() {
            if let Some(awaited) = context.awaited_for(patience) {
                counts.add(awaited == Awaited::Body, awaited == Awaited::Head);
            }
        }
        counts
    }

    fn responses(&self) -> MutexGuard<'_, Responses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event for the supervisor of deployments.
#[derive(Debug)]
pub enum DeploymentEvent {
    /// A canary did worse than its policy allows, and serves no further requests. The supervisor must end its trial.
    CanaryFailed {
        component: String,
        digest: Digest,
        reason: String,
    },
    /// A trial began. The supervisor must end it.
    CanaryBegan,
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(responses: u64, failed: u64, slow: u64) -> ResponseCounts {
        ResponseCounts { responses, failed, slow }
    }

    fn verdict(canary: ResponseCounts, baseline: ResponseCounts, elapsed: u64) -> Verdict {
        CanaryPolicy::default().verdict(&canary, &baseline, Duration::from_secs(elapsed))
    }

    #[test]
    fn few_responses_decide_nothing() {
        assert_eq!(verdict(stats(9, 9, 9), stats(0, 0, 0), 3600), Verdict::Undecided);
    }

    #[test]
    fn errors_are_compared_with_the_current_version() {
        let Verdict::Failed(reason) = verdict(stats(10, 1, 0), stats(100, 0, 0), 1) else { panic!("passed") };
        assert!(reason.contains("10.0 % of its 10 answers") && reason.contains("0.0 % of the present"), "{reason}");
        assert_eq!(verdict(stats(10, 1, 0), stats(100, 5, 0), 1), Verdict::Undecided, "5 points more are allowed");
    }

    #[test]
    fn slowness_is_compared_with_the_bound() {
        assert_eq!(verdict(stats(100, 0, 5), stats(0, 0, 0), 1), Verdict::Undecided);
        assert!(matches!(verdict(stats(100, 0, 6), stats(0, 0, 0), 1), Verdict::Failed(_)));
    }

    #[test]
    fn a_slow_response_or_two_decide_nothing() {
        for slow in [1, 2] {
            assert_eq!(verdict(stats(10, 0, slow), stats(0, 0, 0), 1), Verdict::Undecided);
            assert_eq!(verdict(stats(10, 0, slow), stats(0, 0, 0), 60), Verdict::Passed);
        }
        let Verdict::Failed(reason) = verdict(stats(10, 0, 3), stats(0, 0, 0), 1) else { panic!("passed") };
        assert!(reason.contains("30.0 % of its 10 answers took longer than 1s"), "{reason}");
    }

    #[test]
    fn a_good_canary_passes_when_the_window_is_over_and_not_before() {
        assert_eq!(verdict(stats(1000, 0, 0), stats(0, 0, 0), 59), Verdict::Undecided);
        assert_eq!(verdict(stats(1000, 0, 0), stats(0, 0, 0), 60), Verdict::Passed);
    }
}
