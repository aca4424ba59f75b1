//! How many requests of a connection are under way: until the response was handed over as a whole and the client's
//! body has ended, whichever is later.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

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

/// The body of a request, which is under way until its end: what follows it on the connection is another request, and
/// what belongs to it is not, however early the response was.
pub struct RequestInFlight {
    body: Incoming,
    in_flight: Option<InFlight>,
}

impl RequestInFlight {
    pub fn begin(body: Incoming, count: &Arc<AtomicUsize>) -> Self {
        let in_flight = (!body.is_end_stream()).then(|| InFlight::begin(count));
        Self { body, in_flight }
    }
}

impl Body for RequestInFlight {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.in_flight = None;
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
