//! The body of a request on its way to the guest, within the component's limit.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use wasmtime_wasi_http::{Error as WasiError, WasiBody};

use crate::request_context::RequestContext;

/// How many bytes of an unread body the host drains, and for how long. A client that still sends when the connection
/// closes may not see the response.
const MAX_DRAIN: u64 = 64 * 1024 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the host waits for the body of a client that expects `100 Continue` over HTTP/2.
const EXPECT_PATIENCE: Duration = Duration::from_secs(3);

/// Waits for the first part of a body whose client expects `100 Continue`, which the host does not send over HTTP/2.
/// Most clients send the body after a second at the latest. `None` if the client goes on waiting.
pub async fn begun(mut body: WasiBody) -> Option<WasiBody> {
    let first = tokio::time::timeout(EXPECT_PATIENCE, body.frame()).await.ok()?;
    let rest = BodyStream::new(body);
    Some(StreamBody::new(futures::stream::iter(first).chain(rest)).boxed_unsync())
}

/// The body of a request. It reports progress to the request's context, and drains the bytes that the guest does not
/// read.
pub struct RequestBody {
    inner: Option<WasiBody>,
    context: Arc<RequestContext>,
    /// Bytes that the client may still send within the limit.
    limit_left: u64,
    /// The client waits for `100 Continue`, which hyper sends at the first poll. Before that poll, the host has nothing
    /// to drain.
    withheld: bool,
}

impl RequestBody {
    /// `limit` is in bytes; `withheld` says that the client sent `Expect: 100-continue`. Returns an ended body
    /// unchanged.
    pub fn boxed(inner: WasiBody, context: &Arc<RequestContext>, limit: u64, withheld: bool) -> WasiBody {
        if inner.is_end_stream() {
            return inner;
        }
        context.has_open_body.store(true, Ordering::Relaxed);
        Self { inner: Some(inner), context: context.clone(), limit_left: limit, withheld }.boxed_unsync()
    }

    fn end(&mut self) {
        self.inner = None;
        self.context.has_open_body.store(false, Ordering::Relaxed);
        self.context.set_waiting_for_client(false);
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = WasiError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WasiError>>> {
        self.withheld = false;
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(None);
        };
        let frame = Pin::new(inner).poll_frame(cx);
        self.context.set_waiting_for_client(frame.is_pending());
        match ready!(frame) {
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                self.context.record_progress(length);
                match self.limit_left.checked_sub(length) {
                    Some(limit_left) => {
                        self.limit_left = limit_left;
                        // A guest that knows the body's length need not read its end.
                        if self.is_end_stream() {
                            self.context.has_open_body.store(false, Ordering::Relaxed);
                        }
                        Poll::Ready(Some(Ok(frame)))
                    }
                    None => {
                        self.context.mark_body_too_large();
                        if let Some(rest) = self.inner.take() {
                            drain(rest);
                        }
                        self.end();
                        Poll::Ready(Some(Err(WasiError::HttpRequestBodySize(None))))
                    }
                }
            }
            Some(Err(error)) => {
                self.context.mark_upload_broken();
                self.end();
                Poll::Ready(Some(Err(error)))
            }
            None => {
                self.end();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.context.has_open_body.store(false, Ordering::Relaxed);
        self.context.set_waiting_for_client(false);
        if let Some(rest) = self.inner.take()
            && !self.withheld
            && !rest.is_end_stream()
        {
            drain(rest);
        }
    }
}

fn drain(mut body: WasiBody) {
    // Without a runtime, the connection has ended, and draining is pointless.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    let read = async move {
        let mut limit_left = MAX_DRAIN;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, |data| data.len() as u64);
            match limit_left.checked_sub(length) {
                Some(rest) => limit_left = rest,
                None => break,
            }
        }
    };
    runtime.spawn(async move { tokio::time::timeout(DRAIN_TIMEOUT, read).await });
}
