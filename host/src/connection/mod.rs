//! One client's connection: TLS or not, HTTP/1.1 or HTTP/2, within limits.
//!
//! | module | what it does |
//! |---|---|
//! | `socket` | the socket, and the bytes that were read ahead |
//! | `http1`, `http2` | one connection in each version |
//! | `frame_meter` | floods of empty frames and of resets |
//! | `cancellations` | requests that a proxy's clients cancel over HTTP/2 |
//! | `linger` | the end of a connection whose client may still send |
//! | `service`, `in_flight` | hands requests to the application, and counts them |
//! | `client_body` | a response's body on its way to the client |

mod cancellations;
mod client_body;
mod frame_meter;
mod http1;
mod http2;
mod in_flight;
mod linger;
mod service;
mod socket;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::application::Application;
use crate::balance::{Balance, Handover};
use crate::ingress::{Accepted, ConnectionPermits, HTTP2, IdleConnection, Peer};
use crate::serving_threads::StopSignal;
use service::Connection;
use socket::{ClientSocket, ClientStream};

/// A client must send a request's head within this time from its first byte, and a connection's first request within
/// this time from its start.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// When a handshake or a head takes longer than this, the connection may have to close for another one.
const TIME_TO_SEND: Duration = Duration::from_millis(250);

/// The longest pause in the body of an answered request. The host drains a body that the component has dropped faster
/// than this. But a component may also keep a body and not read it.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// How long an idle connection keeps the buffers of its last request; until then it is not evictable. New buffers cost
/// as much as some reads of the store. Ten thousand clients that connect at once must not all have buffers.
const BUFFERS_KEPT: Duration = Duration::from_millis(200);

/// A client must complete the TLS handshake within this time.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A stopping host waits this long for the first request of a connection that it has accepted.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// The most fields of a head. Each takes memory of its own, and over HTTP/2 as little as one byte on the wire.
const MAX_HEADERS: usize = 100;

/// The first bytes of a client that speaks HTTP/2 (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves a connection until it ends, moves to another shard, or the host stops and has answered its requests. `place`
/// is the balance of the shards, and the shard that serves it.
pub async fn serve(
    application: &Arc<Application>,
    place: (Arc<Balance>, usize),
    accepted: Accepted,
    mut stop: StopSignal,
) {
    let Accepted { stream, peer, ingress, permits } = accepted;
    let (stream, socket) = match tokio::net::TcpStream::from_std(stream) {
        Ok(stream) => ClientSocket::new(stream),
        Err(error) => {
            tracing::warn!(%error, "cannot serve a connection");
            return;
        }
    };
    socket.limit_unsent();
    let receive_bounds = ingress.connections.receive_bounds(permits.1.as_ref());
    let started = Instant::now();
    let peer = Peer::new(peer, &ingress);
    let connection = Arc::new(Connection::new(application.clone(), place, peer, ingress, socket, receive_bounds));
    let Some(certificates) = &connection.ingress.certificates else {
        return serve_from_start(Served { connection, stream, started, permits, stop }, false).await;
    };
    // Boxed: after the handshake, the connection needs no room for this future.
    let handshake = Box::pin(TlsAcceptor::from(certificates.current()).accept(stream));
    let outcome = tokio::select! {
        outcome = in_time(&connection, HANDSHAKE_TIMEOUT, handshake) => outcome,
        () = first_request_grace(&mut stop) => return,
    };
    match outcome {
        Ok(Ok(stream)) => {
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
            Box::pin(serve_from_start(Served { connection, stream, started, permits, stop }, is_http2)).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(TooLate::Timeout) => tracing::debug!("a TLS handshake took too long"),
        Err(TooLate::Evicted) => tracing::debug!("a connection was closed for another during its TLS handshake"),
    }
}

/// A connection after its TLS handshake, if it has one.
struct Served<S> {
    connection: Arc<Connection>,
    stream: S,
    started: Instant,
    permits: ConnectionPermits,
    stop: StopSignal,
}

/// The state of a connection between two requests.
enum Start {
    /// The client has sent these bytes of a request.
    Http1(Bytes),
    Http2(Bytes),
    /// The client has sent nothing since then.
    Idle(Instant),
    /// The client closed the connection or took too long, the host stops, or another client needs the place.
    Ended,
}

/// `is_http2`: ALPN chose HTTP/2, so that anything else is an error of the connection.
async fn serve_from_start<S: ClientStream>(mut served: Served<S>, is_http2: bool) {
    let start = {
        let preface = read_preface(&mut served.stream);
        tokio::select! {
            start = in_time(&served.connection, HEAD_TIMEOUT, preface) => start.unwrap_or(Start::Ended),
            () = first_request_grace(&mut served.stop) => Start::Ended,
        }
    };
    let start = match start {
        Start::Http1(read) if is_http2 => Start::Http2(read),
        start => start,
    };
    serve_from(start, served).await;
}

async fn serve_from<S: ClientStream>(mut start: Start, served: Served<S>) {
    let Served { connection, mut stream, started, permits, mut stop } = served;
    loop {
        let next = match start {
            Start::Http1(_) | Start::Idle(_) => connection.next_shard(),
            Start::Http2(_) => connection.shard_for_good(),
            Start::Ended => None,
        };
        if let Some(shard) = next {
            return hand_over(shard, start, Served { connection, stream, started, permits, stop }).await;
        }
        // Boxed: a connection that waits for its next request takes little memory.
        start = match start {
            Start::Http1(read) => match Box::pin(http1::serve(&connection, stream, read, &mut stop)).await {
                Some(idle) => {
                    stream = idle.stream;
                    idle.read.map_or(Start::Idle(idle.since), Start::Http1)
                }
                None => return,
            },
            Start::Idle(since) => {
                let deadline = since + connection.ingress.keep_alive.timeout;
                let mut idle = connection.await_client();
                wait_for_next(&mut stream, deadline, &mut idle, &mut stop).await
            }
            Start::Http2(read) => {
                return Box::pin(http2::serve(&connection, stream, read, started, &mut stop)).await;
            }
            Start::Ended => return,
        };
    }
}

async fn hand_over<S: ClientStream>(shard: usize, start: Start, mut served: Served<S>) {
    let connection = served.connection.clone();
    if let Err(error) = served.stream.socket().detach() {
        return log_lost(&error);
    }
    let handover = Handover::new(move |shard| resume(shard, start, served));
    if let Err(handover) = connection.balance().hand_over(shard, handover) {
        // The other shard has stopped.
        handover.resume(connection.shard()).await;
    }
}

fn resume<S: ClientStream>(shard: usize, start: Start, mut served: Served<S>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        if let Err(error) = served.stream.socket().attach() {
            return log_lost(&error);
        }
        served.connection.set_shard(shard);
        serve_from(start, served).await;
    })
}

