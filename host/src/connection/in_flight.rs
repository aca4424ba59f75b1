//! How many requests of a connection are under way: until the response was handed over as a whole and the client's
//! body has ended, whichever is later.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::Notify;

/// A response that has not been handed to the HTTP implementation as a whole, or the body of a request that has not
/// ended.
pub struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    /// Counts it until it is dropped.
    pub fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is known of the ends of a connection's chunked bodies. They end where hyper says: not with a byte that was counted
/// before.
#[derive(Default)]
pub struct ChunkedEnds {
    /// Bodies whose end was not seen yet.
    unseen: AtomicUsize,
    is_unclear: AtomicBool,
    /// Told when an end was seen.
    seen: Notify,
}

impl ChunkedEnds {
    /// Whether it is not certain where a body ended: what follows on the connection may not be a request.
    pub fn are_unclear(&self) -> bool {
        self.is_unclear.load(Ordering::Relaxed)
    }

    pub fn unseen(&self) -> usize {
        self.unseen.load(Ordering::Relaxed)
    }

    /// Returns once the ends of all bodies but the latest `own` were seen.
    pub async fn until_seen(&self, own: usize) {
        loop {
            let seen = self.seen.notified();
            if self.unseen() <= own {
                return;
            }
            seen.await;
        }
    }
}

/// A chunked body whose end was not seen yet.
struct Unended(Arc<ChunkedEnds>);

impl Unended {
    fn begin(ends: &Arc<ChunkedEnds>) -> Self {
        ends.unseen.fetch_add(1, Ordering::Relaxed);
        Self(ends.clone())
    }

    fn mark_unclear(&self) {
        self.0.is_unclear.store(true, Ordering::Relaxed);
    }
}

impl Drop for Unended {
    fn drop(&mut self) {
        self.0.unseen.fetch_sub(1, Ordering::Relaxed);
        self.0.seen.notify_waiters();
    }
}

/// The body of a request, which is under way until its end: what follows it on the connection is another request, and
/// what belongs to it is not, however early the response was.
pub struct RequestInFlight {
    body: Incoming,
    in_flight: Option<InFlight>,
    unended: Option<Unended>,
}

impl RequestInFlight {
    /// `ends` are those of an HTTP/1 connection.
    pub fn begin(body: Incoming, count: &Arc<AtomicUsize>, ends: Option<&Arc<ChunkedEnds>>) -> Self {
        let in_flight = (!body.is_end_stream()).then(|| InFlight::begin(count));
        let unended = ends.filter(|_| body.size_hint().exact().is_none()).map(Unended::begin);
        Self { body, in_flight, unended }
    }
}

impl Body for RequestInFlight {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let (Poll::Ready(Some(Ok(frame))), Some(unended)) = (&frame, &self.unended)
            && frame.is_trailers()
        {
            // hyper takes what it finds before an empty line that ends with CR and LF, and reads trailers from it up to one
            // that ends with LF alone. The rest may be a request to whoever passed it on.
            unended.mark_unclear();
        }
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.in_flight = None;
            self.unended = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestInFlight {
    /// hyper may read the rest, with trailers that nobody sees.
    fn drop(&mut self) {
        if let Some(unended) = &self.unended {
            unended.mark_unclear();
        }
    }
}
