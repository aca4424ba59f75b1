//! A guest's response body on its way to the client, within size and time.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::Sleep;
use wasmtime_wasi_http::WasiBody;

use super::guest_call::Run;
use super::lease::Lease;
use crate::body::{BodyError, ResponseBody, empty, full};
use crate::request_context::Exchange;
use crate::response_cache::Recorder;

/// How much of a response's body waits for its end before the head is sent, in bytes.
const GATHERED: u64 = 64 * 1024;

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
    recorder: Option<Recorder>,
}

impl GuestBody {
    pub fn new(
        inner: WasiBody,
        bodiless: bool,
        limit: u64,
        recorder: Option<Recorder>,
        exchange: Arc<Exchange>,
        lease: Arc<Lease>,
    ) -> Self {
        let owed = if bodiless { Some(0) } else { inner.size_hint().exact() };
        let (early, lease) = (VecDeque::new(), Some(lease));
        Self { inner, early, exchange, lease, deadline: None, owed, limit, room: limit, recorder }
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
        empty(declared)
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
                self.recorder.take_if(|recorder| frame.data_ref().is_none_or(|data| !recorder.record(data)));
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
        let recorder = self.recorder.take();
        if error.is_none() {
            if let Some(recorder) = recorder {
                recorder.complete();
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
            if let Some(recorder) = self.recorder.take() {
                recorder.complete();
            }
            if let Some(lease) = &self.lease {
                lease.answered(&self.exchange);
            }
        }
        self.end();
    }
}
