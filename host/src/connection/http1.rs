//! An HTTP/1 connection, until it ends or waits for its next request.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep};

use super::service::Connection;
use super::socket::ReadAhead;
use super::{HEAD_TIMEOUT, MAX_HEAD_BYTES, stopping};
use crate::send_buffer::{DrainMonitor, TooSlow};
use crate::stop::StopSignal;

/// The most headers of a request.
const MAX_HEADERS: usize = 100;

/// How long a connection without a request keeps the buffers of its last one. New ones cost as much as some
/// reads of the store; ten thousand clients that connect at once must not have them all at the same time.
const BUFFERS_KEPT: Duration = Duration::from_millis(200);

/// Why the connection is not served any longer.
enum End {
    Closed(hyper::Result<()>),
    /// The client did not send the rest of a request's head.
    SlowHead,
    SlowReader(TooSlow),
    /// Nothing is under way since then.
    Idle(Instant),
}

/// A connection without a request.
pub struct Idle<S> {
    pub stream: S,
    /// What was read of the next request. `None`, rather than a part of a buffer that would live on, if that
    /// is nothing.
    pub read: Option<Bytes>,
    pub since: Instant,
}

/// Serves requests of which `read` was read already. Returns the connection once it is idle.
pub async fn serve<S>(connection: &Arc<Connection>, stream: S, read: Bytes, stop: &mut StopSignal) -> Option<Idle<S>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| connection.handle(request));
    let io = TokioIo::new(ReadAhead { read, stream });
    let mut http = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(io, service);
    let mut monitor = DrainMonitor::new(connection.ingress.drain);
    let mut clock = Clock::new(connection);
    let stopping = stopping(connection, stop);
    tokio::pin!(stopping);
    let mut stopped = false;
    let end = poll_fn(|cx| {
        if !stopped && stopping.as_mut().poll(cx).is_ready() {
            stopped = true;
            Pin::new(&mut http).graceful_shutdown();
        }
        if let Poll::Ready(result) = Pin::new(&mut http).poll(cx) {
            return Poll::Ready(End::Closed(result));
        }
        if let Poll::Ready(slow) = monitor.poll(&connection.flow, || connection.socket.unacknowledged(), cx) {
            return Poll::Ready(End::SlowReader(slow));
        }
        clock.poll(connection, cx)
    });
    match end.await {
        End::Closed(Ok(())) => None,
        End::Closed(Err(error)) => {
            // As a rule the client closed the connection or did not send HTTP.
            tracing::debug!(%error, "a connection ended early");
            None
        }
        End::SlowHead => {
            tracing::debug!("a client did not send the head of its request in time");
            None
        }
        End::SlowReader(reason) => {
            connection.log_slow_reader(reason);
            connection.socket.reset_on_close();
            None
        }
        End::Idle(since) => {
            let parts = http.into_parts();
            let ReadAhead { read, stream } = parts.io.into_inner();
            Some(Idle { stream, read: unread(&parts.read_buf, &read), since })
        }
    }
}

/// The bytes of both parts, in a buffer of their own: an empty part of hyper's buffer would keep all of it,
/// 16 KiB for each idle connection.
fn unread(first: &[u8], second: &[u8]) -> Option<Bytes> {
    let bytes = [first, second].concat();
    (!bytes.is_empty()).then(|| bytes.into())
}

/// What the client is waited for, and since when.
enum Waiting {
    /// A request is under way.
    No,
    /// The rest of a head.
    Head(Instant),
    /// A request.
    Request(Instant),
}

/// Bounds the time of a head, and the time that an idle connection keeps its buffers.
struct Clock {
    waiting: Waiting,
    /// Requests so far.
    requests: usize,
    /// It is reused, and may fire too early rather than be reset for each request.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Clock {
    /// The first byte of a request was read.
    fn new(connection: &Connection) -> Self {
        Self { waiting: Waiting::Head(Instant::now()), requests: connection.requests(), timer: None }
    }

    /// Ready if the client is too slow or has nothing to ask for.
    fn poll(&mut self, connection: &Connection, cx: &mut Context<'_>) -> Poll<End> {
        let has_read = connection.socket.take_has_read();
        let requests = connection.requests();
        let is_same = std::mem::replace(&mut self.requests, requests) == requests;
        self.waiting = match self.waiting {
            _ if !connection.is_idle() => Waiting::No,
            Waiting::Head(since) if is_same => Waiting::Head(since),
            Waiting::Request(since) if is_same && !has_read => Waiting::Request(since),
            _ if has_read => Waiting::Head(Instant::now()),
            _ => Waiting::Request(Instant::now()),
        };
        let deadline = match self.waiting {
            Waiting::No => return Poll::Pending,
            Waiting::Head(since) => since + HEAD_TIMEOUT,
            // The client has not taken its last response.
            Waiting::Request(since) if connection.socket.is_blocked() => since + connection.ingress.keep_alive.timeout,
            Waiting::Request(since) => since + BUFFERS_KEPT,
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if deadline <= Instant::now() {
                return Poll::Ready(match self.waiting {
                    Waiting::Request(since) if !connection.socket.is_blocked() => End::Idle(since),
                    Waiting::Request(_) => End::SlowReader(TooSlow::Period),
                    _ => End::SlowHead,
                });
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;

    #[test]
    fn an_idle_connection_keeps_none_of_the_buffer_of_its_last_request() {
        let mut buffer = BytesMut::with_capacity(16 * 1024);
        buffer.extend_from_slice(b"GET");
        let next = buffer.split().freeze();
        assert_eq!(unread(&next, b" /").as_deref(), Some(&b"GET /"[..]));
        assert_eq!(unread(&next, b"").as_deref(), Some(&b"GET"[..]));
        assert_eq!(unread(&buffer.freeze(), b""), None, "nothing was read");
    }
}
