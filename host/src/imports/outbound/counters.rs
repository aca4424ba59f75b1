//! What a component's requests came to.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::Histogram;

/// Counts since the start of the host. Each is read alone; together they are no snapshot.
#[derive(Debug, Default)]
pub struct OutboundCounters {
    /// Requests that the component has made, whatever became of them.
    pub requests: Counter,
    /// Those that no grant covers.
    pub denied: Counter,
    /// Those whose host has only addresses that the component may not reach.
    pub prohibited: Counter,
    /// Those that got no permit in time.
    pub busy: Counter,
    /// Those that got the head of a response.
    pub answered: Counter,
    /// Those that ran out of time before it or in the middle of the body.
    pub timeouts: Counter,
    /// All others that failed.
    pub failed: Counter,
    /// From a request to the head of its response, or to what came instead.
    pub duration: Histogram,
    /// Connections that were opened.
    pub connections: Counter,
    /// Bytes of response bodies.
    pub received: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }
}
