//! What a request holds while a component serves it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedSemaphorePermit;

use super::Generation;
use crate::metrics::Counters;
use crate::request_context::Exchange;

/// A request's hold on what serves it: the generation, a place among the component's concurrent
/// requests.
///
/// It is shared by the guest's call and the response's body and ends with the later of them.
pub struct Lease {
    place: Mutex<Option<OwnedSemaphorePermit>>,
    generation: Arc<Generation>,
    counters: Arc<Counters>,
}

impl Lease {
    /// `counters` are the component's on the shard of the request.
    pub fn new(place: OwnedSemaphorePermit, generation: Arc<Generation>, counters: Arc<Counters>) -> Self {
        Self { place: Mutex::new(Some(place)), generation, counters }
    }

    /// The response was complete.
    pub fn answered(&self, exchange: &Exchange) {
        self.generation.answered(exchange.path());
    }

    /// The response was larger than it may be.
    pub fn cut_off(&self) {
        self.counters.cut_off.add(1);
    }

    /// Gives the place back: the instance is gone. The response may still wait for a client that
    /// does not read it.
    pub fn instance_ended(&self) {
        drop(self.place.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
