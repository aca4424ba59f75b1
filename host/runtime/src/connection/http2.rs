//! An HTTP/2 connection, and its streams.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hexad_http::send_buffer::{BodyProgress, MinRateMonitor};
use hexad_limits::read_bounds::begin_turn;
use hexad_support::serving_threads::StopSignal;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::frame_meter::{MAX_RESETS, MAX_RESETS_OF_PROXY, Metered};
use super::linger::linger;
use super::service::{Connection, STREAM_FLOW};
use super::socket::ReadAhead;
use super::{BUFFERS_KEPT, HEAD_TIMEOUT, TooLate, in_time, stopping};
use crate::ingress::ReceiveBounds;

/// Streams that a client may open and reset in one poll of the connection before the host serves them. A proxy's bound
/// is for all of its clients.
const MAX_UNSERVED_RESETS: usize = 20;
const MAX_UNSERVED_RESETS_OF_PROXY: usize = 1000;

/// Resets for errors of the client, over the connection's life. A proxy has many clients, so the bound does not hold
/// for proxies. hyper keeps a stream for each such reset until the client has taken it. The frame meter counts written
/// resets only.
const MAX_ERROR_RESETS: usize = 1024;

/// Bytes that hyper takes of one stream ahead of the client.
const MAX_SEND_BUFFER: usize = 64 * 1024;

/// Time limits of a closing connection: with requests in flight (also if another client waits for the place), while
/// idle, and while idle and evicted. The client may have sent requests before it learned of the end.
const LAST_REQUESTS_GRACE: Duration = Duration::from_secs(600);
const CLOSE_GRACE: Duration = Duration::from_secs(5);
const MAKE_ROOM_GRACE: Duration = Duration::from_millis(500);

/// Serves the connection until it ends. `read` holds the bytes that were read already.
pub async fn serve<S>(connection: &Arc<Connection>, stream: S, read: Bytes, started: Instant, stop: &mut StopSignal)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let is_flooded = Arc::new(AtomicBool::new(false));
    let max_resets = if connection.is_of_proxy() { MAX_RESETS_OF_PROXY } else { MAX_RESETS };
    // `read` is the preface; frames follow it.
    let metered = Metered::new(stream, max_resets, is_flooded.clone());
    let mut stream = ReadAhead { read, stream: metered, overhead: None };
    let ended = serve_streams(connection, &mut stream, &is_flooded, started, stop).await;
    if is_flooded.load(Ordering::Relaxed) {
        return connection.log_flood();
    }
    match ended {
        // Without lingering: another client needs the place at once.
        Some((Ok(()), IsEvicted(true))) => {}
        // Boxed: a connection that serves requests needs no room for this future.
        Some((Ok(()), IsEvicted(false))) => Box::pin(linger(connection, &mut stream)).await,
        Some((Err(error), _)) => tracing::debug!(%error, "a connection ended early"),
        None => tracing::debug!("a client did not close its connection in time"),
    }
}

/// Whether an idle connection closed in favour of another one.
struct IsEvicted(bool);

/// A connection's end, since the host sent `GOAWAY`.
struct Closing {
    since: Instant,
    /// How long the connection may be idle.
    idle_grace: Duration,
    /// The number of requests when the connection was last seen idle.
    idle_after: Option<usize>,
}

impl Closing {
    fn new(connection: &Connection, idle_grace: Duration) -> Self {
        let idle_after = connection.is_idle().then(|| connection.requests());
        Self { since: Instant::now(), idle_grace, idle_after }
    }

    /// Whether the connection has been idle since the `GOAWAY`, or since the last [`Self::next_deadline`].
    fn is_idle(&self, connection: &Connection) -> bool {
        connection.is_idle() && self.idle_after == Some(connection.requests())
    }

    fn is_eviction(&self) -> bool {
        self.idle_grace == MAKE_ROOM_GRACE
    }

    /// Called when the grace is over: the time of the next check. `None` if the connection has to end.
    fn next_deadline(&mut self, connection: &Connection) -> Option<Instant> {
        let last = self.since + LAST_REQUESTS_GRACE;
        if self.is_idle(connection) || last <= Instant::now() {
            return None;
        }
        if !self.is_eviction() {
            return Some(last);
        }
        // Another client waits, so the connection stays only while requests or unacknowledged bytes are under way.
        let is_idle = connection.is_idle() && !connection.socket.has_unacknowledged();
        self.idle_after = is_idle.then(|| connection.requests());
        Some(last.min(Instant::now() + self.idle_grace))
    }
}

