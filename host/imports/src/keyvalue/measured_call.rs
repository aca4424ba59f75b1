//! Measures one operation on the store.

use std::sync::Arc;
use std::time::Instant;

use hexad_telemetry::metrics::{Counters, Operation};
use hexad_trace::{self as trace, Trace};
use opentelemetry_sdk::trace::Span;

/// An operation that is counted, timed and part of the request's trace. It ends on drop, also if its instance ends
/// first.
pub struct MeasuredCall {
    operation: Operation,
    started: Instant,
    counters: Arc<Counters>,
    span: Option<Span>,
}

impl MeasuredCall {
    /// `store` is the label, empty if the operation is on no store.
    pub fn begin(operation: Operation, counters: &Arc<Counters>, trace: Option<&Arc<Trace>>, store: &str) -> Self {
        let span = trace.and_then(|trace| trace.begin_operation(operation.name(), store));
        Self { operation, started: Instant::now(), counters: counters.clone(), span }
    }

    /// Marks the operation as failed in the trace.
    pub fn fail(&mut self, reason: &'static str) {
        if let Some(span) = &mut self.span {
            trace::mark_failed(span, reason);
        }
    }
}

impl Drop for MeasuredCall {
    fn drop(&mut self) {
        self.counters.record_operation(self.operation, self.started.elapsed());
    }
}
