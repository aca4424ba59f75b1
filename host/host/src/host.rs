//! A running application: starts its parts, and stops them in order.

mod background_tasks;
mod options;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hexad_admin::{Admin, AdminAccess, AdminOptions, ConnectionBounds, HostStatusReader};
use hexad_deploy::secrets::{self, Secrets};
use hexad_deploy::{self as deploy, Deployer, Deployments, Fleet, Follower, InitialComponent, Supervisor};
use hexad_engine::Engine;
use hexad_http::body::ResponseBody;
use hexad_http::response_cache::{self, CacheCounters, ResponseCache};
use hexad_imports::outbound::OutboundFactory;
use hexad_limits::instance_permit::{StalledInstances, StalledPermits};
use hexad_limits::memory_budget::{MemoryBudget, MemoryDivision};
use hexad_manifest::{Component, Manifest, sharing_notes};
use hexad_runtime::acceptor::{self, Acceptor};
use hexad_runtime::application::{Application, RouteTarget};
use hexad_runtime::component::{Artifact, ComponentService, LoadContext, LoadError, Revision, Settings};
use hexad_runtime::engine::Runtime;
use hexad_runtime::ingress::{Ingress, IngressOptions};
use hexad_runtime::shard::{self, Shard};
use hexad_store as store;
use hexad_store::Backend;
use hexad_support::private_files;
use hexad_support::serving_threads::{ServingThreads, StopDeadline};
use hexad_telemetry::metrics::Metrics;
use hexad_trace::Tracer;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::watch;

use background_tasks::BackgroundTasks;
pub use background_tasks::Reloader;
pub use options::{HostOptions, StartError};

/// How long the last spans may take to reach the collector when the host stops.
const LAST_SPANS_TIMEOUT: Duration = Duration::from_secs(5);

/// How long each step after the last request may take if requests have used up the grace period.
const LAST_STEPS_TIMEOUT: Duration = Duration::from_secs(1);

/// A running application. Dropping it stops it at once; [`Host::stop`] lets requests under way finish.
pub struct Host {
    application: Arc<Application>,
    shards: Arc<Vec<Shard>>,
    acceptors: Vec<Acceptor>,
    stop: watch::Sender<StopDeadline>,
    deployer: Arc<Deployer>,
    supervisor: Option<Supervisor>,
    /// Set where several hosts share the store.
    follower: Option<Follower>,
    background_tasks: Arc<BackgroundTasks>,
    admin: Option<Admin>,
    admin_connections: ConnectionBounds,
    old_metric_names: bool,
    data: PathBuf,
    runtime: Arc<Runtime>,
    store: Engine,
    memory: (Arc<MemoryBudget>, MemoryDivision),
    /// Limits the stalled instances of all components.
    stalled: Arc<StalledPermits>,
    /// The settings of each listener, without duplicates.
    ingresses: Arc<Mutex<Vec<Arc<Ingress>>>>,
    threads: ServingThreads,
}

