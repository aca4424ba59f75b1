//! The body of a guest's response on its way to the client, within limits of size and time.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use bytes::Bytes;
use hexad_http::body::{BodyError, ResponseBody, empty, full};
use hexad_http::response_cache::Recorder;
use hexad_telemetry::metrics::InstanceFailure;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::Sleep;
use wasmtime_wasi_http::WasiBody;

use super::guest_call::GuestCall;
use super::lease::Lease;
use crate::request_context::RequestContext;
use crate::upload_wait::UploadWait;

/// The largest body that leaves with its head, in bytes.
const SMALL_BODY: u64 = 64 * 1024;

/// The body of a guest's response. It holds the lease until it ends.
pub struct GuestBody {
    inner: WasiBody,
    /// Frames that were read before the head was sent.
    buffered: VecDeque<Result<Frame<Bytes>, BodyError>>,
    context: Arc<RequestContext>,
    lease: Option<Arc<Lease>>,
    /// Set once the client has to wait.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Bytes that are still missing of a declared length.
    declared_left: Option<u64>,
    /// The component's limit in bytes, and how much of it is left.
    limit: u64,
    limit_left: u64,
    recorder: Option<Recorder>,
    /// Set once the guest waits for its client to send.
    upload_wait: Option<Box<UploadWait>>,
}

impl GuestBody {
    /// `declared` is the length in the head; 0 for a response without a body.
    pub fn new(
        inner: WasiBody,
        declared: Option<u64>,
        limit: u64,
        recorder: Option<Recorder>,
        context: Arc<RequestContext>,
        lease: Arc<Lease>,
    ) -> Self {
        let declared_left = declared.or_else(|| inner.size_hint().exact());
        let (buffered, lease) = (VecDeque::new(), Some(lease));
        Self {
            inner,
            buffered,
            context,
            lease,
            deadline: None,
            declared_left,
            limit,
            limit_left: limit,
            recorder,
            upload_wait: None,
        }
    }

    /// Reads what the guest writes without waiting. A body that is complete by then leaves with the head, in one write
    /// and with its length (decision 0016). Any other is streamed, and its guest becomes a task. Returns whether the
    /// body is complete.
    pub fn buffer_small_body(mut self, mut call: GuestCall) -> (ResponseBody, bool) {
        call.mark_response_sent();
        let mut length = 0;
        let mut polled = false;
        // A body with a declared length need not be polled to its end.
        while self.declared_left != Some(0) {
            // Without a waker: the connection polls the rest with its own.
            match Pin::new(&mut self).poll_written(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(None) => break,
                Poll::Ready(Some(frame)) => {
                    polled = false;
                    let data = frame.as_ref().ok().and_then(Frame::data_ref).map(|data| data.len() as u64);
                    self.buffered.push_back(frame);
                    match data {
                        Some(data) if length + data < SMALL_BODY || self.declared_left == Some(0) => length += data,
                        // A large frame needs a write of its own. Errors and trailers are not data.
                        _ => return (self.boxed_unsync(), false),
                    }
                }
                Poll::Pending if polled => return (self.boxed_unsync(), false),
                Poll::Pending => {
                    call.poll_once();
                    polled = true;
                }
            }
        }
        let data = |frame: Result<Frame<Bytes>, BodyError>| frame.ok()?.into_data().ok();
        let mut chunks: Vec<Bytes> = self.buffered.drain(..).filter_map(data).collect();
        drop(self);
        call.poll_once();
        let body = full(match chunks.as_mut_slice() {
            [whole] => std::mem::take(whole),
            chunks => chunks.concat().into(),
        });
        (body, true)
    }

    /// The empty body of a response without one. Drops the body that the guest writes.
    pub fn skip(self, mut call: GuestCall) -> ResponseBody {
        call.mark_response_sent();
        let declared = self.inner.size_hint();
        drop(self);
        call.poll_once();
        empty(declared)
    }

    fn end(&mut self) {
        self.context.end_response();
        self.lease = None;
    }

