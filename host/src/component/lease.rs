//! A lease: what a request holds while a component serves it.

use std::sync::{Arc, Mutex, PoisonError};

use super::generation::Generation;
use crate::concurrency_limit::{Contention, Permit};
use crate::metrics::Counters;
use crate::request_context::RequestContext;

/// Keeps a request's generation alive, and a permit of its component's concurrency limit taken.
///
/// The guest call and the response body share it, and it ends with the later of them.
pub struct Lease {
    permit: Mutex<Option<Permit>>,
    generation: Arc<Generation>,
    counters: Arc<Counters>,
}

impl Lease {
    /// `counters` are the component's on the shard of the request.
    pub fn new(permit: Permit, generation: Arc<Generation>, counters: Arc<Counters>) -> Self {
        Self { permit: Mutex::new(Some(permit)), generation, counters }
    }

    /// Records for the circuit breaker that the response was complete.
    pub fn record_success(&self, context: &RequestContext) {
        self.generation.record_success(context.path());
    }

    /// Counts a response that was cut off because it was too large.
    pub fn count_cut_off(&self) {
        self.counters.cut_off.add(1);
    }

    /// Whether others wait for the permit. `None` after it was given back.
    pub fn contention(&self) -> Option<Contention> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Permit::contention)
    }

    /// Gives the permit back before the lease ends: the instance has ended, and the response may still
    /// wait for a client that does not read it.
    pub fn release_permit(&self) {
        drop(self.permit.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