impl Host {
    /// Opens the store, loads and checks every component, and starts the shards.
    ///
    /// It blocks: for milliseconds if the runtime's cache has the compiled code, otherwise for seconds.
    pub fn start(runtime: &Arc<Runtime>, manifest: Manifest, options: &HostOptions) -> Result<Self, StartError> {
        let Manifest { path, mut components, routes, former_names, .. } = manifest;
        former_names.iter().for_each(|note| tracing::warn!("{}: {note}", path.display()));
        let position = |id: &str| components.iter().position(|component| component.id == id);
        let router = RouteTarget::router(routes, position)
            .map_err(|source| StartError::Routes { manifest: path.clone(), source })?;

        let caches =
            response_cache::MAX_BYTES.saturating_add(store::NEAR_CACHE_BYTES.saturating_mul(options.threads.get()));
        let division = MemoryDivision::new(options.memory, options.send_buffer as u64, caches);
        division.check(components.iter().map(|component| (&*component.id, component.limits.memory)))?;
        let memory = MemoryBudget::new(division.guests());
        for note in sharing_notes(components.iter()).iter().filter(|_| !options.is_temporary) {
            tracing::info!("{note}");
        }

        let shards = options.threads.get();
        let store = Engine::open(&options.data, shards, &options.store, options.postgres.as_ref())?;
        let data = &options.data;
        for folder in [data.clone(), data.join(secrets::FOLDER), data.join(deploy::COMPONENTS)] {
            private_files::remove_unfinished(&folder);
        }
        let backends: Vec<Arc<dyn Backend>> =
            (0..shards).map(|shard| store.backend(shard)).collect::<Result<_, _>>()?;
        store
            .restore_attachments(|files| deploy::restore_deployed(&options.data, files))?
            .map_err(StartError::Restore)?;
        let secrets = Secrets::new(&options.data, store.fleet());
        secrets.fill_in(&mut components, options.rotate_secrets)?;
        let mut files = Deployments::open(&options.data, options.policy.clone(), options.is_temporary)?;
        let fleet = store.fleet().map(|tables| Fleet::new(tables, &options.data, &path).map(Arc::new)).transpose()?;
        let serving = fleet.as_ref().map(|fleet| fleet.read()).transpose()?.unwrap_or_default().1;
        let mut chosen = Vec::with_capacity(components.len());
        for component in components {
            let (id, path) = (component.id.clone(), component.source.clone());
            let unreadable = |source| LoadError::Unreadable { id: id.clone(), path: path.clone(), source };
            let wasm = match (serving.components.get(&id), &fleet) {
                (Some(entry), Some(fleet)) => files.choose_served(&component, entry, fleet)?,
                (None, Some(_)) => files.choose_source(&component)?.map_err(unreadable)?,
                (_, None) => files.choose(&component)?.map_err(unreadable)?,
            };
            chosen.push((Arc::new(component), wasm));
        }
        // A component's check may have read a damaged page, and its error does not name the file.
        let outbound = OutboundFactory::new(options.outbound.clone(), options.threads.get(), memory.clone())?;
        let stalled = StalledPermits::new(options.stalled_instances);
        let services = load_services(runtime, chosen, &backends, &outbound, (&memory, &stalled))
            .map_err(|error| store.failure().map_or(error, StartError::Store))?;

        let (events, receiver) = mpsc::channel();
        let database = if options.postgres.is_some() { "postgresql" } else { "sqlite" };
        let tracer = options.traces.as_ref().map(|export| Tracer::new(export, database)).transpose()?.map(Arc::new);
        let (cache, followed) = (ResponseCache::new()?, fleet.as_ref().map(|fleet| fleet.followed.clone()));
        let application = Application::new(router, services, backends, cache, tracer, events.clone(), followed);
        let application = Arc::new(application.with_work_limits(options.anonymous_work));
        let local: Weak<Application> = Arc::downgrade(&application);
        outbound.connect(local);
        let memory_parts = (memory.clone(), division);
        let files = (files, secrets, fleet.clone());
        let deployer = Deployer::new(runtime.clone(), application.clone(), outbound, memory_parts, files, events);
        let threads = ServingThreads::default();
        let supervisor = Supervisor::start(deployer.clone(), receiver, options.watch, threads.clone());
        let supervisor = supervisor.map_err(StartError::Thread)?;
        let follower = fleet.map(|fleet| Follower::start(deployer.clone(), fleet, threads.clone()));
        let follower = follower.transpose().map_err(StartError::Thread)?;
        let (stop, stopped) = watch::channel(None);
        let shards = Shard::start_all(shards, &application, &stopped, &threads);
        let shards = Arc::new(shards.map_err(StartError::Thread)?);
        let background_tasks = BackgroundTasks::new(
            application.clone(),
            shards.clone(),
            store.monitor(options.data.clone()),
            threads.clone(),
        );
        Ok(Self {
            application,
            shards,
            acceptors: Vec::new(),
            stop,
            deployer,
            supervisor: Some(supervisor),
            follower,
            background_tasks,
            admin: None,
            admin_connections: options.admin_connections,
            old_metric_names: options.old_metric_names,
            data: options.data.clone(),
            runtime: runtime.clone(),
            store,
            memory: (memory, division),
            stalled,
            ingresses: Arc::default(),
            threads,
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

    /// Also listens on `address`, and returns the real address. Port 0 stands for any free port.
    pub fn listen(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let ingress = Ingress::new(IngressOptions::default()).map_err(io::Error::other)?;
        self.serve(acceptor::bind(address)?, Arc::new(ingress))
    }

    /// Accepts connections from a listening socket, and returns its address.
    pub fn serve(&mut self, listener: TcpListener, ingress: Arc<Ingress>) -> io::Result<SocketAddr> {
        let mut ingresses = self.ingresses.lock().unwrap_or_else(PoisonError::into_inner);
        if !ingresses.iter().any(|known| Arc::ptr_eq(known, &ingress)) {
            ingress.receive_budget.count_in(self.memory.0.clone());
            ingresses.push(ingress.clone());
        }
        drop(ingresses);
        let acceptor = Acceptor::start(listener, ingress, self.shards.clone(), self.stop.subscribe(), &self.threads)?;
        let address = acceptor.address();
        self.acceptors.push(acceptor);
        Ok(address)
    }

    /// Opens the admin listener on `address`, and returns its address and its token. Without a given token, the host
    /// makes one.
    pub fn administer(&mut self, address: SocketAddr, token: Option<String>) -> io::Result<AdminAccess> {
        let host = HostStatusReader {
            started: Instant::now(),
            deployer: self.deployer.clone(),
            runtime: self.runtime.clone(),
            memory: self.memory.0.clone(),
            division: self.memory.1,
            stalled: self.stalled.clone(),
            store: self.store.monitor(self.data.clone()),
            store_health: self.store.health().clone(),
            commits: self.store.commit_counter(),
            ingresses: self.ingresses.clone(),
            threads: self.threads.clone(),
            loads: self.shards.iter().map(Shard::load_counter).collect(),
        };
        let (connections, old_metric_names) = (self.admin_connections, self.old_metric_names);
        let options = AdminOptions { address, token, connections, old_metric_names };
        let admin = Admin::start(options, &self.data, host)?;
        let access = admin.access().clone();
        self.admin = Some(admin);
        Ok(access)
    }

    /// How many connections and other jobs each shard has.
    pub fn loads(&self) -> Vec<usize> {
        self.shards.iter().map(Shard::load).collect()
    }

    /// Starts the manifest's maintenance, now and after each reload.
    pub fn maintain(&self) -> io::Result<()> {
        self.background_tasks.start()
    }

    /// Applies a manifest that was read again. It may be used on any thread.
    pub fn reloader(&self) -> Reloader {
        Reloader::new(&self.deployer, &self.background_tasks)
    }

    /// Changes the revisions of components.
    pub fn deployer(&self) -> &Arc<Deployer> {
        &self.deployer
    }

    /// The services, in the order of the manifest.
    pub fn services(&self) -> &[ComponentService] {
        self.application.services()
    }

    /// Hits and misses of the response cache.
    pub fn cache_counters(&self) -> &CacheCounters {
        self.application.response_cache().counters()
    }

    /// How many transactions the store has committed since the start.
    pub fn commits(&self) -> u64 {
        self.store.commit_counter().load(Ordering::Relaxed)
    }

    /// Announces the stop and goes on serving: from now on `/readyz` is false, and the host swaps no components.
    pub fn drain(&self) {
        self.deployer.close();
    }

    /// Stops accepting and flushes the store. Requests under way, and guests that still work after their responses, get
    /// at most `grace` to finish. It blocks.
    pub fn stop(mut self, grace: Duration) {
        self.stop_within(grace);
    }

    fn stop_within(&mut self, grace: Duration) {
        let deadline = Instant::now() + grace;
        // First, because later steps may have to wait for a file.
        self.stop.send_replace(Some(deadline));
        self.deployer.stop();
        self.deployer.close();
        self.background_tasks.stop();
        for acceptor in self.acceptors.drain(..) {
            acceptor.join();
        }
        // The acceptors and the maintenance held the other references to the shards.
        if let Some(shards) = Arc::get_mut(&mut self.shards) {
            for shard in shards.drain(..) {
                shard.join();
            }
        }
        self.deployer.end();
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.join();
        }
        // After the shards, because requests under way wait for it.
        if let Some(follower) = self.follower.take() {
            follower.stop();
        }
        if let Some(tracer) = self.application.tracer() {
            let left = deadline.saturating_duration_since(Instant::now());
            tracer.shutdown(left.clamp(LAST_STEPS_TIMEOUT, LAST_SPANS_TIMEOUT));
        }
        // Last, so that the operator can watch the host stop.
        if let Some(admin) = self.admin.take() {
            admin.join(deadline.max(Instant::now() + LAST_STEPS_TIMEOUT));
        }
    }
}

/// Loads and checks the chosen code of every component, and makes its service.
fn load_services(
    runtime: &Arc<Runtime>,
    chosen: Vec<(Arc<Component>, InitialComponent)>,
    backends: &[Arc<dyn Backend>],
    outbound: &OutboundFactory,
    (memory, stalled): (&Arc<MemoryBudget>, &Arc<StalledPermits>),
) -> Result<Vec<ComponentService>, StartError> {
    let mut parts = Vec::with_capacity(chosen.len());
    for (component, chosen) in chosen {
        let outbound = outbound.make(&component.id, &component.allowed_hosts, &component.limits.outbound, None)?;
        parts.push((Settings::new(component, outbound), Metrics::new(backends.len()), chosen));
    }
    // Concurrently, because compiling is the slowest part and uses one processor for much of its time. On threads,
    // because the caller may be in an asynchronous runtime.
    let loaded = std::thread::scope(|scope| {
        let threads: Vec<_> = parts
            .iter()
            .map(|(settings, metrics, chosen)| {
                scope.spawn(move || {
                    let origin = chosen.origin.display().to_string();
                    let artifact = Artifact { wasm: &chosen.wasm, origin: &origin };
                    let Settings { component, outbound, .. } = settings;
                    let outbound = outbound.as_ref();
                    let context = LoadContext { runtime, component, backends, outbound, metrics, memory };
                    Revision::load(context, &artifact, 1)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let mut services = Vec::with_capacity(parts.len());
    for ((settings, metrics, _), loaded) in parts.into_iter().zip(loaded) {
        let revision = loaded.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let stalled = StalledInstances::new(stalled.clone(), memory.clone());
        services.push(ComponentService::new(settings, revision, metrics, stalled, memory.clients().clone()));
    }
    Ok(services)
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop_within(Duration::ZERO);
    }
}
