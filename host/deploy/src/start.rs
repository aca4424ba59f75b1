//! The start: chooses, loads and checks the build of each component, and starts the threads that change it later.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak, mpsc};

use hexad_engine::{Engine, EngineError};
use hexad_http::response_cache::ResponseCache;
use hexad_imports::outbound::{OutboundFactory, OutboundOptions};
use hexad_limits::anonymous_work::WorkLimits;
use hexad_limits::instance_permit::{StalledInstances, StalledPermits};
use hexad_limits::memory_budget::{MemoryBudget, MemoryDivision, MemoryError};
use hexad_manifest::router::RouteError;
use hexad_manifest::{Component, Route};
use hexad_runtime::application::{Application, RouteTarget};
use hexad_runtime::component::{Artifact, ComponentService, LoadContext, LoadError, Revision, Settings};
use hexad_runtime::engine::Runtime;
use hexad_store::Backend;
use hexad_support::private_files;
use hexad_support::serving_threads::ServingThreads;
use hexad_support::tls::TlsError;
use hexad_telemetry::metrics::Metrics;
use hexad_trace::{TraceError, Tracer};

use crate::files::Deployments;
use crate::fleet::LIVE;
use crate::secrets::{self, SecretError, Secrets};
use crate::{
    COMPONENTS, DeployError, Deployer, Fleet, Follower, InitialComponent, Mixture, RecordError, Supervisor,
    TrustPolicy, formats, restore_deployed,
};

/// The parts of the host that components run in.
pub struct Environment {
    pub runtime: Arc<Runtime>,
    pub memory: Arc<MemoryBudget>,
    pub division: MemoryDivision,
    pub stalled: Arc<StalledPermits>,
    /// `None` for no traces.
    pub tracer: Option<Arc<Tracer>>,
    pub threads: ServingThreads,
}

/// The operator's settings of components.
pub struct DeployOptions {
    pub data: PathBuf,
    pub shards: usize,
    pub outbound: OutboundOptions,
    pub anonymous_work: WorkLimits,
    pub policy: TrustPolicy,
    /// Whether a component is swapped in whenever the manifest's source of it changes.
    pub watch: bool,
    /// Whether the records in the data folder stay as they are.
    pub is_temporary: bool,
    pub rotate_secrets: bool,
}

/// The components that are served, and the threads that change them.
pub struct Serving {
    deployer: Arc<Deployer>,
    supervisor: Option<Supervisor>,
    /// Set where several hosts share the store.
    follower: Option<Follower>,
}

