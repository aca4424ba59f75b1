//! Bodies of messages that cross the sandbox by value, in part or as a whole.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full, StreamBody};
use tokio::time::{Instant, Sleep};
use wasmtime_wasi_http::{Error as WasiError, WasiBody};

/// A body that is in memory as a whole.
pub fn full(body: impl Into<Bytes>) -> WasiBody {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}

/// An empty body without a length: a `HEAD` response's length is that of the `GET` response, which the host does not
/// know.
pub fn without_length() -> WasiBody {
    StreamBody::new(stream::empty()).boxed_unsync()
}

/// A body that breaks off at once.
pub fn broken(error: WasiError) -> WasiBody {
    StreamBody::new(stream::iter([Err(error)])).boxed_unsync()
}

/// `beginning`, then the data of `rest`, without its trailers.
pub fn followed_by(beginning: Bytes, rest: WasiBody) -> WasiBody {
    FollowedBy { beginning: Some(beginning).filter(|beginning| !beginning.is_empty()), rest }.boxed_unsync()
}

struct FollowedBy {
    beginning: Option<Bytes>,
    rest: WasiBody,
}

impl Body for FollowedBy {
    type Data = Bytes;
    type Error = WasiError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WasiError>>> {
        if let Some(beginning) = self.beginning.take() {
            return Poll::Ready(Some(Ok(Frame::data(beginning))));
        }
        let frame = ready!(Pin::new(&mut self.rest).poll_frame(cx));
        Poll::Ready(frame.filter(|frame| !frame.as_ref().is_ok_and(Frame::is_trailers)))
    }

    fn is_end_stream(&self) -> bool {
        self.beginning.is_none() && self.rest.is_end_stream()
    }

    /// The declared length shows whether a body breaks off, so it must not get lost.
    fn size_hint(&self) -> SizeHint {
        let beginning = self.beginning.as_ref().map_or(0, |beginning| beginning.len() as u64);
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(beginning));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(beginning));
        }
        hint
    }
}

/// A body that fails once its reader has waited for `left` in total.
pub fn waited_for(body: WasiBody, left: Duration) -> WasiBody {
    WaitedFor { body, left, since: None, timer: None }.boxed_unsync()
}

struct WaitedFor {
    body: WasiBody,
    /// The time that is left, without the current wait.
    left: Duration,
    /// The beginning of the current wait.
    since: Option<Instant>,
    /// It may fire too early, which is cheaper than a reset for each wait.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Body for WaitedFor {
    type Data = Bytes;
    type Error = WasiError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WasiError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            if let Some(since) = this.since.take() {
                this.left = this.left.saturating_sub(since.elapsed());
            }
            return Poll::Ready(frame);
        }
        let deadline = *this.since.get_or_insert_with(Instant::now) + this.left;
        let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= deadline {
                return Poll::Ready(Some(Err(WasiError::HttpResponseTimeout)));
            }
            timer.as_mut().reset(deadline);
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::poll;

    #[tokio::test]
    async fn only_the_time_counts_in_which_a_reader_waits() {
        let (send, frames) = futures::channel::mpsc::unbounded();
        let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
        let mut body = WaitedFor { body: StreamBody::new(frames).boxed_unsync(), left: hour, since: None, timer: None };
        let frame = || send.unbounded_send(Ok(Frame::data(Bytes::from_static(b"x")))).unwrap();
        frame();
        assert!(poll!(body.frame()).is_ready());
        assert_eq!((body.left, body.since), (hour, None), "nobody waited");
        assert!(poll!(body.frame()).is_pending());
        body.since = body.since.and_then(|since| since.checked_sub(minute));
        assert!(poll!(body.frame()).is_pending(), "the wait goes on");
        frame();
        assert!(poll!(body.frame()).is_ready());
        assert!(body.since.is_none() && body.left <= hour - minute, "{:?}", body.left);
        (body.left, body.timer) = (Duration::ZERO, None);
        assert!(matches!(body.frame().await, Some(Err(WasiError::HttpResponseTimeout))));
    }

    #[tokio::test]
    async fn a_length_is_that_of_both_parts_and_trailers_are_dropped() {
        let body = followed_by(Bytes::from_static(b"ab"), full("cd"));
        assert_eq!(body.size_hint().exact(), Some(4));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abcd");
        let trailers = [Ok(Frame::data(Bytes::from_static(b"cd"))), Ok(Frame::trailers(http::HeaderMap::new()))];
        let body = followed_by(Bytes::new(), StreamBody::new(stream::iter(trailers)).boxed_unsync());
        let collected = body.collect().await.unwrap();
        assert!(collected.trailers().is_none());
        assert_eq!(collected.to_bytes(), "cd");
    }
}
