//! Bodies on their way through the host: the request's, with its limit, and the response's, with
//! its deadline.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use tokio::time::Sleep;
use wasmtime_wasi_http::{Error as WasiError, WasiBody};

use crate::component::Run;
use crate::request_context::{Exchange, Lease};
use crate::response_cache::Recording;

/// The body of every response.
pub type ResponseBody = UnsyncBoxBody<Bytes, BodyError>;

/// Why a response's body ends before its end. The connection is broken off, so that the client
/// cannot take the part for the whole.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("the component was ended before its response was complete")]
    Broken,
    #[error("the component sent {missing} bytes less than it had declared")]
    Short { missing: u64 },
    #[error("the response is larger than the limit of its component, {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the response took longer than the transfer timeout of its component")]
    Timeout,
    #[error("the component failed while sending its response: {0}")]
    Guest(WasiError),
}

/// How much of an unread request body is read and thrown away, and for how long. A client that
/// is still sending when the connection closes may never see the answer.
const DRAIN_BYTES: u64 = 64 * 1024 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// How much of a response's body waits for its end before the head is sent, in bytes.
const GATHERED: u64 = 64 * 1024;

/// A whole body.
pub fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body of known length in pieces that others say as well.
pub fn shared(pieces: Arc<[Bytes]>, length: u64) -> ResponseBody {
    Shared { pieces, next: 0, left: length }.boxed_unsync()
}

struct Shared {
    pieces: Arc<[Bytes]>,
    next: usize,
    /// Bytes that are still to come.
    left: u64,
}

impl Body for Shared {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let piece = self.pieces.get(self.next).cloned();
        self.next += 1;
        self.left = self.left.saturating_sub(piece.as_ref().map_or(0, |piece| piece.len() as u64));
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.next >= self.pieces.len()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// No body, although the head may declare its length.
pub fn nothing(declared: SizeHint) -> ResponseBody {
    Nothing(declared).boxed_unsync()
}

struct Nothing(SizeHint);

impl Body for Nothing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(None)
    }

    fn size_hint(&self) -> SizeHint {
        self.0
    }
}

/// A request's body. It reports to the exchange, and what its reader leaves is drained.
pub struct RequestBody {
    inner: Option<WasiBody>,
    exchange: Arc<Exchange>,
    room: u64,
    /// The client waits for `100 Continue`, which the first reading sends. If nobody reads, the
    /// client sends nothing and there is nothing to drain.
    untouched_and_withheld: bool,
}

impl RequestBody {
    /// `limit` is in bytes; `withheld` says that the client sent `Expect: 100-continue`.
    pub fn new(inner: WasiBody, exchange: Arc<Exchange>, limit: u64, withheld: bool) -> Self {
        Self { inner: Some(inner), exchange, room: limit, untouched_and_withheld: withheld }
    }

    fn end(&mut self) {
        self.inner = None;
        self.exchange.waits_for_client(false);
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = WasiError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WasiError>>> {
        self.untouched_and_withheld = false;
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(None);
        };
        let frame = Pin::new(inner).poll_frame(cx);
        self.exchange.waits_for_client(frame.is_pending());
        match ready!(frame) {
            Some(Ok(frame)) => {
                self.exchange.received();
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                match self.room.checked_sub(length) {
                    Some(room) => {
                        self.room = room;
                        Poll::Ready(Some(Ok(frame)))
                    }
                    None => {
                        self.exchange.found_too_large();
                        if let Some(rest) = self.inner.take() {
                            drain(rest);
                        }
                        self.end();
                        Poll::Ready(Some(Err(WasiError::HttpRequestBodySize(None))))
                    }
                }
            }
            Some(Err(error)) => {
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
        self.exchange.waits_for_client(false);
        if let Some(rest) = self.inner.take()
            && !self.untouched_and_withheld
            && !rest.is_end_stream()
        {
            drain(rest);
        }
    }
}

fn drain(mut body: WasiBody) {
    // Outside a runtime the connection is gone as well, and with it the reason to drain.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    let read = async move {
        let mut room = DRAIN_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, |data| data.len() as u64);
            match room.checked_sub(length) {
                Some(rest) => room = rest,
                None => break,
            }
        }
    };
    runtime.spawn(async move { tokio::time::timeout(DRAIN_TIME, read).await });
}

/// A component's response body. It keeps the lease until it is complete.
pub struct GuestBody {
    inner: WasiBody,
    /// Read before the head was sent.
    early: VecDeque<Result<Frame<Bytes>, BodyError>>,
    exchange: Arc<Exchange>,
    lease: Option<Arc<Lease>>,
    /// A timer only once somebody has to wait.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Bytes that are still to come, if the guest has declared how many there are.
    owed: Option<u64>,
    /// Bytes that the component may send, and how many of them are left.
    limit: u64,
    room: u64,
    recording: Option<Recording>,
}

