//! The counters of each component. Every shard has its own, so that processors do not share cache lines; a reader adds
//! them up (decision 0031).

mod cpu_timer;
mod histogram;
mod instance_failure;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use cpu_timer::CpuTimer;
pub use histogram::{Histogram, Summary};
pub use instance_failure::{InstanceEnd, InstanceFailure, OutOfCpuTime};

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

/// Why the host responds in place of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// HTTP does not allow the request.
    Malformed,
    /// The request's body passes the limit.
    TooLarge,
    /// Anonymous clients of the network have used up their limit of work.
    AnonymousWork,
    /// The request did not get a permit in time.
    Saturated,
    /// The client left too many other responses unread.
    Unread,
    /// The instantiation failed.
    NoInstance,
    /// The host had no memory left for the component.
    NoMemory,
    /// The client waits for `100 Continue` over HTTP/2.
    ExpectationFailed,
    /// The client stopped sending its request.
    SlowClient,
    /// The component did not respond in time.
    TimedOut,
    /// The component used up its processor time.
    CpuTime,
    /// The component ended without a response.
    Failed,
    /// The component's circuit breaker is open.
    Failing,
    /// The component's response passes the limit.
    ResponseTooLarge,
    /// The component's writes could not be made durable.
    NotDurable,
    /// The store is unavailable.
    StoreUnavailable,
    /// The component's response broke before any of it was sent.
    Broken,
}

impl Refusal {
    pub const ALL: [(Self, &'static str); 17] = [
        (Self::Malformed, "malformed"),
        (Self::TooLarge, "too_large"),
        (Self::AnonymousWork, "anonymous_work"),
        (Self::Saturated, "busy"),
        (Self::Unread, "unread"),
        (Self::NoInstance, "no_instance"),
        (Self::NoMemory, "no_memory"),
        (Self::ExpectationFailed, "expectation_failed"),
        (Self::SlowClient, "slow_client"),
        (Self::TimedOut, "timed_out"),
        (Self::CpuTime, "cpu_time"),
        (Self::Failed, "failed"),
        (Self::Failing, "failing"),
        (Self::ResponseTooLarge, "response_too_large"),
        (Self::NotDurable, "not_durable"),
        (Self::StoreUnavailable, "store_unavailable"),
        (Self::Broken, "broken"),
    ];

    pub fn name(self) -> &'static str {
        name_of(&Self::ALL, self)
    }
}

/// Why the host ended an instance that had not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceCloseReason {
    /// It has served as many requests as it may.
    Requests,
    /// It has used most of its memory.
    Memory,
    /// It was idle for too long.
    Idle,
    /// It was idle, and another one needed its memory or its place in wasmtime's pool.
    Evicted,
    /// It may have kept data that the store has lost.
    Lost,
}

impl InstanceCloseReason {
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Requests, "requests"),
        (Self::Memory, "memory"),
        (Self::Idle, "idle"),
        (Self::Evicted, "evicted"),
        (Self::Lost, "lost"),
    ];
}

/// An operation on the key-value store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Get,
    Exists,
    List,
    Set,
    Delete,
    Increment,
    Swap,
    Batch,
    /// The wait before a response until the request's writes are durable.
    Commit,
}

impl Operation {
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Get, "get"),
        (Self::Exists, "exists"),
        (Self::List, "list"),
        (Self::Set, "set"),
        (Self::Delete, "delete"),
        (Self::Increment, "increment"),
        (Self::Swap, "swap"),
        (Self::Batch, "batch"),
        (Self::Commit, "commit"),
    ];

    pub fn name(self) -> &'static str {
        name_of(&Self::ALL, self)
    }
}

/// The counters of one component on one shard.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counters {
    statuses: [Counter; STATUS_LIMIT],
    /// The time from a request's head to its response's head.
    pub latency: Histogram,
    /// The time of waits for a permit. Requests that do not wait do not count.
    pub queue_wait: Histogram,
    pub instantiations: Counter,
    pub failed_instantiations: Counter,
    failures: [Counter; InstanceFailure::ALL.len()],
    closes: [Counter; InstanceCloseReason::ALL.len()],
    refusals: [Counter; Refusal::ALL.len()],
    operations: [Histogram; Operation::ALL.len()],
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

impl Default for Counters {
    fn default() -> Self {
        Self {
            statuses: std::array::from_fn(|_| Counter::default()),
            latency: Histogram::default(),
            queue_wait: Histogram::default(),
            instantiations: Counter::default(),
            failed_instantiations: Counter::default(),
            failures: Default::default(),
            closes: Default::default(),
            refusals: Default::default(),
            operations: Default::default(),
            swaps_lost: Counter::default(),
            breaker_trips: Counter::default(),
            cut_off: Counter::default(),
            broken: Counter::default(),
            timed_out: Counter::default(),
            memory_peak: Counter::default(),
            memory_denials: Counter::default(),
            cpu_nanos: Counter::default(),
        }
    }
}

impl Counters {
    /// Counts a response of the guest, or of the host in its place.
    pub fn record_response(&self, status: u16, latency: Duration) {
        if let Some(count) = self.statuses.get(usize::from(status)) {
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
            let count = self.total(|shard| shard.statuses.get(status).map_or(0, Counter::get));
            (u16::try_from(status).unwrap_or(u16::MAX), count)
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }

    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        InstanceFailure::ALL.into_iter().map(|(failure, name)| {
            (name, self.total(|shard| shard.failures.get(failure as usize).map_or(0, Counter::get)))
        })
    }

    pub fn closes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        InstanceCloseReason::ALL
            .into_iter()
            .map(|(reason, name)| (name, self.total(|shard| shard.closes.get(reason as usize).map_or(0, Counter::get))))
    }

    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refusal::ALL.into_iter().map(|(refusal, name)| {
            (name, self.total(|shard| shard.refusals.get(refusal as usize).map_or(0, Counter::get)))
        })
    }

    pub fn operations(&self) -> impl Iterator<Item = (&'static str, Summary)> {
        Operation::ALL.into_iter().map(|(operation, name)| {
            let durations = self.shards.iter().filter_map(|shard| shard.operations.get(operation as usize));
            (name, Histogram::sum(durations))
        })
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

/// The name of `value` in a list of all values.
pub fn name_of<T: PartialEq>(all: &[(T, &'static str)], value: T) -> &'static str {
    all.iter().find(|(one, _)| *one == value).map_or("", |(_, name)| name)
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
        for (index, (failure, _)) in InstanceFailure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, index);
        }
        assert_eq!(
            InstanceFailure::from_error(&wasmtime::Error::from(OutOfCpuTime).context("in x")),
            InstanceFailure::CpuTime
        );
        for (index, (reason, _)) in InstanceCloseReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
        for (index, (operation, _)) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, index);
        }
    }
}
