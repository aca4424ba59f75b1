//! The wait until a guest's response can be sent.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use hexad_imports::keyvalue::MeasuredCall;
use hexad_manifest::RequestLimits;
use hexad_store::{Backend, ErrorKind, StoreError};
use hexad_telemetry::metrics::{InstanceFailure, Operation};
use hexad_trace::Trace;
use http::Response;
use wasmtime_wasi_http::WasiBody;

use crate::component::{CallError, ComponentService, GuestCall, Lease};
use crate::request_context::RequestContext;
use crate::request_error::RequestError;
use crate::upload_wait::UploadWait;

/// Waits for a component's response to one request.
pub struct ResponseWait<'a> {
    pub service: &'a ComponentService,
    pub limits: &'a RequestLimits,
    pub shard: usize,
    pub backend: &'a dyn Backend,
    pub trace: Option<&'a Arc<Trace>>,
}

impl ResponseWait<'_> {
    /// Runs the guest until its response can be sent.
    pub async fn until_sendable(
        &self,
        call: &mut GuestCall,
        context: &RequestContext,
        lease: &Lease,
    ) -> Result<Response<WasiBody>, RequestError> {
        let response = self.wait_for_head(call, context, lease).await?;
        context.writes.write_through();
        // Requests that only read take this path; the wait of the others is boxed.
        match context.writes.outcome() {
            Some(outcome) => outcome.map_err(|error| self.store_error(context, &error))?,
            None => Box::pin(self.wait_until_durable(call, context)).await?,
        }
        // The guest does not know whether a retry would help; the host's error says so.
        match context.writes.outage().filter(|_| response.status().is_server_error()) {
            Some(error) => Err(self.store_error(context, error)),
            None => Ok(response),
        }
    }

    /// Runs the guest until the head of its response is there.
    async fn wait_for_head(
        &self,
        call: &mut GuestCall,
        context: &RequestContext,
        lease: &Lease,
    ) -> Result<Response<WasiBody>, RequestError> {
        let mut upload_wait = UploadWait::default();
        let head = poll_fn(|cx| {
            let head = call.poll_head(cx);
            // The host discards the response of a guest whose request body was cut off.
            if context.poll_body_too_large(cx).is_ready() {
                return Poll::Ready(Err(RequestError::BodyTooLarge(self.limits.max_body)));
            }
            if let Poll::Ready(head) = head {
                return Poll::Ready(head.map_err(|error| self.call_error(context, &error)));
            }
            upload_wait.poll(context, lease.permit(), cx).map(|()| Err(RequestError::SlowClient))
        });
        let head = head.await;
        lease.permit().try_resume();
        head
    }

    fn call_error(&self, context: &RequestContext, error: &CallError) -> RequestError {
        if context.is_expired() || context.expires_at() <= Instant::now() {
            return RequestError::of_timeout(context);
        }
        match context.failure() {
            Some(InstanceFailure::CpuTime) => return RequestError::OutOfCpuTime,
            Some(InstanceFailure::HostMemory) => return RequestError::NoMemory,
            _ => {}
        }
        if !matches!(error, CallError::Ended)
            && let Some(suppressed) = self.service.log_throttle().pass()
        {
            tracing::warn!(component = self.service.id(), %error, suppressed, "the component gave no response");
        }
        match error {
            CallError::NoInstance(_) => RequestError::NoInstance,
            CallError::Ended | CallError::Refused(_) => RequestError::Failed,
        }
    }

    /// Waits until the guest's writes are durable: the client sees no response before. Meanwhile the guest runs on, and
    /// waits itself for writes that it still makes.
    async fn wait_until_durable(&self, call: &mut GuestCall, context: &RequestContext) -> Result<(), RequestError> {
        let counters = self.service.metrics().shard(self.shard).filter(|_| !context.writes.is_settled());
        let commit = counters.map(|counters| MeasuredCall::begin(Operation::Commit, counters, self.trace, ""));
        let durable = tokio::select! {
            biased;
            durable = context.writes.durable(self.backend) => durable,
            () = context.until_expired() => return Err(RequestError::of_timeout(context)),
            never = run_on(call) => match never {},
        };
        drop(commit);
        durable.map_err(|error| self.store_error(context, &error))
    }

    /// The error of a request with a failed read or write.
    fn store_error(&self, context: &RequestContext, error: &StoreError) -> RequestError {
        if let Some(suppressed) = self.service.log_throttle().pass() {
            tracing::error!(component = self.service.id(), %error, suppressed, "a response was withheld: the store failed");
        }
        let kind = error.kind();
        if kind == ErrorKind::Fault {
            return RequestError::NotDurable;
        }
        let maybe_stored = matches!(kind, ErrorKind::Unknown(_)) || context.writes.may_have_stored();
        RequestError::StoreUnavailable { maybe_stored }
    }
}

/// Runs the guest and never returns: the caller's other futures decide.
async fn run_on(call: &mut GuestCall) -> Infallible {
    call.wait_until_done().await;
    pending().await
}
