//! The operator's own listener, apart from the one that clients reach: what is served, how it
//! does, and a way to change it. On the loopback interface and behind a token.
//!
//! | method and path | what |
//! |---|---|
//! | GET `/healthz` | 200 while the process lives; without a token |
//! | GET `/readyz` | 200 while it takes requests, 503 while it stops; without a token |
//! | GET `/metrics` | Prometheus text: OpenMetrics, or the older form if `Accept` asks for `text/plain` |
//! | GET `/status` | `host`, its [`figures::Host`], and `components`, as the next |
//! | GET `/components`, `/components/<id>` | what is served: [`view::Component`] |
//! | PUT `/components/<id>` | swap in the component that is the body; with `?percent=5` as a canary |
//! | POST `/components/<id>/rollback`, `/promote` | end a canary; go back to what served before |
//!
//! A thread and a runtime of its own: it answers while the shards are busy, and takes nothing
//! from them.

mod access;
mod api;
mod exposition;
mod figures;
mod host_state;
mod prometheus_text;
mod route;
mod view;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};

use crate::deploy::Deployer;
use crate::random;
pub use access::{Access, AccessError};
use access::{Announced, Guard};
use api::{Api, Figures};
pub use figures::{Figures as ComponentFigures, Host as HostFigures};
pub use host_state::HostState;

/// Connections at once. An operator and a scraper need a few.
const CONNECTIONS: usize = 64;

/// Changes at once; they wait for each other anyway.
const CHANGES: usize = 8;

/// A request's head must be there within this time.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a token that the host makes.
const TOKEN_BYTES: usize = 32;

/// The listener and its thread.
pub struct Admin {
    access: Access,
    _announced: Announced,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Admin {
    /// Binds `address` (port 0: any free one) and tells of it in the data folder. Without a
    /// `token` one is made. `figures` is asked at each look.
    pub fn start(
        address: SocketAddr,
        token: Option<String>,
        data: &Path,
        deployer: Arc<Deployer>,
        figures: Figures,
    ) -> io::Result<Self> {
        let token = token.map_or_else(|| random::token(TOKEN_BYTES), Ok)?;
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let access = Access { url: format!("http://{}", listener.local_addr()?), token };
        let api = Arc::new(Api { guard: Guard::new(&access.token), deployer, figures });
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(CHANGES).build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    ended = accept(listener, api) => if let Err(error) = ended {
                        tracing::error!(%error, "the admin listener ended");
                    },
                    _ = stopped => {}
                }
            });
            // Waits for changes under way.
            drop(runtime);
        })?;
        let announced = access.announce(data)?;
        Ok(Self { access, _announced: announced, stop, thread })
    }

    /// Where it is, and its token.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Ends the listener and waits for changes under way.
    pub fn join(self) {
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the admin listener panicked");
        }
    }
}

async fn accept(listener: std::net::TcpListener, api: Arc<Api>) -> io::Result<()> {
    /// How long it waits when no connection can be taken.
    const BACK_OFF: Duration = Duration::from_millis(100);
    let listener = TcpListener::from_std(listener)?;
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Never closed, so there is always one in the end.
        let permit = permits.clone().acquire_owned().await.map_err(io::Error::other)?;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "the admin listener cannot take a connection");
                tokio::time::sleep(BACK_OFF).await;
                continue;
            }
        };
        let api = api.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let api = api.clone();
                async move { Ok::<_, Infallible>(api.answer(request).await) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = served.await {
                tracing::debug!(%error, "a connection to the admin listener ended early");
            }
            drop(permit);
        });
    }
}