/// Returns once the host has shut the stream down; an error says that this was not in good order. `None` if the client
/// has not let it in time.
async fn serve_streams<S>(
    connection: &Arc<Connection>,
    stream: &mut S,
    is_flooded: &AtomicBool,
    started: Instant,
    stop: &mut StopSignal,
) -> Option<(hyper::Result<()>, IsEvicted)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Boxed: hyper keeps a stream until its client has taken the response, and the box is freed when the response is
    // there.
    let service = service_fn(|request| connection.handle(request));
    let ReceiveBounds { upload_window, head: max_head } = connection.receive_bounds;
    let max_unserved_resets = if connection.is_of_proxy() { MAX_UNSERVED_RESETS_OF_PROXY } else { MAX_UNSERVED_RESETS };
    // No pings. A ping waits behind all bytes that the client's kernel holds, so a slow reader would reply late. The
    // kernel knows whether a client is gone.
    let http = http2::Builder::new(StreamExecutor(connection.clone()))
        .timer(TokioTimer::new())
        .max_concurrent_streams(connection.ingress.max_streams)
        .max_pending_accept_reset_streams(max_unserved_resets)
        .max_local_error_reset_streams((!connection.is_of_proxy()).then_some(MAX_ERROR_RESETS))
        .max_header_list_size(u32::try_from(max_head).unwrap_or(u32::MAX))
        .max_send_buf_size(MAX_SEND_BUFFER)
        .initial_connection_window_size(upload_window)
        .initial_stream_window_size(connection.receive_bounds.stream_window())
        .serve_connection(TokioIo::new(stream), service);
    let mut http = pin!(http);
    let mut last_request = pin!(last_request(connection, started, stop));
    let (mut closing, mut has_seen_flood) = (None, false);
    let mut expiry = pin!(tokio::time::sleep(Duration::ZERO));
    let ended = poll_fn(|cx| {
        begin_turn();
        if closing.is_none()
            && !has_seen_flood
            && let Poll::Ready(idle_grace) = last_request.as_mut().poll(cx)
        {
            let end = closing.insert(Closing::new(connection, idle_grace));
            http.as_mut().graceful_shutdown();
            expiry.as_mut().reset(end.since + idle_grace);
        }
        if let Poll::Ready(result) = http.as_mut().poll(cx) {
            let is_evicted = closing.as_ref().is_some_and(|end| end.is_eviction() && end.is_idle(connection));
            return Poll::Ready(Some((result, IsEvicted(is_evicted))));
        }
        if !has_seen_flood && is_flooded.load(Ordering::Relaxed) {
            (closing, has_seen_flood) = (None, true);
            expiry.as_mut().reset(Instant::now() + CLOSE_GRACE);
            // The flood may have shown in written bytes; hyper sees the end of the stream only when it reads.
            cx.waker().wake_by_ref();
        }
        while has_seen_flood || closing.is_some() {
            ready!(expiry.as_mut().poll(cx));
            match closing.as_mut().and_then(|end| end.next_deadline(connection)) {
                Some(deadline) => expiry.as_mut().reset(deadline),
                None => return Poll::Ready(None),
            }
        }
        Poll::Pending
    });
    ended.await
}

/// Returns when the connection must take no more requests. The host stops, the connection is idle for too long or too
/// old, or another one needs its place. The result is how long it may take to close while idle.
async fn last_request(connection: &Connection, started: Instant, stop: &mut StopSignal) -> Duration {
    tokio::select! {
        () = stopping(connection, stop) => CLOSE_GRACE,
        grace = idle(connection) => grace,
        () = tokio::time::sleep_until(started + connection.ingress.max_connection_age) => CLOSE_GRACE,
    }
}

/// Returns when the connection was idle for too long or is evicted, with the time that it may take to close.
async fn idle(connection: &Connection) -> Duration {
    let first = connection.requests_after(0);
    match in_time(connection, HEAD_TIMEOUT, first).await {
        Ok(()) => {}
        Err(TooLate::Timeout) => return CLOSE_GRACE,
        Err(TooLate::Evicted) => return MAKE_ROOM_GRACE,
    }
    loop {
        let requests = connection.requests();
        tokio::time::sleep(BUFFERS_KEPT).await;
        if !connection.is_idle() || connection.requests() != requests {
            continue;
        }
        let mut idle = connection.await_client();
        tokio::select! {
            () = connection.requests_after(requests) => {}
            () = tokio::time::sleep(connection.ingress.keep_alive.timeout) => return CLOSE_GRACE,
            () = idle.evicted() => return MAKE_ROOM_GRACE,
        }
    }
}

/// Runs each stream as a task, and resets it if its client is too slow.
#[derive(Clone)]
struct StreamExecutor(Arc<Connection>);

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let flow = Arc::new(BodyProgress::default());
        let connection = self.0.clone();
        let mut monitor = MinRateMonitor::new(connection.ingress.drain);
        tokio::spawn(async move {
            let mut stream = pin!(STREAM_FLOW.scope(flow.clone(), stream));
            let slow = poll_fn(|cx| match stream.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => monitor.poll(&flow, &*flow, cx).map(Some),
            });
            // hyper resets a stream whose future is dropped.
            if let Some(reason) = slow.await {
                connection.log_slow_reader(&flow, reason);
            }
        });
    }
}
