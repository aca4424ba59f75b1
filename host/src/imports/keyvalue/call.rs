//! One operation on the store, counted, timed and told in the request's trace.

use std::sync::Arc;
use std::time::Instant;

use opentelemetry_sdk::trace::Span;

use crate::metrics::{Counters, Operation};
use crate::trace::{self, Trace};

/// An operation under way. It is over when it is dropped, as when its instance ends.
pub struct Call {
    operation: Operation,
    started: Instant,
    counters: Arc<Counters>,
    span: Option<Span>,
}

impl Call {
    /// `store` is the label, or empty for an operation on none.
    pub fn begin(operation: Operation, counters: &Arc<Counters>, trace: Option<&Arc<Trace>>, store: &str) -> Self {
        let span = trace.and_then(|trace| trace.operation(operation.name(), store));
        Self { operation, started: Instant::now(), counters: counters.clone(), span }
    }

    /// It has not done what it was to do.
    pub fn failed(&mut self, reason: &'static str) {
        if let Some(span) = &mut self.span {
            trace::fail(span, reason);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.counters.operated(self.operation, self.started.elapsed());
    }
}
