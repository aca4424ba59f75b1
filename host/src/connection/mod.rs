//! One client's connection: TLS or not, HTTP/1.1 or HTTP/2, within limits.
//!
//! | module | what it does |
//! |---|---|
//! | `socket` | the socket, and what was read ahead |
//! | `http1`, `http2` | one connection in each version |
//! | `frame_meter` | floods of frames that carry nothing |
//! | `service`, `in_flight` | hands requests on, and counts them |
//! | `client_body` | a response's body on its way to the client |

mod client_body;
mod frame_meter;
mod http1;
mod http2;
mod in_flight;
mod service;
mod socket;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::application::Application;
use crate::ingress::{Accepted, IdleConnection, Peer};
use crate::stop::StopSignal;
use service::Connection;
use socket::ClientSocket;

/// A client must send the head of a request within this time from its first byte, and the first request
/// of a connection within this time from its start.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A client must complete the TLS handshake within this time.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A stopping host waits this long for the first request of a connection that it has accepted.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// The largest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// What a client that knows HTTP/2 sends first (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves a connection until it ends, or until the host stops and has answered its requests.
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
    let upload_window = ingress.connections.upload_window(permits.1.as_ref());
    let started = Instant::now();
    let peer = Peer::new(peer, &ingress);
    let connection = Arc::new(Connection::new(application.clone(), shard, peer, ingress, socket, upload_window));
    let Some(certificates) = &connection.ingress.certificates else {
        return serve_http(&connection, stream, started, stop).await;
    };
    // In a box, because a connection that has agreed on its keys needs no room for it.
    let handshake = Box::pin(TlsAcceptor::from(certificates.current()).accept(stream));
    let outcome = tokio::select! {
        outcome = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake) => outcome,
        () = first_request_grace(&mut stop) => return,
    };
    match outcome {
        Ok(Ok(stream)) => Box::pin(serve_http(&connection, stream, started, stop)).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// What a client has sent at the start of a connection or of a request.
enum Start {
    Http1(Bytes),
    Http2(Bytes),
    /// It closed the connection, or took too long; or the host stops, or makes room for another client.
    Ended,
}

async fn serve_http<S>(connection: &Arc<Connection>, mut stream: S, started: Instant, mut stop: StopSignal)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut start = {
        let deadline = Instant::now() + HEAD_TIMEOUT;
        tokio::select! {
            start = tokio::time::timeout_at(deadline, read_preface(&mut stream)) => start.unwrap_or(Start::Ended),
            () = first_request_grace(&mut stop) => Start::Ended,
        }
    };
    loop {
        // In boxes: a connection that waits for the next request takes little memory.
        let idle = match start {
            Start::Http1(read) => Box::pin(http1::serve(connection, stream, read, &mut stop)).await,
            Start::Http2(read) => {
                return Box::pin(http2::serve(connection, stream, read, started, &mut stop)).await;
            }
            Start::Ended => return,
        };
        match idle {
            Some(idle) => {
                stream = idle.stream;
                start = match idle.read {
                    Some(read) => Start::Http1(read),
                    None => {
                        let deadline = idle.since + connection.ingress.keep_alive.timeout;
                        let mut idle = connection.ingress.idle.enter();
                        wait_for_next(&mut stream, deadline, &mut idle, &mut stop).await
                    }
                };
            }
            None => return,
        }
    }
}

/// Reads until it is known whether the client speaks HTTP/2.
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

/// Waits for the first byte of another request, with no more memory than that needs.
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

/// Returns some time after the host began to stop.
async fn first_request_grace(stop: &mut StopSignal) {
    // An error means that the host was dropped, which is a stop as well.
    let _ = stop.wait_for(Option::is_some).await;
    tokio::time::sleep(FIRST_REQUEST_GRACE).await;
}

/// Returns when the connection must take no more requests, because the host stops.
async fn stopping(connection: &Connection, stop: &mut StopSignal) {
    let _ = stop.wait_for(Option::is_some).await;
    let _ = tokio::time::timeout(FIRST_REQUEST_GRACE, connection.first_request()).await;
}
