//! A lease: the revision and the permit that a request holds while a component serves it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hexad_limits::instance_permit::InstancePermit;
use hexad_telemetry::metrics::Counters;

use super::revision::Revision;
use crate::request_context::{RequestContext, UploadFailure};

/// Keeps a request's revision alive and holds the permit of its instance.
///
/// The guest call and the response body share it; it ends with the later of the two.
pub struct Lease {
    permit: Arc<InstancePermit>,
    response: Mutex<ResponseState>,
    revision: Arc<Revision>,
    counters: Arc<Counters>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseEnd {
    Complete,
    /// The component sent only a part.
    Broken,
    /// The component ran out of time before it had sent everything.
    TimedOut,
    /// The component sent only a part, because it had not got the whole body of the request.
    BrokenByClient(UploadFailure),
    /// The client went away, which says nothing about the component.
    Abandoned,
}

/// The progress of the response.
#[derive(Default)]
struct ResponseState {
    end: Option<ResponseEnd>,
    is_sent: bool,
    observer: Option<Box<dyn FnOnce(ResponseEnd) + Send>>,
}

impl Lease {
    /// `counters` belong to the component on the request's shard.
    pub fn new(permit: InstancePermit, revision: Arc<Revision>, counters: Arc<Counters>) -> Self {
        Self { permit: Arc::new(permit), response: Mutex::default(), revision, counters }
    }

    /// Records for the circuit breaker that the response was complete.
    pub fn record_success(&self, context: &RequestContext) {
        self.revision.record_success(context.path());
        self.end(ResponseEnd::Complete);
    }

    /// Records that the component did not send the whole response.
    pub fn record_broken(&self) {
        self.end(ResponseEnd::Broken);
    }

    /// Records that the component could not send the whole response, because the client's upload failed.
    pub fn record_broken_by_client(&self, failure: UploadFailure) {
        self.end(ResponseEnd::BrokenByClient(failure));
    }

    /// Records that the component ran out of time in the middle of the response.
    pub fn record_timeout(&self) {
        self.end(ResponseEnd::TimedOut);
    }

    /// Records that the head goes out. If the response has ended already, returns how: then the host can still respond
    /// in its place.
    pub fn mark_sent(&self) -> Option<ResponseEnd> {
        let mut response = self.response();
        response.is_sent = true;
        response.end
    }

    /// Calls `observer` once the response has ended, at once if it has.
    pub fn when_ended(&self, observer: impl FnOnce(ResponseEnd) + Send + 'static) {
        let mut response = self.response();
        match response.end {
            Some(end) => {
                drop(response);
                observer(end);
            }
            None => response.observer = Some(Box::new(observer)),
        }
    }

    /// Records the end of the response. Only the first call counts.
    fn end(&self, end: ResponseEnd) {
        let mut response = self.response();
        if response.end.is_none() {
            response.end = Some(end);
            match end {
                ResponseEnd::Broken if response.is_sent => self.counters.broken.add(1),
                ResponseEnd::TimedOut if response.is_sent => self.counters.timed_out.add(1),
                _ => {}
            }
            let observer = response.observer.take();
            drop(response);
            if let Some(observer) = observer {
                observer(end);
            }
        }
    }

    fn response(&self) -> MutexGuard<'_, ResponseState> {
        self.response.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a response that was cut off because it was too large.
    pub fn count_cut_off(&self) {
        self.counters.cut_off.add(1);
    }

    pub fn permit(&self) -> &Arc<InstancePermit> {
        &self.permit
    }

    /// Gives the permit back before the lease ends. The instance has ended, but the response may still wait for a
    /// client that does not read it.
    pub fn release_permit(&self) {
        self.permit.release();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end(ResponseEnd::Abandoned);
        self.permit.release();
    }
}