/// Why a host does not start: a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the manifest {manifest} cannot be used: {source}")]
    Routes { manifest: PathBuf, source: RouteError },
    #[error(transparent)]
    Store(#[from] EngineError),
    #[error("cannot restore what was swapped in from the backup: {0}; free space in the data folder, and start again")]
    Restore(io::Error),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Component(#[from] LoadError),
    #[error(transparent)]
    Formats(#[from] Mixture),
    #[error(transparent)]
    Outbound(#[from] TlsError),
    #[error(transparent)]
    Traces(#[from] TraceError),
    #[error("cannot serve what the other hosts of the store serve: {0}")]
    Fleet(#[from] DeployError),
    #[error("the system has no randomness: {0}")]
    Randomness(#[from] getrandom::Error),
    #[error("cannot start a thread: {0}; raise the limit of threads (`ulimit -u`, or `TasksMax` of systemd)")]
    Thread(io::Error),
}

impl Serving {
    /// `manifest`: its path, its components and its routes. It blocks: for milliseconds if the runtime's cache has the
    /// compiled code, otherwise for seconds.
    pub fn start(
        environment: Environment,
        (path, mut components, routes): (PathBuf, Vec<Component>, Vec<Route>),
        store: &Engine,
        options: &DeployOptions,
    ) -> Result<Self, StartError> {
        let position = |id: &str| components.iter().position(|component| component.id == id);
        let router = RouteTarget::router(routes, position)
            .map_err(|source| StartError::Routes { manifest: path.clone(), source })?;
        let data = &options.data;
        for folder in [data.clone(), data.join(secrets::FOLDER), data.join(COMPONENTS)] {
            private_files::remove_unfinished(&folder);
        }
        store.restore_attachments(|files| restore_deployed(data, files))?.map_err(StartError::Restore)?;
        let secrets = Secrets::new(data, store.fleet());
        secrets.fill_in(&mut components, options.rotate_secrets)?;
        let backends = (0..options.shards).map(|shard| store.backend(shard));
        let backends: Vec<Arc<dyn Backend>> = backends.collect::<Result<_, _>>()?;
        let mut files = Deployments::open(data, options.policy.clone(), options.is_temporary)?;
        let fleet = store.fleet().map(|tables| Fleet::new(tables, data, &path).map(Arc::new)).transpose()?;
        let chosen = choose_all(components, &mut files, fleet.as_deref())?;
        let memory = environment.memory;
        let outbound = OutboundFactory::new(options.outbound.clone(), options.shards, memory.clone())?;
        // A component's check may have read a damaged page, and its error does not name the file.
        let limits = (&memory, &environment.stalled);
        let services = load_services(&environment.runtime, chosen, &backends, &outbound, limits)
            .map_err(|error| store.failure().map_or(error, StartError::Store))?;
        formats::check_start(&services)?;
        fleet.as_ref().map_or(Ok(()), |fleet| join(fleet, &services, &backends))?;

        let (events, receiver) = mpsc::channel();
        let (cache, followed) = (ResponseCache::new()?, fleet.as_ref().map(|fleet| fleet.followed.clone()));
        let tracer = environment.tracer;
        let application = Application::new(router, services, backends, cache, tracer, events.clone(), followed);
        let application = Arc::new(application.with_work_limits(options.anonymous_work));
        let local: Weak<Application> = Arc::downgrade(&application);
        outbound.connect(local);
        let memory = (memory, environment.division);
        let files = (files, secrets, fleet.clone());
        let deployer = Deployer::new(environment.runtime, application, outbound, memory, files, events);
        let threads = environment.threads;
        let supervisor = Supervisor::start(deployer.clone(), receiver, options.watch, threads.clone());
        let supervisor = Some(supervisor.map_err(StartError::Thread)?);
        let follower = fleet.map(|fleet| Follower::start(deployer.clone(), fleet, threads));
        let follower = follower.transpose().map_err(StartError::Thread)?;
        Ok(Self { deployer, supervisor, follower })
    }

    pub fn deployer(&self) -> &Arc<Deployer> {
        &self.deployer
    }

    pub fn application(&self) -> &Arc<Application> {
        self.deployer.application()
    }

    /// Ends the threads. Requests under way wait for them, so the shards end first.
    pub fn end(&mut self) {
        self.deployer.end();
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.join();
        }
        if let Some(follower) = self.follower.take() {
            follower.stop();
        }
    }
}

/// Reports this host to the others of the store. Refuses components that cannot serve beside theirs.
fn join(fleet: &Fleet, services: &[ComponentService], backends: &[Arc<dyn Backend>]) -> Result<(), StartError> {
    fleet.set_report(|report| report.formats = Some(formats::serving(services, None)));
    let check = || formats::check_hosts(services, (fleet, &fleet.exchange_reports()?), backends);
    let checked = check().or_else(|_| {
        // A host that was killed counts as live for so long.
        std::thread::sleep(LIVE);
        check()
    });
    checked.map_err(|error| {
        if let Err(error) = fleet.store.leave(&fleet.instance) {
            tracing::debug!(%error, "the other hosts do not know that this one has not started");
        }
        match error {
            DeployError::Mixture(mixture) => StartError::Formats(mixture),
            error => StartError::Fleet(error),
        }
    })
}

/// Chooses the build of each component: from the record of all hosts, else from the record of the data folder, else from
/// the manifest.
fn choose_all(
    components: Vec<Component>,
    files: &mut Deployments,
    fleet: Option<&Fleet>,
) -> Result<Vec<(Arc<Component>, InitialComponent)>, StartError> {
    let serving = fleet.map(Fleet::read).transpose()?.unwrap_or_default().1;
    let mut chosen = Vec::with_capacity(components.len());
    for component in components {
        let (id, path) = (component.id.clone(), component.source.clone());
        let unreadable = |source| LoadError::Unreadable { id: id.clone(), path: path.clone(), source };
        let wasm = match (serving.components.get(&id), fleet) {
            (Some(entry), Some(fleet)) => files.choose_served(&component, entry, fleet)?,
            (None, Some(_)) => files.choose_source(&component)?.map_err(unreadable)?,
            (_, None) => files.choose(&component)?.map_err(unreadable)?,
        };
        chosen.push((Arc::new(component), wasm));
    }
    Ok(chosen)
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
