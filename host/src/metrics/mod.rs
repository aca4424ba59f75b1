//! What the host counts: per component and shard, so that no two processors write the same line
//! of memory, and added up when somebody asks.

mod busy;
mod failure;
mod histogram;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use busy::Busy;
pub use failure::{Ended, Failure, OutOfCpuTime};
pub use histogram::{Histogram, Summary};

/// Statuses that HTTP can have.
const STATUSES: usize = 600;

/// A counter that only goes up.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn at_least(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why the host answers in a component's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request is not one that HTTP allows.
    Malformed,
    /// Its body passes the limit.
    TooLarge,
    /// No permit was free in time.
    Saturated,
    /// No instance could be made.
    NoInstance,
    /// The client stopped sending.
    SlowClient,
    /// The component's time was over.
    TimedOut,
    /// The component used up its processor time.
    CpuTime,
    /// The component ended without a response.
    Failed,
    /// It keeps doing so, and is left alone for a while.
    Failing,
    /// The component's response passes the limit.
    ResponseTooLarge,
    /// What the component wrote could not be made durable.
    NotDurable,
}

impl Refusal {
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::Malformed, "malformed"),
        (Self::TooLarge, "too_large"),
        (Self::Saturated, "busy"),
        (Self::NoInstance, "no_instance"),
        (Self::SlowClient, "slow_client"),
        (Self::TimedOut, "timed_out"),
        (Self::CpuTime, "cpu_time"),
        (Self::Failed, "failed"),
        (Self::Failing, "failing"),
        (Self::ResponseTooLarge, "response_too_large"),
        (Self::NotDurable, "not_durable"),
    ];

    pub fn name(self) -> &'static str {
        name(&Self::ALL, self)
    }
}

fn name<T: PartialEq>(all: &[(T, &'static str)], wanted: T) -> &'static str {
    all.iter().find(|(one, _)| *one == wanted).map_or("", |(_, name)| name)
}

/// What a guest asks of the key-value store.
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
    /// The wait for the disk, before the head of the response.
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
        name(&Self::ALL, self)
    }
}

/// The counts of one component on one shard.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counters {
    statuses: [Counter; STATUSES],
    /// From the request's head to the response's.
    pub latency: Histogram,
    /// Of the requests that had to wait for a permit.
    pub queue_wait: Histogram,
    pub instantiations: Counter,
    /// Instances that could not be made.
    pub unmade: Counter,
    failures: [Counter; Failure::ALL.len()],
    refusals: [Counter; Refusal::ALL.len()],
    operations: [Histogram; Operation::ALL.len()],
    /// Compare-and-swaps that found another value.
    pub swaps_lost: Counter,
    /// How often the component was left alone because it kept failing.
    pub tripped: Counter,
    /// Responses that were cut off because of their size.
    pub cut_off: Counter,
    /// Bytes; the most that one instance had.
    pub memory_peak: Counter,
    /// Growth of memory that was refused.
    pub memory_denied: Counter,
    /// The time that guests, and the host on their behalf, kept the processor.
    pub busy_nanos: Counter,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            statuses: std::array::from_fn(|_| Counter::default()),
            latency: Histogram::default(),
            queue_wait: Histogram::default(),
            instantiations: Counter::default(),
            unmade: Counter::default(),
            failures: Default::default(),
            refusals: Default::default(),
            operations: Default::default(),
            swaps_lost: Counter::default(),
            tripped: Counter::default(),
            cut_off: Counter::default(),
            memory_peak: Counter::default(),
            memory_denied: Counter::default(),
            busy_nanos: Counter::default(),
        }
    }
}

impl Counters {
    /// An answer, of the guest or of the host in its place.
    pub fn answered(&self, status: u16, latency: Duration) {
        if let Some(count) = self.statuses.get(usize::from(status)) {
            count.add(1);
        }
        self.latency.observe(latency);
    }

    pub fn failed(&self, failure: Failure) {
        if let Some(count) = self.failures.get(failure as usize) {
            count.add(1);
        }
    }

    pub fn refused(&self, refusal: Refusal) {
        if let Some(count) = self.refusals.get(refusal as usize) {
            count.add(1);
        }
    }