impl GuestBody {
    pub fn new(
        inner: WasiBody,
        bodiless: bool,
        limit: u64,
        recording: Option<Recording>,
        exchange: Arc<Exchange>,
        lease: Arc<Lease>,
    ) -> Self {
        let owed = if bodiless { Some(0) } else { inner.size_hint().exact() };
        let (early, lease) = (VecDeque::new(), Some(lease));
        Self { inner, early, exchange, lease, deadline: None, owed, limit, room: limit, recording }
    }

    /// Takes what the guest writes as long as it need not wait. If that is all, it goes out with the
    /// head, in one write and with its length, and the run is over; otherwise it goes on by itself.
    pub fn gather(mut self, mut run: Run) -> ResponseBody {
        run.answered();
        let mut length = 0;
        let mut nudged = false;
        // Nobody asks for the end of a body whose length is declared.
        while self.owed != Some(0) {
            // Whoever takes the rest asks again, and is woken then.
            match Pin::new(&mut self).poll_written(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(None) => break,
                Poll::Ready(Some(frame)) => {
                    nudged = false;
                    let data = frame.as_ref().ok().and_then(Frame::data_ref).map(|data| data.len() as u64);
                    self.early.push_back(frame);
                    match data {
                        Some(data) if length + data < GATHERED || self.owed == Some(0) => length += data,
                        // More than one write in any case, or an error, or trailers.
                        _ => return self.boxed_unsync(),
                    }
                }
                Poll::Pending if nudged => return self.boxed_unsync(),
                Poll::Pending => {
                    run.nudge();
                    nudged = true;
                }
            }
        }
        let data = |frame: Result<Frame<Bytes>, BodyError>| frame.ok()?.into_data().ok();
        let mut chunks: Vec<Bytes> = self.early.drain(..).filter_map(data).collect();
        drop(self);
        run.nudge();
        full(match chunks.as_mut_slice() {
            [whole] => std::mem::take(whole),
            chunks => chunks.concat().into(),
        })
    }

    /// The body is not sent, whatever the guest writes.
    pub fn skip(self, mut run: Run) -> ResponseBody {
        run.answered();
        let declared = self.inner.size_hint();
        drop(self);
        run.nudge();
        nothing(declared)
    }

    fn end(&mut self) {
        self.exchange.ended();
        self.lease = None;
    }

    /// What the guest has written. It does not look at the clock.
    fn poll_written(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.lease.is_none() {
            return Poll::Ready(None);
        }
        let end = match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                let Some(room) = self.room.checked_sub(length) else {
                    if let Some(lease) = &self.lease {
                        lease.cut_off();
                    }
                    let limit = self.limit;
                    return Poll::Ready(self.finish(Some(BodyError::TooLarge { limit })));
                };
                self.room = room;
                self.owed = self.owed.map(|owed| owed.saturating_sub(length));
                self.recording.take_if(|recording| frame.data_ref().is_none_or(|data| !recording.hears(data)));
                return Poll::Ready(Some(Ok(frame)));
            }
            Some(Err(error)) => Some(BodyError::Guest(error)),
            // The stream of a guest that died just ends.
            None if self.exchange.is_broken() => Some(BodyError::Broken),
            None => self.owed.filter(|owed| *owed > 0).map(|missing| BodyError::Short { missing }),
        };
        Poll::Ready(self.finish(end))
    }

    fn finish(&mut self, error: Option<BodyError>) -> Option<Result<Frame<Bytes>, BodyError>> {
        let recording = self.recording.take();
        if error.is_none() {
            if let Some(recording) = recording {
                recording.complete();
            }
            if let Some(lease) = &self.lease {
                lease.answered(&self.exchange);
            }
        }
        self.end();
        error.map(Err)
    }
}

impl Body for GuestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(frame) = self.early.pop_front() {
            return Poll::Ready(Some(frame));
        }
        if let Poll::Ready(written) = self.as_mut().poll_written(cx) {
            return Poll::Ready(written);
        }
        let this = &mut *self;
        let at = this.exchange.expires_at().into();
        let deadline = this.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(this.finish(Some(BodyError::Timeout)))
    }

    fn is_end_stream(&self) -> bool {
        self.early.is_empty() && (self.lease.is_none() || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let length = |frame: &Result<Frame<Bytes>, BodyError>| frame.as_ref().ok()?.data_ref().map(Bytes::len);
        let early = self.early.iter().filter_map(length).map(|length| length as u64).sum::<u64>();
        let rest = self.inner.size_hint();
        match rest.exact() {
            Some(rest) => SizeHint::with_exact(early.saturating_add(rest)),
            // Nobody asks for more than whether the length is known.
            None => rest,
        }
    }
}

impl Drop for GuestBody {
    fn drop(&mut self) {
        // Of a body with a declared length, nobody asks for the end.
        if self.owed == Some(0) {
            if let Some(recording) = self.recording.take() {
                recording.complete();
            }
            if let Some(lease) = &self.lease {
                lease.answered(&self.exchange);
            }
        }
        self.end();
    }
}
