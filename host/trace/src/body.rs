//! A response's body that ends the trace of its request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hexad_http::body::{BodyError, ResponseBody};
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use super::request::Trace;

/// Ends the trace when the body is complete, fails or is dropped.
struct TracedBody {
    inner: ResponseBody,
    trace: Arc<Trace>,
    /// Bytes sent so far.
    sent_bytes: u64,
}

impl Trace {
    /// Records the head of the response, and ends the trace when the response's body ends.
    pub fn follow_response(self: Arc<Self>, response: Response<ResponseBody>) -> Response<ResponseBody> {
        if !self.is_sampled() {
            return response;
        }
        self.record_status(response.status());
        response.map(|body| TracedBody::new(body, self).boxed_unsync())
    }
}

impl TracedBody {
    fn new(inner: ResponseBody, trace: Arc<Trace>) -> Self {
        Self { inner, trace, sent_bytes: 0 }
    }
}

impl Body for TracedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.sent_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            Poll::Ready(Some(Err(error))) => self.trace.record_failure(match error {
                BodyError::Broken => "broken",
                BodyError::Short { .. } => "short",
                BodyError::Timeout => "timed_out",
                BodyError::SlowClient => "slow_client",
                BodyError::TooLarge { .. } => "response_too_large",
                BodyError::Guest(_) => "failed",
            }),
            Poll::Ready(None) => self.trace.end(self.sent_bytes),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for TracedBody {
    fn drop(&mut self) {
        self.trace.end(self.sent_bytes);
    }
}