    pub fn operated(&self, operation: Operation, duration: Duration) {
        if let Some(durations) = self.operations.get(operation as usize) {
            durations.observe(duration);
        }
    }
}

/// The counts of one component.
#[derive(Debug)]
pub struct Metrics {
    shards: Vec<Arc<Counters>>,
    /// What a component printed and nobody will read.
    pub log_lines_dropped: Arc<Counter>,
}

impl Metrics {
    pub fn new(shards: usize) -> Self {
        Self { shards: (0..shards).map(|_| Arc::default()).collect(), log_lines_dropped: Arc::default() }
    }

    pub fn shard(&self, index: usize) -> Option<&Arc<Counters>> {
        self.shards.get(index)
    }

    /// How many answers there were of each status that there was.
    pub fn statuses(&self) -> Vec<(u16, u64)> {
        let counts = (0..STATUSES).map(|status| {
            let count = self.total(|shard| shard.statuses.get(status).map_or(0, Counter::get));
            (u16::try_from(status).unwrap_or(u16::MAX), count)
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }

    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Failure::ALL.into_iter().map(|(failure, name)| {
            (name, self.total(|shard| shard.failures.get(failure as usize).map_or(0, Counter::get)))
        })
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

    pub fn total(&self, of: impl Fn(&Counters) -> u64) -> u64 {
        self.shards.iter().map(|shard| of(shard)).sum()
    }

    pub fn peak(&self) -> u64 {
        self.shards.iter().map(|shard| shard.memory_peak.get()).max().unwrap_or(0)
    }

    pub fn histogram(&self, of: impl Fn(&Counters) -> &Histogram) -> Summary {
        Histogram::sum(self.shards.iter().map(|shard| of(shard)))
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
            metrics.shard(shard).unwrap().answered(status, Duration::from_millis(1));
        }
        metrics.shard(0).unwrap().operated(Operation::Swap, Duration::ZERO);
        metrics.shard(1).unwrap().refused(Refusal::Saturated);
        metrics.shard(0).unwrap().memory_peak.at_least(7);
        metrics.shard(1).unwrap().memory_peak.at_least(5);
        assert_eq!(metrics.statuses(), [(200, 2), (503, 1)]);
        assert_eq!(metrics.histogram(|shard| &shard.latency).count, 3);
        let operations = metrics.operations().map(|(name, durations)| (name, durations.count));
        assert_eq!(operations.filter(|(_, count)| *count > 0).collect::<Vec<_>>(), [("swap", 1)]);
        assert_eq!(metrics.refusals().filter(|(_, count)| *count > 0).collect::<Vec<_>>(), [("busy", 1)]);
        assert_eq!(metrics.peak(), 7);
    }

    /// What the end of a run is taken for, on a thread that unwinds.
    #[test]
    fn a_panic_is_not_taken_for_the_end_of_the_host() {
        struct Run(std::sync::mpsc::Sender<Failure>);
        impl Drop for Run {
            fn drop(&mut self) {
                let _ = self.0.send(Failure::of(&Ended::Dropped.into()));
            }
        }
        let (told, heard) = std::sync::mpsc::channel();
        let (panics, ends) = (Run(told.clone()), Run(told));
        drop(ends);
        let panicked = std::thread::spawn(move || {
            let _run = panics;
            panic!("on purpose");
        });
        panicked.join().unwrap_err();
        assert_eq!(heard.into_iter().collect::<Vec<_>>(), [Failure::Cancelled, Failure::Panicked]);
    }

    #[test]
    fn a_failure_has_a_kind() {
        assert_eq!(Failure::of(&Trap::UnreachableCodeReached.into()), Failure::Unreachable);
        assert_eq!(Failure::of(&wasmtime::Error::from(Trap::StackOverflow).context("in x")), Failure::StackOverflow);
        assert_eq!(Failure::of(&Ended::TimedOut.into()), Failure::TimedOut);
        assert_eq!(Failure::of(&Ended::Dropped.into()), Failure::Cancelled);
        assert_eq!(Failure::of(&wasmtime::format_err!("too many handles")), Failure::Refused);
        for (index, (failure, _)) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, index);
        }
        assert_eq!(Failure::of(&wasmtime::Error::from(OutOfCpuTime).context("in x")), Failure::CpuTime);
        for (index, (operation, _)) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, index);
        }
    }
}
