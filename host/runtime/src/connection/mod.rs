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
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hexad_support::serving_threads::StopSignal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::application::Application;
use crate::ingress::{Accepted, HTTP2, Peer};

use service::Connection;
use socket::ClientSocket;

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

/// Serves a connection on this shard until it ends, or the host stops and has answered its requests.
pub async fn serve(application: &Arc<Application>, shard: usize, accepted: Accepted, mut stop: StopSignal) {
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
    let connection = Arc::new(Connection::new(application.clone(), shard, peer, ingress, socket, receive_bounds));
    let Some(certificates) = &connection.ingress.certificates else {
        return serve_http(&connection, stream, false, started, &mut stop).await;
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
            Box::pin(serve_http(&connection, stream, is_http2, started, &mut stop)).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(TooLate::Timeout) => tracing::debug!("a TLS handshake took too long"),
        Err(TooLate::Evicted) => tracing::debug!("a connection was closed for another during its TLS handshake"),
    }
}

/// Serves a connection after its TLS handshake, if it has one. `is_http2`: ALPN chose HTTP/2, so that anything else is
/// an error of the connection.
async fn serve_http<S>(
    connection: &Arc<Connection>,
    mut stream: S,
    is_http2: bool,
    started: Instant,
    stop: &mut StopSignal,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let first = tokio::select! {
        first = in_time(connection, HEAD_TIMEOUT, read_first(&mut stream)) => first.ok().flatten(),
        () = first_request_grace(stop) => None,
    };
    let Some(mut read) = first else { return };
    // Boxed, here and below: a connection that waits for its next request takes little memory.
    if is_http2 || *read == *HTTP2_PREFACE {
        return Box::pin(http2::serve(connection, stream, read, started, stop)).await;
    }
    while let Some(idle) = Box::pin(http1::serve(connection, stream, read, stop)).await {
        stream = idle.stream;
        let next = match idle.read {
            Some(read) => Some(read),
            None => read_next(connection, &mut stream, idle.since, stop).await,
        };
        let Some(next) = next else { return };
        read = next;
    }
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

/// Reads until the bytes show whether the client speaks HTTP/2. `None` if the client closed the connection first.
async fn read_first(stream: &mut (impl AsyncRead + Unpin)) -> Option<Bytes> {
    let mut bytes = [0; HTTP2_PREFACE.len()];
    let mut length = 0;
    while let Some(free) = bytes.get_mut(length..).filter(|free| !free.is_empty()) {
        match stream.read(free).await {
            Ok(0) | Err(_) if length == 0 => return None,
            Ok(0) | Err(_) => break,
            Ok(read) => length += read,
        }
        if bytes.get(..length) != HTTP2_PREFACE.get(..length) {
            break;
        }
    }
    Some(Bytes::copy_from_slice(bytes.get(..length).unwrap_or_default()))
}

/// Waits for the first byte of the next request, with a buffer of one byte. `None` if the client closed the connection
/// or took too long, the host stops, or another client needs the place.
async fn read_next(
    connection: &Connection,
    stream: &mut (impl AsyncRead + Unpin),
    since: Instant,
    stop: &mut StopSignal,
) -> Option<Bytes> {
    let deadline = since + connection.ingress.keep_alive.timeout;
    let mut idle = connection.await_client();
    let mut first = [0; 1];
    tokio::select! {
        read = tokio::time::timeout_at(deadline, stream.read(&mut first)) => match read {
            Ok(Ok(1)) => Some(Bytes::copy_from_slice(&first)),
            _ => None,
        },
        () = idle.evicted() => None,
        _ = stop.wait_for(Option::is_some) => None,
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
