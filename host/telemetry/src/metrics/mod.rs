//! The counters of each component. Every shard has its own, so that processors do not share cache lines; a reader adds
//! them up (decision 0031).

mod cpu_timer;
mod histogram;
mod instance_failure;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hexad_support::named_values;

pub use cpu_timer::CpuTimer;
pub use histogram::{Histogram, Summary};
pub use instance_failure::{InstanceEnd, InstanceFailure, OutOfCpuTime, UnsupportedImport};

/// HTTP statuses are below this.
const STATUS_LIMIT: usize = 600;

/// A number that only increases.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Raises it to `value` if it is lower.
    pub fn raise_to(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

named_values! {
    /// Why the host responds in place of a component.
    pub enum Refusal {
        /// HTTP does not allow the request.
        Malformed = "malformed",
        /// The request's body passes the limit.
        TooLarge = "too_large",
        /// Anonymous clients of the network have used up their limit of work.
        AnonymousWork = "anonymous_work",
        /// The request did not get a permit in time.
        Saturated = "busy",
        /// The client left too many other responses unread.
        Unread = "unread",
        /// The instantiation failed.
        NoInstance = "no_instance",
        /// The host had no memory left for the component.
        NoMemory = "no_memory",
        /// The client waits for `100 Continue` over HTTP/2.
        ExpectationFailed = "expectation_failed",
        /// The client stopped sending its request.
        SlowClient = "slow_client",
        /// The component did not respond in time.
        TimedOut = "timed_out",
        /// The component used up its processor time.
        CpuTime = "cpu_time",
        /// The component ended without a response.
        Failed = "failed",
        /// The component's circuit breaker is open.
        Failing = "failing",
        /// The component's response passes the limit.
        ResponseTooLarge = "response_too_large",
        /// The component's writes could not be made durable.
        NotDurable = "not_durable",
        /// The store is unavailable.
        StoreUnavailable = "store_unavailable",
        /// The component's response broke before any of it was sent.
        Broken = "broken",
    }
}

named_values! {
    /// Why the host ended an instance that had not failed.
    pub enum InstanceCloseReason {
        /// It has served as many requests as it may.
        Requests = "requests",
        /// It has used most of its memory.
        Memory = "memory",
        /// It was idle for too long.
        Idle = "idle",
        /// It was idle, and another one needed its memory or its place in wasmtime's pool.
        Evicted = "evicted",
        /// It may have kept data that the store has lost.
        Lost = "lost",
    }
}

named_values! {
    /// An operation on the key-value store.
    pub enum Operation {
        Get = "get",
        Exists = "exists",
        List = "list",
        Set = "set",
        Delete = "delete",
        Increment = "increment",
        Swap = "swap",
        Batch = "batch",
        /// The wait before a response until the request's writes are durable.
        Commit = "commit",
    }
}

/// A counter for each HTTP status.
#[derive(Debug)]
struct Statuses([Counter; STATUS_LIMIT]);

/// The counters of one component on one shard.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    statuses: Statuses,
    /// The time from a request's head to its response's head.
    pub latency: Histogram,
    /// The time of waits for a permit. Requests that do not wait do not count.
    pub queue_wait: Histogram,
    pub instantiations: Counter,
    pub failed_instantiations: Counter,
    failures: [Counter; InstanceFailure::NAMES.len()],
    closes: [Counter; InstanceCloseReason::NAMES.len()],
    refusals: [Counter; Refusal::NAMES.len()],
    operations: [Histogram; Operation::NAMES.len()],
    /// Compare-and-swap operations that found another value.
    pub swaps_lost: Counter,
    /// How often a circuit breaker opened.
    pub breaker_trips: Counter,
    /// Responses that were truncated at the size limit.
    pub cut_off: Counter,
    /// Responses whose body broke after the head was sent.
    pub broken: Counter,
    /// Responses whose component ran out of time after the head was sent.
    pub timed_out: Counter,
    /// The most memory that one instance had, in bytes.
    pub memory_peak: Counter,
    /// Requests for more memory that the host denied.
    pub memory_denials: Counter,
    /// Processor time of guests, and of their host calls.
    pub cpu_nanos: Counter,
}

impl Default for Statuses {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl Counters {
    /// Counts a response of the guest, or of the host in its place.
    pub fn record_response(&self, status: u16, latency: Duration) {
        if let Some(count) = self.statuses.0.get(usize::from(status)) {
            count.add(1);
        }
        self.latency.observe(latency);
    }

    pub fn record_failure(&self, failure: InstanceFailure) {
        if let Some(count) = self.failures.get(failure as usize) {
            count.add(1);
        }
    }

    pub fn record_close(&self, reason: InstanceCloseReason) {
        if let Some(count) = self.closes.get(reason as usize) {
            count.add(1);
        }
    }

    pub fn record_refusal(&self, refusal: Refusal) {
        if let Some(count) = self.refusals.get(refusal as usize) {
            count.add(1);
        }
    }

