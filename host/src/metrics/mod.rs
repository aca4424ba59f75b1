//! What the host counts: per component and shard, so that no two processors write the same line
//! of memory, and added up when somebody asks.

mod busy;
mod histogram;
mod text;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wasmtime::Trap;

pub use busy::Busy;
pub use histogram::{Histogram, Summary};
pub use text::{MEDIA_TYPE, exposition};

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

/// Why an instance ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It executed an `unreachable`, which is what a panic or an abort becomes.
    Unreachable,
    /// It read or wrote outside its memory.
    Memory,
    StackOverflow,
    /// Another trap: arithmetic, tables, casts, the rules of the component model.
    OtherTrap,
    /// Its time was over.
    TimedOut,
    /// The host refused to go on: too many handles or too much in one call.
    Refused,
}

impl Failure {
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Unreachable, "unreachable"),
        (Self::Memory, "memory"),
        (Self::StackOverflow, "stack_overflow"),
        (Self::OtherTrap, "other_trap"),
        (Self::TimedOut, "timed_out"),
        (Self::Refused, "refused"),
    ];

    pub fn of(error: &wasmtime::Error) -> Self {
        match error.downcast_ref::<Trap>() {
            Some(Trap::UnreachableCodeReached) => Self::Unreachable,
            Some(Trap::MemoryOutOfBounds | Trap::HeapMisaligned) => Self::Memory,
            Some(Trap::StackOverflow) => Self::StackOverflow,
            Some(_) => Self::OtherTrap,
            // The words of wasmtime's worker.
            None if error.to_string() == "guest timed out" => Self::TimedOut,
            None => Self::Refused,
        }
    }
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
}

impl Operation {
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Get, "get"),
        (Self::Exists, "exists"),
        (Self::List, "list"),
        (Self::Set, "set"),
        (Self::Delete, "delete"),
        (Self::Increment, "increment"),
        (Self::Swap, "swap"),
        (Self::Batch, "batch"),
    ];
}

/// The counts of one component on one shard.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counters {
    statuses: [Counter; STATUSES],
    /// From the request's head to the response's.
    pub latency: Histogram,
    /// Of the requests that had to wait for a place.
    pub queue_wait: Histogram,
    pub instantiations: Counter,
    /// Instances that could not be made.
    pub unmade: Counter,
    failures: [Counter; Failure::ALL.len()],
    operations: [Counter; Operation::ALL.len()],
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
            operations: Default::default(),
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

    pub fn operated(&self, operation: Operation) {
        if let Some(count) = self.operations.get(operation as usize) {
            count.add(1);
        }
    }
}

/// The counts of one component.
#[derive(Debug)]
pub struct Metrics {
    shards: Vec<Arc<Counters>>,
}

impl Metrics {
    pub fn new(shards: usize) -> Self {
        Self { shards: (0..shards).map(|_| Arc::default()).collect() }
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

    pub fn operations(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Operation::ALL.into_iter().map(|(operation, name)| {
            (name, self.total(|shard| shard.operations.get(operation as usize).map_or(0, Counter::get)))
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
    use super::*;

    #[test]
    fn shards_add_up() {
        let metrics = Metrics::new(2);
        for (shard, status) in [(0, 200), (1, 200), (1, 503)] {
            metrics.shard(shard).unwrap().answered(status, Duration::from_millis(1));
        }
        metrics.shard(0).unwrap().operated(Operation::Swap);
        metrics.shard(0).unwrap().memory_peak.at_least(7);
        metrics.shard(1).unwrap().memory_peak.at_least(5);
        assert_eq!(metrics.statuses(), [(200, 2), (503, 1)]);
        assert_eq!(metrics.histogram(|shard| &shard.latency).count, 3);
        assert_eq!(metrics.operations().filter(|(_, count)| *count > 0).collect::<Vec<_>>(), [("swap", 1)]);
        assert_eq!(metrics.peak(), 7);
    }

    #[test]
    fn a_failure_has_a_kind() {
        assert_eq!(Failure::of(&Trap::UnreachableCodeReached.into()), Failure::Unreachable);
        assert_eq!(Failure::of(&wasmtime::Error::from(Trap::StackOverflow).context("in x")), Failure::StackOverflow);
        assert_eq!(Failure::of(&wasmtime::format_err!("guest timed out")), Failure::TimedOut);
        for (index, (failure, _)) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, index);
        }
        for (index, (operation, _)) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, index);
        }
    }
}
