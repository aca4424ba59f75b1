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
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

use crate::application::Application;
use crate::ingress::{Accepted, Ingress, Peer};
use crate::shard::Stop;

/// A request's head must be there within this time, and a connection's first request too: until
/// it is known which protocol the client speaks, no other timeout runs.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A client must agree on keys within this time.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A host that stops still hears out who has connected and is about to ask.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes of a request's head, and headers in it.
const HEAD_BYTES: usize = 64 * 1024;
const HEADERS: usize = 100;

/// HTTP/2: requests at once on one connection, and streams that a client may open and reset
/// before it counts as an attack.
const STREAMS: u32 = 100;
const RESET_STREAMS: usize = 20;

/// HTTP/2: a client that does not answer a ping is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves a connection until it ends, or until the host stops and its requests are answered.
pub async fn serve(application: &Arc<Application>, shard: usize, accepted: Accepted, mut stop: watch::Receiver<Stop>) {
    let Accepted { stream, peer, ingress, permits: _permits } = accepted;
    let stream = match tokio::net::TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(%error, "cannot serve a connection");
            return;
        }
    };
    let Some(certificates) = &ingress.certificates else {
        return talk(application, shard, stream, Peer::new(peer, &ingress), &ingress, stop).await;
    };
    let handshake = TlsAcceptor::from(certificates.current()).accept(stream);
    let agreed = tokio::select! {
        agreed = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake) => agreed,
        () = async {
            let _ = stop.wait_for(Option::is_some).await;
            tokio::time::sleep(LINGER).await;
        } => return,
    };
    match agreed {
        Ok(Ok(stream)) => talk(application, shard, stream, Peer::new(peer, &ingress), &ingress, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "no TLS with a client"),
        Err(_) => tracing::debug!("a client was too slow in agreeing on TLS"),
    }
}

async fn talk(
    application: &Arc<Application>,
    shard: usize,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    peer: Peer,
    ingress: &Arc<Ingress>,
    mut stop: watch::Receiver<Stop>,
) {
    // Together, so that a request counts one owner more, in memory of its own shard.
    let all = Arc::new((application.clone(), peer, ingress.clone()));
    let (spoken, heard) = (AtomicBool::new(false), Notify::new());
    let service = service_fn(|request: hyper::Request<Incoming>| {
        if !spoken.load(Ordering::Relaxed) && !spoken.swap(true, Ordering::Relaxed) {
            heard.notify_one();
        }
        let all = all.clone();
        async move {
            let (application, peer, ingress) = &*all;
            let mut request = request.map(|body| body.map_err(Into::into).boxed_unsync());
            peer.apply_to(&mut request, ingress);
            let response = application.answer(shard, request).await;
            // Whoever else is to be answered comes first, and then all answers go out: a write wakes a
            // client, which may well take the processor from those who are still to be answered.
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(response)
        }
    });
    let builder = builder();
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let silence = tokio::time::sleep(HEAD_TIMEOUT);
    tokio::pin!(silence);
    let stopping = async {
        // An error means that the host is gone, which is a stop as well.
        let _ = stop.wait_for(Option::is_some).await;
        if !spoken.load(Ordering::Relaxed) {
            let _ = tokio::time::timeout(LINGER, heard.notified()).await;
        }
    };
    tokio::pin!(stopping);
    let mut stopped = false;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            () = &mut silence, if !spoken.load(Ordering::Relaxed) => {
                // The guard is read when the wait begins, so the request may have come since.
                if !spoken.load(Ordering::Relaxed) {
                    return;
                }
            }
            () = &mut stopping, if !stopped => {
                stopped = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    if let Err(error) = ended {
        // The client's doing, as a rule: it went away or spoke no HTTP.
        tracing::debug!(%error, "a connection ended early");
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(RESET_STREAMS)
        .max_header_list_size(HEAD_BYTES as u32)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}
