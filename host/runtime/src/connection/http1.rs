//! An HTTP/1 connection, until it ends or waits for its next request.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hexad_http::send_buffer::{BelowMinRate, MinRateMonitor, Progress};
use hexad_limits::read_bounds::{OverheadMeter, begin_turn};
use hexad_support::serving_threads::StopSignal;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep};

use super::in_flight::OVERHEAD;
use super::linger::linger;
use super::service::Connection;
use super::socket::ReadAhead;
use super::{BODY_TIMEOUT, BUFFERS_KEPT, HEAD_TIMEOUT, MAX_HEADERS, TIME_TO_SEND, stopping};
use crate::ingress::IdleConnection;

/// How often the host checks whether the client of a request in flight has gone. hyper does not see it while pipelined
/// bytes wait for that request's end.
const PRESENCE_INTERVAL: Duration = Duration::from_secs(1);

/// Why the host stops serving the connection.
enum End {
    Closed(hyper::Result<()>),
    /// The client has gone or was too slow: the reason, for the log.
    Ended(&'static str),
    SlowReader(BelowMinRate),
    /// The connection has been idle since then.
    Idle(Instant),
}

const GONE: End = End::Ended("a client closed its connection during a request");
const SLOW_HEAD: End = End::Ended("a client did not send the head of its request in time");
const SLOW_BODY: End = End::Ended("the body of a request that was answered did not end in time");
const EVICTED: End = End::Ended("a connection was closed for another before the end of a request's head");

/// A connection with no request in flight.
pub struct IdleStream<S> {
    pub stream: S,
    /// Bytes of the next request that were read already. `None`, not an empty slice, because a slice would keep hyper's
    /// buffer alive.
    pub read: Option<Bytes>,
    pub since: Instant,
}

/// Serves requests; `read` holds the first bytes. Returns the connection once it is idle.
pub async fn serve<S>(
    connection: &Arc<Connection>,
    stream: S,
    read: Bytes,
    stop: &mut StopSignal,
) -> Option<IdleStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let max_head = connection.receive_bounds.head;
    let overhead = Arc::new(OverheadMeter::new(max_head));
    let service = service_fn(|request| {
        overhead.record_head();
        OVERHEAD.sync_scope(overhead.clone(), || connection.handle(request))
    });
    let io = TokioIo::new(ReadAhead { read, stream, overhead: Some(overhead.clone()) });
    let mut http = http1::Builder::new();
    http.header_read_timeout(None).max_buf_size(max_head).max_headers(MAX_HEADERS);
    let mut http = http.serve_connection(io, service);
    let mut monitor = MinRateMonitor::new(connection.ingress.drain);
    let (mut clock, mut stopped) = (Clock::new(connection), false);
    let mut stopping = pin!(stopping(connection, stop));
    let end = poll_fn(|cx| {
        begin_turn();
        if let Poll::Ready(result) = Pin::new(&mut http).poll(cx) {
            return Poll::Ready(End::Closed(result));
        }
        // After hyper's poll, so that the host answers a request that was read already.
        if !stopped && (connection.has_unclear_end() || stopping.as_mut().poll(cx).is_ready()) {
            stopped = true;
            Pin::new(&mut http).graceful_shutdown();
            cx.waker().wake_by_ref();
        }
        if let Poll::Ready(slow) = monitor.poll(&connection.flow, &ClientProgress(connection), cx) {
            return Poll::Ready(End::SlowReader(slow));
        }
        clock.poll(connection, cx)
    });
    let end = end.await;
    let is_flood = overhead.check().is_err();
    if is_flood {
        connection.log_flood();
    }
    match end {
        End::Closed(result) => {
            if is_in_order(result) && !is_flood {
                // The clock holds the connection's place among the evictable ones; `linger` takes another.
                drop(clock);
                let mut stream = http.into_parts().io.into_inner().stream;
                // Boxed: a connection that serves requests needs no room for this future.
                Box::pin(linger(connection, &mut stream)).await;
            }
            None
        }
        End::Ended(reason) => {
            tracing::debug!("{reason}");
            None
        }
        End::SlowReader(reason) => {
            connection.log_slow_reader(&connection.flow, reason);
            connection.socket.reset_on_close();
            None
        }
        End::Idle(since) => {
            let parts = http.into_parts();
            let ReadAhead { read, stream, .. } = parts.io.into_inner();
            Some(IdleStream { stream, read: unread(&parts.read_buf, &read), since })
        }
    }
}

/// Whether hyper has answered each request, also one that it could not parse.
fn is_in_order(result: hyper::Result<()>) -> bool {
    let is_in_order = result.as_ref().map_or_else(hyper::Error::is_parse, |()| true);
    if let Err(error) = result {
        // Usually the client closed the connection or did not send HTTP.
        tracing::debug!(%error, "a connection ended early");
    }
    is_in_order
}

/// A client's progress on a connection: the bytes that it has acknowledged.
struct ClientProgress<'a>(&'a Connection);