fn log_lost(error: &io::Error) {
    tracing::warn!(%error, "a connection was lost on its way to another thread");
}

/// Why the host stopped waiting for a client.
enum TooLate {
    Timeout,
    /// Another connection needs the place.
    Evicted,
}

/// Waits for data that the client has to send within `timeout`. After `TIME_TO_SEND`, the connection may have to close
/// for another one.
async fn in_time<T>(connection: &Connection, timeout: Duration, sent: impl Future<Output = T>) -> Result<T, TooLate> {
    let deadline = Instant::now() + timeout;
    let mut sent = pin!(sent);
    if let Ok(sent) = tokio::time::timeout(TIME_TO_SEND, sent.as_mut()).await {
        return Ok(sent);
    }
    let mut idle = connection.await_client();
    tokio::select! {
        sent = tokio::time::timeout_at(deadline, sent) => sent.map_err(|_| TooLate::Timeout),
        () = idle.evicted() => Err(TooLate::Evicted),
    }
}

/// Reads until the bytes show whether the client speaks HTTP/2.
async fn read_preface(stream: &mut (impl AsyncRead + Unpin)) -> Start {
    let mut bytes = [0; HTTP2_PREFACE.len()];
    let mut length = 0;
    while let Some(free) = bytes.get_mut(length..).filter(|free| !free.is_empty()) {
        match stream.read(free).await {
            Ok(0) | Err(_) if length == 0 => return Start::Ended,
            Ok(0) | Err(_) => break,
            Ok(read) => length += read,
        }
        if bytes.get(..length) != HTTP2_PREFACE.get(..length) {
            break;
        }
    }
    let is_http2 = bytes == *HTTP2_PREFACE;
    let read = Bytes::copy_from_slice(bytes.get(..length).unwrap_or_default());
    if is_http2 { Start::Http2(read) } else { Start::Http1(read) }
}

/// Waits for the first byte of the next request, with a buffer of one byte.
async fn wait_for_next(
    stream: &mut (impl AsyncRead + Unpin),
    deadline: Instant,
    idle: &mut IdleConnection<'_>,
    stop: &mut StopSignal,
) -> Start {
    let mut first = [0; 1];
    tokio::select! {
        read = tokio::time::timeout_at(deadline, stream.read(&mut first)) => match read {
            Ok(Ok(1)) => Start::Http1(Bytes::copy_from_slice(&first)),
            _ => Start::Ended,
        },
        () = idle.evicted() => Start::Ended,
        _ = stop.wait_for(Option::is_some) => Start::Ended,
    }
}

/// Returns `FIRST_REQUEST_GRACE` after the host began to stop.
async fn first_request_grace(stop: &mut StopSignal) {
    // An error means that the host was dropped, which is a stop too.
    let _ = stop.wait_for(Option::is_some).await;
    tokio::time::sleep(FIRST_REQUEST_GRACE).await;
}

/// Returns when the connection must take no more requests, because the host stops.
async fn stopping(connection: &Connection, stop: &mut StopSignal) {
    let _ = stop.wait_for(Option::is_some).await;
    let _ = tokio::time::timeout(FIRST_REQUEST_GRACE, connection.requests_after(0)).await;
}