    /// Polls the guest's body, without the deadline.
    fn poll_written(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.lease.is_none() {
            return Poll::Ready(None);
        }
        let end = match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                let Some(limit_left) = self.limit_left.checked_sub(length) else {
                    if let Some(lease) = &self.lease {
                        lease.count_cut_off();
                    }
                    let limit = self.limit;
                    return Poll::Ready(self.finish(Some(BodyError::TooLarge { limit })));
                };
                self.limit_left = limit_left;
                self.declared_left = self.declared_left.map(|left| left.saturating_sub(length));
                self.recorder.take_if(|recorder| frame.data_ref().is_none_or(|data| !recorder.record(data)));
                return Poll::Ready(Some(Ok(frame)));
            }
            Some(Err(error)) => Some(BodyError::Guest(error)),
            // wasmtime ends a failed guest's body like a complete one.
            None => match self.context.failure() {
                Some(InstanceFailure::TimedOut | InstanceFailure::CpuTime) => Some(BodyError::Timeout),
                Some(_) => Some(BodyError::Broken),
                None => self.declared_left.filter(|left| *left > 0).map(|missing| BodyError::Short { missing }),
            },
        };
        Poll::Ready(self.finish(end))
    }

    /// Ready if the guest waits for a client that sends too slowly, and another request waits for the instance.
    fn poll_slow_upload(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.context.register_body_reader(cx);
        let Some(lease) = &self.lease else { return Poll::Pending };
        if self.upload_wait.is_none() && !self.context.upload.is_waiting() {
            return Poll::Pending;
        }
        self.upload_wait.get_or_insert_default().poll(&self.context, lease.permit(), cx)
    }

    fn finish(&mut self, error: Option<BodyError>) -> Option<Result<Frame<Bytes>, BodyError>> {
        // A guest whose response has broken off is ended. If its client is the cause, the guest goes on, because it may
        // have to undo a partial upload.
        match (&error, &self.lease) {
            (None, _) => self.record_completion(),
            (Some(BodyError::SlowClient), _) => self.context.abandon(),
            (Some(BodyError::Timeout), Some(lease)) => {
                lease.record_timeout();
                self.context.expire();
            }
            (Some(_), Some(lease)) => match self.context.upload_failure() {
                Some(failure) => lease.record_broken_by_client(failure),
                None => {
                    lease.record_broken();
                    self.context.abandon();
                }
            },
            (Some(_), None) => {}
        }
        self.recorder = None;
        self.end();
        error.map(Err)
    }

    /// Stores the response if it was recorded, and records a success for the circuit breaker.
    fn record_completion(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            recorder.complete();
        }
        if let Some(lease) = &self.lease {
            lease.record_success(&self.context);
        }
    }
}

impl Body for GuestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(frame) = self.buffered.pop_front() {
            return Poll::Ready(Some(frame));
        }
        let written = self.as_mut().poll_written(cx);
        self.context.set_awaiting_body(written.is_pending());
        if written.is_ready() {
            let this = &mut *self;
            if let (Some(wait), Some(lease)) = (&mut this.upload_wait, &this.lease) {
                wait.end(lease.permit());
            }
            return written;
        }
        if self.poll_slow_upload(cx).is_ready() {
            return Poll::Ready(self.finish(Some(BodyError::SlowClient)));
        }
        let this = &mut *self;
        let waits_for_server = this.lease.as_ref().is_some_and(|lease| lease.permit().has_outbound());
        let at = this.context.body_expires_at(waits_for_server).into();
        let deadline = this.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        // The deadline moves with each part of the body, and while the guest waits for its client.
        while deadline.as_mut().poll(cx).is_ready() {
            let at = this.context.body_expires_at(waits_for_server);
            if at <= Instant::now() {
                // A body of its declared length is complete, even if the guest does not end it.
                let is_whole = this.declared_left == Some(0);
                return Poll::Ready(this.finish(Some(BodyError::Timeout).filter(|_| !is_whole)));
            }
            deadline.as_mut().reset(at.into());
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.buffered.is_empty() && (self.lease.is_none() || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let length = |frame: &Result<Frame<Bytes>, BodyError>| frame.as_ref().ok()?.data_ref().map(Bytes::len);
        let buffered = self.buffered.iter().filter_map(length).map(|length| length as u64).sum::<u64>();
        let rest = self.inner.size_hint();
        match rest.exact() {
            Some(rest) => SizeHint::with_exact(buffered.saturating_add(rest)),
            // hyper only reads whether the length is exact.
            None => rest,
        }
    }
}

impl Drop for GuestBody {
    fn drop(&mut self) {
        // hyper does not poll a body past its Content-Length, so completion is recorded on drop.
        if self.declared_left == Some(0) {
            self.record_completion();
        } else if self.lease.is_some() {
            self.context.abandon();
        }
        self.end();
    }
}
