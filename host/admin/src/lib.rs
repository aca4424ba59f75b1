//! The operator's listener: status, metrics, and deployments of components. It is meant for the
//! loopback interface, and all but the health checks need a token.
//!
//! | method and path | what |
//! |---|---|
//! | GET `/healthz` | 200 while the process lives; without a token |
//! | GET `/readyz` | 200 while it takes requests; 503 with the reason while it stops, while the store cannot do its work, when a thread that serves clients has ended, or while it cannot serve the same components as the other hosts of the store; without a token |
//! | GET `/metrics` | the metrics as OpenMetrics text |
//! | GET `/status` | `host`, a [`HostStatus`], and `components`, as the next |
//! | GET `/components`, `/components/<id>` | [`component_status::ComponentStatus`] |
//! | PUT `/components/<id>` | swap in the component that is the body; with `?percent=5` as a canary, with `?without=HOST` without asking that host |
//! | POST `/sign-in-codes` | a code with which a browser begins a session at [`operator`]'s pages, once and within five minutes |
//! | POST `/components/<id>/rollback`, `/promote` | end the trial of a canary; without one, a rollback restores the previous revision |
//!
//! HEAD is as GET, without a body.
//!
//! Pages for a browser are below `/operator` ([`operator`]). They need a session instead of the token.
//!
//! It has a thread and a runtime of its own, so that it responds while the shards are busy.

mod access;
mod api;
mod component_status;
mod connections;
mod context;
mod deployment;
pub mod entry_page;
mod exposition;
mod history;
mod host_metrics;
mod host_status;
mod operator;
mod response;
mod route;
mod sessions;
mod upload;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hexad_http::origin::client_network;
use hexad_runtime::acceptor;
use hexad_support::log_throttle::LogThrottle;
use hexad_support::random;
use hexad_support::serving_threads::survive;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use access::{AccessError, AdminAccess};
use access::{Publisher, TokenVerifier};
use api::AdminApi;
pub use component_status::{CanaryStatus, ComponentStatistics, ComponentStatus, RevisionStatus};
pub use connections::ConnectionBounds;
use connections::Connections;
use context::AdminContext;
use deployment::{DeploymentThreads, MAX_DEPLOYMENTS};
use history::{History, SAMPLE_PERIOD};
pub use host_status::{
    AnonymousWorkStatus, CertificateProblemStatus, FleetHostStatus, HostStatus, HostStatusReader, MemoryStatus,
    ReloadStatus, StoreProblemStatus,
};
use operator::OperatorPages;
use sessions::Sessions;

/// Threads for short work that blocks, beside those of deployments.
const OTHER_THREADS: usize = 2;

/// How long the responses under way may take when the listener ends.
const LAST_RESPONSES: Duration = Duration::from_secs(1);

/// The timeout of a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a generated token.
const TOKEN_BYTES: usize = 32;

/// The listener and its thread.
pub struct Admin {
    access: AdminAccess,
    stop: oneshot::Sender<Instant>,
    thread: JoinHandle<()>,
}

/// How the listener is opened.
pub struct AdminOptions {
    /// Port 0 stands for any free one.
    pub address: SocketAddr,
    /// Without one, a token is generated.
    pub token: Option<String>,
    pub connections: ConnectionBounds,
    pub old_metric_names: bool,
}

