//! A running application: starts its parts, and stops them in order.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::watch;

use crate::acceptor::{self, Acceptor};
use crate::admin::{Access, Admin, HostState};
use crate::application::{Application, RouteTarget};
use crate::body::ResponseBody;
use crate::component::{Artifact, Generation, LoadError, Slot};
use crate::deploy::{self, Deployer, Deployments, InitialComponent, Policy, RecordError, Supervisor};
use crate::imports::outbound::{self, Network, Outbound, TlsError};
use crate::ingress::{Ingress, IngressOptions};
use crate::maintenance::{Maintainer, MaintenanceError, Task};
use crate::manifest::{Component, Manifest};
use crate::metrics::Metrics;
use crate::response_cache::{CacheCounters, ResponseCache};
use crate::router::{RouteError, Router};
use crate::runtime::Runtime;
use crate::shard::{self, Shard};
use crate::stop::StopDeadline;
use crate::store::Backend;
use crate::store::sqlite::{self, OpenError, Sqlite};
use crate::trace::{Export, TraceError, Tracer};

/// How long the last spans may take to reach the collector when the host stops.
const LAST_SPANS_TIMEOUT: Duration = Duration::from_secs(5);

/// How a host is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory. The host makes it if it is missing, and locks it.
    pub data: PathBuf,
    /// Shards, each a thread.
    pub threads: NonZeroUsize,
    pub store: sqlite::Options,
    pub outbound: outbound::Options,
    /// Swap in a component whenever the manifest's source of it changes.
    pub watch: bool,
    /// The collector of traces; `None` for no traces.
    pub traces: Option<Export>,
    /// Decides which components may be served.
    pub policy: Policy,
}

impl Options {
    /// The defaults: a thread for each processor.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            data: data.into(),
            threads,
            store: sqlite::Options::default(),
            outbound: outbound::Options::default(),
            watch: false,
            traces: None,
            policy: Policy::default(),
        }
    }
}

