//! A running application: starts its parts, and stops them in order.

mod background_tasks;
mod options;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hexad_admin::{Admin, AdminAccess, AdminOptions, ConnectionBounds, HostStatusReader};
use hexad_deploy::{DeployOptions, Deployer, Environment, Serving, StartError};
use hexad_engine::Engine;
use hexad_http::body::ResponseBody;
use hexad_http::response_cache::{self, CacheCounters};
use hexad_limits::instance_permit::StalledPermits;
use hexad_limits::memory_budget::{MemoryBudget, MemoryDivision};
use hexad_manifest::{Manifest, sharing_notes};
use hexad_runtime::acceptor::{self, Acceptor};
use hexad_runtime::application::Application;
use hexad_runtime::component::ComponentService;
use hexad_runtime::engine::Runtime;
use hexad_runtime::ingress::{Ingress, IngressOptions};
use hexad_runtime::shard::{self, Shard};
use hexad_store as store;
use hexad_support::serving_threads::{ServingThreads, StopDeadline};
use hexad_trace::Tracer;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::watch;

use background_tasks::BackgroundTasks;
pub use background_tasks::Reloader;
pub use options::HostOptions;

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
    serving: Serving,
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
        let Manifest { path, components, routes, former_names, .. } = manifest;
        former_names.iter().for_each(|note| tracing::warn!("{}: {note}", path.display()));
        for note in sharing_notes(components.iter()).iter().filter(|_| !options.is_temporary) {
            tracing::info!("{note}");
        }
        let shards = options.threads.get();
        let caches = response_cache::MAX_BYTES.saturating_add(store::NEAR_CACHE_BYTES.saturating_mul(shards));
        let division = MemoryDivision::new(options.memory, options.send_buffer as u64, caches);
        division.check(components.iter().map(|component| (&*component.id, component.limits.memory)))?;
        let memory = MemoryBudget::new(division.guests());
        let stalled = StalledPermits::new(options.stalled_instances);

        let store = Engine::open(&options.data, shards, &options.store, options.postgres.as_ref())?;
        let database = if options.postgres.is_some() { "postgresql" } else { "sqlite" };
        let tracer = options.traces.as_ref().map(|export| Tracer::new(export, database)).transpose()?.map(Arc::new);
        let threads = ServingThreads::default();
        let environment = Environment {
            runtime: runtime.clone(),
            memory: memory.clone(),
            division,
            stalled: stalled.clone(),
            tracer,
            threads: threads.clone(),
        };
        let deploy_options = DeployOptions {
            data: options.data.clone(),
            shards,
            outbound: options.outbound.clone(),
            anonymous_work: options.anonymous_work,
            policy: options.policy.clone(),
            watch: options.watch,
            is_temporary: options.is_temporary,
            rotate_secrets: options.rotate_secrets,
        };
        let serving = Serving::start(environment, (path, components, routes), &store, &deploy_options)?;
        let application = serving.application().clone();
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
            serving,
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
            deployer: self.deployer().clone(),
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
        Reloader::new(self.deployer(), &self.background_tasks)
    }

    /// Changes the revisions of components.
    pub fn deployer(&self) -> &Arc<Deployer> {
        self.serving.deployer()
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
        self.deployer().close();
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
        self.deployer().stop();
        self.deployer().close();
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
        // After the shards, because requests under way wait for the follower.
        self.serving.end();
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

impl Drop for Host {
    fn drop(&mut self) {
        self.stop_within(Duration::ZERO);
    }
}