    pub fn record_operation(&self, operation: Operation, duration: Duration) {
        if let Some(durations) = self.operations.get(operation as usize) {
            durations.observe(duration);
        }
    }
}

/// The counters of one component on all shards.
#[derive(Debug)]
pub struct Metrics {
    shards: Vec<Arc<Counters>>,
    /// Lines of a component that its log rate suppressed.
    pub log_lines_dropped: Arc<Counter>,
}

impl Metrics {
    pub fn new(shards: usize) -> Self {
        Self { shards: (0..shards).map(|_| Arc::default()).collect(), log_lines_dropped: Arc::default() }
    }

    pub fn shard(&self, index: usize) -> Option<&Arc<Counters>> {
        self.shards.get(index)
    }

    /// The number of responses by status, without zeros.
    pub fn statuses(&self) -> Vec<(u16, u64)> {
        let counts = (0..STATUS_LIMIT).map(|status| {
            let count = self.total(|shard| shard.statuses.0.get(status).map_or(0, Counter::get));
            (u16::try_from(status).unwrap_or(u16::MAX), count)
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }

    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts(InstanceFailure::NAMES, |shard| &shard.failures)
    }

    pub fn closes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts(InstanceCloseReason::NAMES, |shard| &shard.closes)
    }

    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts(Refusal::NAMES, |shard| &shard.refusals)
    }

    pub fn operations(&self) -> impl Iterator<Item = (&'static str, Summary)> {
        Operation::NAMES.iter().enumerate().map(|(index, name)| {
            let durations = self.shards.iter().filter_map(|shard| shard.operations.get(index));
            (*name, Histogram::sum(durations))
        })
    }

    /// The counters of an enum's values, with the names.
    fn counts(
        &self,
        names: &'static [&'static str],
        counters: fn(&Counters) -> &[Counter],
    ) -> impl Iterator<Item = (&'static str, u64)> {
        let count = move |index| self.total(|shard| counters(shard).get(index).map_or(0, Counter::get));
        names.iter().enumerate().map(move |(index, name)| (*name, count(index)))
    }

    pub fn total(&self, value: impl Fn(&Counters) -> u64) -> u64 {
        self.shards.iter().map(|shard| value(shard)).sum()
    }

    pub fn memory_peak(&self) -> u64 {
        self.shards.iter().map(|shard| shard.memory_peak.get()).max().unwrap_or(0)
    }

    pub fn histogram(&self, select: impl Fn(&Counters) -> &Histogram) -> Summary {
        Histogram::sum(self.shards.iter().map(|shard| select(shard)))
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::Trap;

    use super::*;

    #[test]
    fn shards_add_up() {
        let metrics = Metrics::new(2);
        for (shard, status) in [(0, 200), (1, 200), (1, 503)] {
            metrics.shard(shard).unwrap().record_response(status, Duration::from_millis(1));
        }
        metrics.shard(0).unwrap().record_operation(Operation::Swap, Duration::ZERO);
        metrics.shard(1).unwrap().record_refusal(Refusal::Saturated);
        metrics.shard(0).unwrap().memory_peak.raise_to(7);
        metrics.shard(1).unwrap().memory_peak.raise_to(5);
        assert_eq!(metrics.statuses(), [(200, 2), (503, 1)]);
        assert_eq!(metrics.histogram(|shard| &shard.latency).count, 3);
        let operations = metrics.operations().map(|(name, durations)| (name, durations.count));
        assert_eq!(operations.filter(|(_, count)| *count > 0).collect::<Vec<_>>(), [("swap", 1)]);
        assert_eq!(metrics.refusals().filter(|(_, count)| *count > 0).collect::<Vec<_>>(), [("busy", 1)]);
        assert_eq!(metrics.memory_peak(), 7);
    }

    #[test]
    fn an_instance_dropped_by_a_panic_counts_as_panicked() {
        /// Classifies its own drop.
        struct Instance(std::sync::mpsc::Sender<InstanceFailure>);
        impl Drop for Instance {
            fn drop(&mut self) {
                let _ = self.0.send(InstanceFailure::from_error(&InstanceEnd::Dropped.into()));
            }
        }
        let (sender, failures) = std::sync::mpsc::channel();
        let (panicking, cancelled) = (Instance(sender.clone()), Instance(sender));
        drop(cancelled);
        let panicked = std::thread::spawn(move || {
            let _instance = panicking;
            panic!("on purpose");
        });
        panicked.join().unwrap_err();
        assert_eq!(failures.into_iter().collect::<Vec<_>>(), [InstanceFailure::Cancelled, InstanceFailure::Panicked]);
    }

    #[test]
    fn errors_are_classified() {
        assert_eq!(InstanceFailure::from_error(&Trap::UnreachableCodeReached.into()), InstanceFailure::Unreachable);
        assert_eq!(
            InstanceFailure::from_error(&wasmtime::Error::from(Trap::StackOverflow).context("in x")),
            InstanceFailure::StackOverflow
        );
        assert_eq!(InstanceFailure::from_error(&InstanceEnd::TimedOut.into()), InstanceFailure::TimedOut);
        assert_eq!(InstanceFailure::from_error(&InstanceEnd::Dropped.into()), InstanceFailure::Cancelled);
        assert_eq!(InstanceFailure::from_error(&wasmtime::format_err!("too many handles")), InstanceFailure::Refused);
        assert_eq!(
            InstanceFailure::from_error(&wasmtime::Error::from(OutOfCpuTime).context("in x")),
            InstanceFailure::CpuTime
        );
    }
}