/// Why a host does not start: a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the manifest {manifest} cannot be used: {source}")]
    Routes { manifest: PathBuf, source: RouteError },
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error("cannot restore what was swapped in from the backup: {0}; free space in the data folder, and start again")]
    Restore(io::Error),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Component(#[from] LoadError),
    #[error(transparent)]
    Outbound(#[from] TlsError),
    #[error(transparent)]
    Traces(#[from] TraceError),
    #[error("the system has no randomness: {0}")]
    Randomness(#[from] getrandom::Error),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A running application. Dropping it stops it at once; [`Host::stop`] lets requests under way finish.
pub struct Host {
    application: Arc<Application>,
    shards: Arc<Vec<Shard>>,
    acceptors: Vec<Acceptor>,
    stop: watch::Sender<StopDeadline>,
    deployer: Arc<Deployer>,
    supervisor: Option<Supervisor>,
    maintainer: Option<Maintainer>,
    admin: Option<Admin>,
    data: PathBuf,
    runtime: Arc<Runtime>,
    store: Sqlite,
}

impl Host {
    /// Opens the store, loads and checks every component, and starts the shards.
    ///
    /// It blocks: for milliseconds when the compiled code is in the runtime's cache, for seconds
    /// when it is not.
    pub fn start(runtime: &Arc<Runtime>, manifest: Manifest, options: &Options) -> Result<Self, StartError> {
        let Manifest { path, components, routes, .. } = manifest;
        let position = |id: &str| components.iter().position(|component| component.id == id);
        let routes = routes.into_iter().filter_map(|route| {
            let slot = position(&route.component)?;
            Some((route.pattern.clone(), RouteTarget { slot, route: route.pattern }))
        });
        let router = Router::new(routes).map_err(|source| StartError::Routes { manifest: path, source })?;

        let store = Sqlite::open(&options.data, &options.store)?;
        let backends: Vec<Arc<dyn Backend>> =
            (0..options.threads.get()).map(|_| store.backend()).collect::<Result<_, _>>()?;
        store
            .restore_attachments(|files| deploy::restore_deployed(&options.data, files))?
            .map_err(StartError::Restore)?;
        let mut files = Deployments::open(&options.data, options.policy.clone())?;
        let mut chosen = Vec::with_capacity(components.len());
        for component in components {
            let (id, path) = (component.id.clone(), component.source.clone());
            let wasm = files.choose(&component)?.map_err(|source| LoadError::Unreadable { id, path, source })?;
            chosen.push((Arc::new(component), wasm));
        }
        // A component's check may have read a damaged page. Its own error does not name the file.
        let network = network(chosen.iter().map(|(component, _)| component), options)?;
        let slots = load_slots(runtime, chosen, &backends, options, network.as_ref())
            .map_err(|error| store.failure().map_or(error, StartError::Store))?;

        let (events, receiver) = mpsc::channel();
        let tracer = options.traces.as_ref().map(Tracer::new).transpose()?.map(Arc::new);
        let application = Application::new(router, slots, backends, ResponseCache::new()?, tracer, events.clone());
        let application = Arc::new(application);
        if let Some(network) = network {
            let application: Weak<Application> = Arc::downgrade(&application);
            network.connect(application);
        }
        let deployer = Deployer::new(runtime.clone(), application.clone(), files, events);
        let supervisor = Supervisor::start(deployer.clone(), receiver, options.watch).map_err(StartError::Thread)?;
        let (stop, stopped) = watch::channel(None);
        let shards = (0..options.threads.get())
            .map(|index| Shard::start(index, application.clone(), stopped.clone()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(StartError::Thread)?;
        Ok(Self {
            application,
            shards: Arc::new(shards),
            acceptors: Vec::new(),
            stop,
            deployer,
            supervisor: Some(supervisor),
            maintainer: None,
            admin: None,
            data: options.data.clone(),
            runtime: runtime.clone(),
            store,
        })
    }

    /// Handles one request without a socket.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<wasmtime_wasi_http::Error>,
    {
        let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
        let response = shard::handle(&self.shards, request).await;
        response.unwrap_or_else(Application::stopping_response)
    }

    /// Listens on `address` as well, and returns the real address; port 0 stands for any free port.
    pub fn listen(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let ingress = Ingress::new(IngressOptions::default()).map_err(io::Error::other)?;
        self.serve(acceptor::bind(address)?, Arc::new(ingress))
    }

    /// Accepts connections from a listening socket, and returns its address.
    pub fn serve(&mut self, listener: TcpListener, ingress: Arc<Ingress>) -> io::Result<SocketAddr> {
        let acceptor = Acceptor::start(listener, ingress, self.shards.clone(), self.stop.subscribe())?;
        let address = acceptor.address();
        self.acceptors.push(acceptor);
        Ok(address)
    }

    /// Opens the admin listener on `address`, and returns its address and its token. The host makes a
    /// token if none is given.
    pub fn administer(&mut self, address: SocketAddr, token: Option<String>) -> io::Result<Access> {
        // The admin listener must not keep the store open, nor a shard alive.
        let (started, commits) = (Instant::now(), self.store.commit_counter());
        let loads: Vec<_> = self.shards.iter().map(Shard::load_counter).collect();
        let runtime = self.runtime.clone();
        let data = self.data.clone();
        let store_health = self.store.health().clone();
        let health = store_health.clone();
        let state = move || HostState {
            store_failure: health.failure(),
            failed_transactions: health.failed_transactions(),
            commits: commits.load(Ordering::Relaxed),
            started,
            store_bytes: sqlite::size(&data),
            connections: loads.iter().map(|load| load.load(Ordering::Relaxed)).sum(),
            pool: runtime.engine().pooling_allocator_metrics().map(|pool| {
                let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
                (pool.component_instances(), count(pool.memories()), count(pool.stacks()))
            }),
        };
        let (deployer, state) = (self.deployer.clone(), Box::new(state));
        let admin = Admin::start(address, token, &self.data, deployer, state, store_health)?;
        let access = admin.access().clone();
        self.admin = Some(admin);
        Ok(access)
    }

    /// Starts the maintenance that the manifest declares.
    pub fn maintain(&mut self) -> Result<(), MaintenanceError> {
        let mut tasks = Vec::new();
        for slot in self.application.slots() {
            let component = slot.component();
            let Some(maintenance) = component.maintenance.clone() else { continue };
            let target = self.application.slot_at(maintenance.path.path());
            if target.is_none_or(|target| target.component().id != component.id) {
                return Err(MaintenanceError::Misrouted { component: component.id.clone(), path: maintenance.path });
            }
            tasks.push(Task::new(component.id.clone(), maintenance));
        }
        if !tasks.is_empty() {
            self.maintainer = Some(Maintainer::start(tasks, self.shards.clone()).map_err(MaintenanceError::Thread)?);
        }
        Ok(())
    }

    /// Changes the generations of components.
    pub fn deployer(&self) -> &Arc<Deployer> {
        &self.deployer
    }

    /// The slots, in the order of the manifest.
    pub fn slots(&self) -> &[Slot] {
        self.application.slots()
    }

    /// Hits and misses of the response cache.
    pub fn cache_counters(&self) -> &CacheCounters {
        self.application.response_cache().counters()
    }

    /// How many transactions the store has committed since the start.
    pub fn commits(&self) -> u64 {
        self.store.commits()
    }

    /// Says that the host is about to stop, and goes on serving: `/readyz` is false from now on, and
    /// components are not swapped any more.
    pub fn drain(&self) {
        self.deployer.close();
    }

    /// Stops accepting, lets requests under way and the guests that work on after their responses finish
    /// for at most `grace`, and flushes the store. It blocks.
    pub fn stop(mut self, grace: Duration) {
        self.stop_within(grace);
    }

    fn stop_within(&mut self, grace: Duration) {
        self.deployer.close();
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.join();
        }
        // The maintainer holds a reference to the shards, which end below.
        if let Some(maintainer) = self.maintainer.take() {
            maintainer.stop();
        }
        self.stop.send_replace(Some(Instant::now() + grace));
        for acceptor in self.acceptors.drain(..) {
            acceptor.join();
        }
        // The acceptors held the other references to the shards.
        if let Some(shards) = Arc::get_mut(&mut self.shards) {
            for shard in shards.drain(..) {
                shard.join();
            }
        }
        if let Some(tracer) = self.application.tracer() {
            tracer.shutdown(LAST_SPANS_TIMEOUT);
        }
        // Last, so that the operator can watch the host stop.
        if let Some(admin) = self.admin.take() {
            admin.join();
        }
    }
}

/// Loads and checks the chosen code of every component, and makes its slot.
fn load_slots(
    runtime: &Arc<Runtime>,
    chosen: Vec<(Arc<Component>, InitialComponent)>,
    backends: &[Arc<dyn Backend>],
    options: &Options,
    network: Option<&Arc<Network>>,
) -> Result<Vec<Slot>, StartError> {
    let shards = options.threads.get();
    let outbound = chosen.iter().map(|(component, _)| make_outbound(component, network, shards));
    let outbound: Vec<_> = outbound.collect();
    let metrics: Vec<_> = chosen.iter().map(|_| Metrics::new(options.threads.get())).collect();
    // All at once, because compiling, the slowest part, uses one processor for much of its time; on
    // threads, because the caller may be in an asynchronous runtime.
    let loaded = std::thread::scope(|scope| {
        let threads: Vec<_> = chosen
            .iter()
            .zip(&outbound)
            .zip(&metrics)
            .map(|(((component, chosen), outbound), metrics)| {
                scope.spawn(move || {
                    let origin = chosen.origin.display().to_string();
                    let artifact = Artifact { wasm: &chosen.wasm, origin: &origin };
                    Generation::load(runtime, component, &artifact, 1, backends, outbound.as_ref(), metrics)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let mut slots = Vec::with_capacity(chosen.len());
    for ((((component, _), loaded), outbound), metrics) in chosen.into_iter().zip(loaded).zip(outbound).zip(metrics) {
        let generation = loaded.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        slots.push(Slot::new(component, generation, outbound, metrics));
    }
    Ok(slots)
}

/// What the components that may send requests share. If none may, no certificate is read.
fn network<'a>(
    mut components: impl Iterator<Item = &'a Arc<Component>>,
    options: &Options,
) -> Result<Option<Arc<Network>>, TlsError> {
    match components.all(|component| component.allowed_hosts.is_empty()) {
        true => Ok(None),
        false => Ok(Some(Arc::new(Network::new(&options.outbound)?))),
    }
}

/// Sends the requests of a component; `None` if it may send none.
fn make_outbound(component: &Component, network: Option<&Arc<Network>>, shards: usize) -> Option<Arc<Outbound>> {
    let network = network.filter(|_| !component.allowed_hosts.is_empty())?;
    let (hosts, limits) = (component.allowed_hosts.clone(), component.limits.outbound.clone());
    Some(Arc::new(Outbound::new(&component.id, hosts, limits, network.clone(), shards)))
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop_within(Duration::ZERO);
    }
}