impl Admin {
    /// Listens, and publishes the address in the data folder.
    pub fn start(options: AdminOptions, data: &Path, host: HostStatusReader) -> io::Result<Self> {
        let AdminOptions { address, token, connections: bounds, old_metric_names } = options;
        let token = token.map_or_else(|| random::token(TOKEN_BYTES), Ok)?;
        let listener = acceptor::bind(address)?;
        listener.set_nonblocking(true)?;
        let listening = listener.local_addr()?;
        let access = AdminAccess { url: format!("http://{listening}"), token };
        if !address.ip().is_loopback() {
            tracing::warn!(
                %address,
                "other machines can reach the admin listener, and its token is sent to it without encryption; \
                 listen on the loopback interface and put a proxy with TLS before it"
            );
        }
        let verifier = TokenVerifier::new(&access.token);
        let context = Arc::new(AdminContext {
            verifier,
            host,
            deployment_threads: DeploymentThreads::default(),
            history: History::default(),
            sessions: Sessions::default(),
            old_metric_names,
        });
        let mut publisher = Publisher::new(access.clone(), data);
        publisher.publish();
        // The first sample is taken before the first request.
        context.history.add(context.sample());
        let pages = OperatorPages::new(context.clone(), listening.port());
        let api = Arc::new(AdminApi { context: context.clone(), pages });
        let runtime = new_runtime()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
            let (connections, stopping) = (TaskTracker::new(), CancellationToken::new());
            let serve = || {
                runtime.block_on(async {
                    let stop_at = tokio::select! {
                        ended = accept((listener, bounds), api, &connections, &stopping) => {
                            if let Err(error) = ended {
                                tracing::error!(%error, "the admin listener ended");
                            }
                            Instant::now()
                        }
                        () = sample(&context) => Instant::now(),
                        () = publisher.keep_trying() => Instant::now(),
                        // An error means that the host was dropped.
                        stop_at = stopped => stop_at.unwrap_or_else(|_| Instant::now()),
                    };
                    // Deployments that were refused because of the stop get their responses.
                    stopping.cancel();
                    connections.close();
                    let _ = timeout_at(stop_at.min(Instant::now() + LAST_RESPONSES), connections.wait()).await;
                    stop_at
                })
            };
            let end = survive("admin", serve).unwrap_or_else(|| {
                context.host.threads.record_turn("admin", false);
                Instant::now()
            });
            // Waits for deployments under way, so that none is cut off while its record is written.
            runtime.shutdown_timeout(end.saturating_duration_since(Instant::now()));
        })?;
        Ok(Self { access, stop, thread })
    }

    /// The listener's address and token.
    pub fn access(&self) -> &AdminAccess {
        &self.access
    }

    /// Ends the listener. It waits for deployments under way, at most until the deadline.
    pub fn join(self, deadline: std::time::Instant) {
        let _ = self.stop.send(deadline.into());
        if self.thread.join().is_err() {
            tracing::error!("the admin listener panicked");
        }
    }
}

fn new_runtime() -> io::Result<Runtime> {
    let threads = MAX_DEPLOYMENTS + OTHER_THREADS;
    tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(threads).build()
}

/// Keeps the counts of the last 15 minutes.
async fn sample(context: &AdminContext) {
    let mut ticks = interval_at(Instant::now() + SAMPLE_PERIOD, SAMPLE_PERIOD);
    // After a pause of the machine, one sample is enough.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        context.history.add(context.sample());
    }
}

async fn accept(
    (listener, bounds): (std::net::TcpListener, ConnectionBounds),
    api: Arc<AdminApi>,
    tasks: &TaskTracker,
    stopping: &CancellationToken,
) -> io::Result<()> {
    /// The wait after a failed accept, for example because there are no descriptors left.
    const BACK_OFF: Duration = Duration::from_millis(100);
    let listener = TcpListener::from_std(listener)?;
    let (connections, throttle) = (Connections::new(bounds), LogThrottle::new(1, 3));
    loop {
        // Other connections wait in the socket's queue.
        let place = connections.make_place().await;
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(suppressed) = throttle.pass() {
                    tracing::warn!(%error, suppressed, "the admin listener cannot accept a connection");
                }
                tokio::time::sleep(BACK_OFF).await;
                continue;
            }
        };
        let api = api.clone();
        let (connection, mut evicted) = connections.admit(client_network(peer.ip()), std::time::Instant::now());
        let stopping = stopping.clone();
        tasks.spawn(async move {
            // Dropped after the socket.
            let _place = place;
            let stream = stream;
            let mut first = [0];
            let has_begun = tokio::select! {
                peeked = timeout(HEAD_TIMEOUT, stream.peek(&mut first)) => matches!(peeked, Ok(Ok(1..))),
                _ = &mut evicted => false,
                () = stopping.cancelled() => false,
            };
            if !has_begun {
                return;
            }
            connection.begin();
            let service = service_fn(|request| {
                let (api, connection) = (api.clone(), &connection);
                async move { Ok::<_, Infallible>(api.handle(connection, request).await) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            let mut served = std::pin::pin!(served);
            let ended = tokio::select! {
                ended = served.as_mut() => ended,
                Ok(()) = evicted => {
                    tracing::debug!("a connection without the admin token was closed for another");
                    return;
                }
                () = stopping.cancelled() => {
                    served.as_mut().graceful_shutdown();
                    served.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection to the admin listener ended early");
            }
        });
    }
}
