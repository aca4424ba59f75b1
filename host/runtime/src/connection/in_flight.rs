//! Counts a connection's requests in flight. A request ends when hyper has its whole response and the client's body has
//! ended, whichever is later.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hexad_http::send_buffer::Upload;
use hexad_limits::read_bounds::OverheadMeter;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::Notify;

use crate::ingress::ReceiveReservation;

tokio::task_local! {
    /// The overhead meter of an HTTP/1 connection, while one of its requests begins.
    pub static OVERHEAD: Arc<OverheadMeter>;
}

/// Counts a response that hyper does not have as a whole yet, or a request's body that has not ended.
pub struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    /// Counts until it is dropped.
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

/// The ends of a connection's chunked bodies, which the host has not seen yet. Such a body has no declared length, so
/// hyper decides where it ends.
#[derive(Default)]
pub struct PendingBodyEnds {
    /// Bodies whose end the host has not seen.
    unseen: AtomicUsize,
    is_unclear: AtomicBool,
    /// Notified when the host has seen an end.
    seen: Notify,
}

impl PendingBodyEnds {
    /// Whether a body's end is uncertain: the next bytes on the connection may not be a request.
    pub fn are_unclear(&self) -> bool {
        self.is_unclear.load(Ordering::Relaxed)
    }

    pub fn unseen(&self) -> usize {
        self.unseen.load(Ordering::Relaxed)
    }

    /// Returns once the host has seen the ends of all bodies but the latest `own`.
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

/// A chunked body whose end the host has not seen.
struct PendingBodyEnd(Arc<PendingBodyEnds>);

impl PendingBodyEnd {
    fn begin(ends: &Arc<PendingBodyEnds>) -> Self {
        ends.unseen.fetch_add(1, Ordering::Relaxed);
        Self(ends.clone())
    }

    fn mark_unclear(&self) {
        self.0.is_unclear.store(true, Ordering::Relaxed);
    }
}

impl Drop for PendingBodyEnd {
    fn drop(&mut self) {
        self.0.unseen.fetch_sub(1, Ordering::Relaxed);
        self.0.seen.notify_waiters();
    }
}

/// The body of a request. It is in flight until its end, however early the response was: only the bytes after it are
/// the next request.
pub struct RequestInFlight {
    body: Incoming,
    in_flight: Option<InFlight>,
    pending_end: Option<PendingBodyEnd>,
    overhead: Option<Arc<OverheadMeter>>,
    /// Budgeted room for the bytes that the client may send ahead.
    reservation: Option<ReceiveReservation>,
    upload: Upload,
}

impl RequestInFlight {
    /// `ends` belong to an HTTP/1 connection.
    pub fn begin(body: Incoming, count: &Arc<AtomicUsize>, ends: Option<&Arc<PendingBodyEnds>>) -> Self {
        let in_flight = (!body.is_end_stream()).then(|| InFlight::begin(count));
        let pending_end = ends.filter(|_| body.size_hint().exact().is_none()).map(PendingBodyEnd::begin);
        Self {
            body,
            in_flight,
            pending_end,
            overhead: OVERHEAD.try_with(Arc::clone).ok(),
            reservation: None,
            upload: Upload::default(),
        }
    }

    /// Keeps the reservation and the upload's wait until the body has ended.
    pub fn keep(&mut self, reservation: Option<ReceiveReservation>, upload: Upload) {
        (self.reservation, self.upload) = (reservation, upload);
    }
}

impl Body for RequestInFlight {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let (Poll::Ready(Some(Ok(frame))), Some(overhead)) = (&frame, &self.overhead) {
            overhead.record_frame(frame.data_ref().map_or(0, |data| data.len() as u64));
        }
        if let (Poll::Ready(Some(Ok(frame))), Some(pending_end)) = (&frame, &self.pending_end)
            && frame.is_trailers()
        {
            // hyper finds the end of the trailers by an empty line with CR and LF, but parses them up to an empty line
            // with LF alone. A proxy in front may have passed the rest on as a request.
            pending_end.mark_unclear();
        }
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.in_flight = None;
            self.pending_end = None;
            self.reservation = None;
            self.upload.end();
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
    /// hyper may read the rest, with trailers that the host does not see, so the end is uncertain.
    fn drop(&mut self) {
        if let Some(pending_end) = &self.pending_end {
            pending_end.mark_unclear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use http_body_util::{BodyExt, Empty};
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::connection::socket::ReadAhead;

    const MAX_HEAD_BYTES: usize = 64 * 1024;

    /// Bytes in transit between client and host.
    const DUPLEX: usize = 64 * 1024;

    /// How many bytes a connection takes after the head of a chunked request, and whether the body ended.
    async fn taken(begin: &str, framing: &str, most: usize, end: &str) -> (usize, bool) {
        let (mut client, stream) = tokio::io::duplex(DUPLEX);
        let overhead = Arc::new(OverheadMeter::new(MAX_HEAD_BYTES));
        let io = TokioIo::new(ReadAhead { read: Bytes::new(), stream, overhead: Some(overhead.clone()) });
        let ended = AtomicBool::new(false);
        let service = service_fn(|request: Request<Incoming>| {
            overhead.record_head();
            let begin = || RequestInFlight::begin(request.into_body(), &Arc::default(), None);
            let mut body = OVERHEAD.sync_scope(overhead.clone(), begin);
            let ended = &ended;
            async move {
                while let Some(Ok(_)) = body.frame().await {}
                ended.store(body.in_flight.is_none(), Ordering::Relaxed);
                Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
            }
        });
        let serving = http1::Builder::new().max_buf_size(MAX_HEAD_BYTES).serve_connection(io, service);
        let sending = async move {
            let head = format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{begin}");
            client.write_all(head.as_bytes()).await.unwrap();
            let (mut taken, framing) = (0, framing.repeat(64));
            while taken < most && client.write_all(framing.as_bytes()).await.is_ok() {
                taken += framing.len();
            }
            let _ = client.write_all(end.as_bytes()).await;
            // hyper ends a request whose client has gone.
            let _ = client.read(&mut [0]).await;
            taken
        };
        let (_, taken) = tokio::join!(serving, sending);
        (taken, ended.into_inner())
    }

    #[tokio::test]
    async fn framing_without_an_end_is_read_up_to_a_bound() {
        // A read takes at most twice a buffer.
        let bound = (6 + 2) * MAX_HEAD_BYTES + DUPLEX;
        for (begin, endless) in [("1", " "), ("1", "\t"), ("", "0")] {
            let (taken, ended) = taken(begin, endless, 16 * bound, "").await;
            assert!(taken <= bound && !ended, "{taken}");
        }
        let (taken, ended) = taken("", "1\r\nx\r\n", 4 * bound, "0\r\n\r\n").await;
        assert!(taken >= 4 * bound && ended, "what carries something is read to its end: {taken}");
    }
}