impl Progress for ClientProgress<'_> {
    /// A small response counts in no `BodyProgress`; it waits when the kernel takes no more.
    fn is_waiting(&self) -> bool {
        self.0.flow.is_waiting() || self.0.socket.is_blocked()
    }

    fn handed(&self) -> u64 {
        self.0.socket.written()
    }

    fn taken(&self) -> u64 {
        self.0.socket.acknowledged()
    }
}

/// The bytes of both parts, copied: even an empty slice of hyper's buffer would keep all of it, 16 KiB for each idle
/// connection.
fn unread(first: &[u8], second: &[u8]) -> Option<Bytes> {
    let bytes = [first, second].concat();
    (!bytes.is_empty()).then(|| bytes.into())
}

/// The part of a request that the connection waits for, and since when.
enum AwaitedPart {
    /// Nothing: a response is under way. The time is the next check whether the client has gone.
    Nothing(Instant),
    /// More of the body of an answered request.
    Body(Instant),
    /// The rest of a head.
    Head(Instant),
    /// The next request.
    Request(Instant),
}

/// The read time-outs of one connection: for heads, for bodies of answered requests, for the buffers of an idle
/// connection, and for clients that have gone.
struct Clock<'a> {
    awaited: AwaitedPart,
    /// Set when a head takes longer than `TIME_TO_SEND`: the connection may be closed for another.
    idle: Option<IdleConnection<'a>>,
    /// How many requests have begun.
    requests: usize,
    /// Reused: it may fire too early, which is cheaper than a reset for each request.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'a> Clock<'a> {
    /// Starts when the first byte of a request was read.
    fn new(connection: &Connection) -> Self {
        Self { awaited: AwaitedPart::Head(Instant::now()), idle: None, requests: connection.requests(), timer: None }
    }

    /// Ready if the client is too slow, is idle or has gone.
    fn poll(&mut self, connection: &'a Connection, cx: &mut Context<'_>) -> Poll<End> {
        let has_read = connection.socket.take_has_read();
        let requests = connection.requests();
        let is_same = std::mem::replace(&mut self.requests, requests) == requests;
        self.awaited = match self.awaited {
            AwaitedPart::Nothing(at) if connection.responds() => AwaitedPart::Nothing(at),
            _ if connection.responds() => AwaitedPart::Nothing(Instant::now() + PRESENCE_INTERVAL),
            AwaitedPart::Body(since) if !connection.is_idle() && !has_read => AwaitedPart::Body(since),
            _ if !connection.is_idle() => AwaitedPart::Body(Instant::now()),
            // The bytes may be the end of the previous request's body, so they do not begin a head.
            AwaitedPart::Nothing(_) | AwaitedPart::Body(_) => AwaitedPart::Request(Instant::now()),
            AwaitedPart::Head(since) if is_same => AwaitedPart::Head(since),
            AwaitedPart::Request(since) if is_same && !has_read => AwaitedPart::Request(since),
            _ if has_read => AwaitedPart::Head(Instant::now()),
            _ => AwaitedPart::Request(Instant::now()),
        };
        match (&self.awaited, &mut self.idle) {
            (AwaitedPart::Head(_), None) => {}
            (AwaitedPart::Head(_), Some(idle)) => {
                if idle.poll_evicted(cx).is_ready() {
                    return Poll::Ready(EVICTED);
                }
            }
            (_, idle) => *idle = None,
        }
        let mut deadline = match self.awaited {
            AwaitedPart::Nothing(at) => at,
            AwaitedPart::Body(since) => since + BODY_TIMEOUT,
            AwaitedPart::Head(since) if self.idle.is_none() => since + TIME_TO_SEND,
            AwaitedPart::Head(since) => since + HEAD_TIMEOUT,
            // The client has not taken its last response, and no minimum rate ends the connection.
            AwaitedPart::Request(since) if connection.socket.is_blocked() => {
                since + connection.ingress.keep_alive.timeout
            }
            AwaitedPart::Request(since) => since + BUFFERS_KEPT,
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if deadline <= now {
                match self.awaited {
                    AwaitedPart::Nothing(_) if connection.socket.has_hung_up() => return Poll::Ready(GONE),
                    AwaitedPart::Nothing(_) => {
                        deadline = now + PRESENCE_INTERVAL;
                        self.awaited = AwaitedPart::Nothing(deadline);
                    }
                    AwaitedPart::Body(_) => return Poll::Ready(SLOW_BODY),
                    AwaitedPart::Head(since) if self.idle.is_none() => {
                        deadline = since + HEAD_TIMEOUT;
                        let idle = self.idle.insert(connection.await_client());
                        if idle.poll_evicted(cx).is_ready() {
                            return Poll::Ready(EVICTED);
                        }
                    }
                    AwaitedPart::Head(_) => return Poll::Ready(SLOW_HEAD),
                    AwaitedPart::Request(_) if connection.socket.is_blocked() => {
                        return Poll::Ready(End::SlowReader(BelowMinRate::Period));
                    }
                    AwaitedPart::Request(since) => return Poll::Ready(End::Idle(since)),
                }
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
