//! The responses of one revision during a trial: the ended ones, and those under way that keep their clients waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::request_context::{Awaited, RequestContext};

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
