//! One client's connection: TLS or not, HTTP/1.1 or HTTP/2, within limits.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use crate::application::Application;
use crate::ingress::{Accepted, Ingress, Peer};
use crate::stop::StopSignal;

/// A client must send the head of a request within this time, and the first request of a connection
/// too: until the protocol of the connection is known, no other timeout runs.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A client must complete the TLS handshake within this time.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A stopping host waits this long for the first request of a connection that it has accepted.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// The largest head of a request, in bytes, and the most headers in it.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

/// HTTP/2: concurrent requests on one connection, and streams that a client may open and reset
/// before hyper closes the connection.
const MAX_STREAMS: u32 = 100;
const MAX_RESET_STREAMS: usize = 20;

/// HTTP/2: how often a client is pinged, and how long it may take to answer before it counts as gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves a connection until it ends, or until the host stops and has answered its requests.
pub async fn serve(application: &Arc<Application>, shard: usize, accepted: Accepted, mut stop: StopSignal) {
    let Accepted { stream, peer, ingress, permits: _permits } = accepted;
    let stream = match tokio::net::TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(%error, "cannot serve a connection");
            return;
        }
    };
    let Some(certificates) = &ingress.certificates else {
        return serve_http(application, shard, stream, Peer::new(peer, &ingress), &ingress, stop).await;
    };
    let handshake = TlsAcceptor::from(certificates.current()).accept(stream);
    let outcome = tokio::select! {
        outcome = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake) => outcome,
        () = async {
            let _ = stop.wait_for(Option::is_some).await;
            tokio::time::sleep(FIRST_REQUEST_GRACE).await;
        } => return,
    };
    match outcome {
        Ok(Ok(stream)) => serve_http(application, shard, stream, Peer::new(peer, &ingress), &ingress, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn serve_http(
    application: &Arc<Application>,
    shard: usize,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    peer: Peer,
    ingress: &Arc<Ingress>,
    mut stop: StopSignal,
) {
    // One reference count for all three, in memory that only this shard touches.
    let shared = Arc::new((application.clone(), peer, ingress.clone()));
    let (has_request, first_request) = (AtomicBool::new(false), Notify::new());
    let service = service_fn(|request: hyper::Request<Incoming>| {
        if !has_request.load(Ordering::Relaxed) && !has_request.swap(true, Ordering::Relaxed) {
            first_request.notify_one();
        }
        let shared = shared.clone();
        async move {
            let (application, peer, ingress) = &*shared;
            let mut request = request.map(|body| body.map_err(Into::into).boxed_unsync());
            peer.apply_to(&mut request, ingress);
            let response = application.handle(shard, request).await;
            // The other requests of this shard run before the response is written: the write wakes the
            // client, which may run on the same processor.
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(response)
        }
    });
    let builder = builder();
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let head_timeout = tokio::time::sleep(HEAD_TIMEOUT);
    tokio::pin!(head_timeout);
    let stopping = async {
        // An error means that the host was dropped, which is a stop as well.
        let _ = stop.wait_for(Option::is_some).await;
        if !has_request.load(Ordering::Relaxed) {
            let _ = tokio::time::timeout(FIRST_REQUEST_GRACE, first_request.notified()).await;
        }
    };
    tokio::pin!(stopping);
    let mut stopped = false;
    let outcome = loop {
        tokio::select! {
            outcome = connection.as_mut() => break outcome,
            () = &mut head_timeout, if !has_request.load(Ordering::Relaxed) => {
                // The condition of this branch was evaluated before the wait.
                if !has_request.load(Ordering::Relaxed) {
                    return;
                }
            }
            () = &mut stopping, if !stopped => {
                stopped = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    if let Err(error) = outcome {
        // As a rule the client closed the connection or did not send HTTP.
        tracing::debug!(%error, "a connection ended early");
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_header_list_size(MAX_HEAD_BYTES as u32)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}
