//! A revision: one version of a component, compiled, linked and checked, with its instances on each shard.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use hexad_imports::keyvalue::{KeyValue, RequestWrites};
use hexad_imports::outbound::Outbound;
use hexad_limits::memory_budget::MemoryBudget;
use hexad_manifest::Component;
use hexad_store::{Backend, StoreError};
use hexad_support::digest::Digest;
use hexad_telemetry::metrics::Metrics;
use tokio::time::error::Elapsed;
use wasmtime::component::{self, InstancePre};
use wasmtime_wasi_http::handler::ProxyPre;
use wasmtime_wasi_http::{p2, p3};

use super::area::{self, AreaError, Description, Storage};
use super::breaker::{Breakers, Health};
use super::by_value::ByValueExport;
use super::pool::{InstancePool, InstanceTemplate};
use super::stubs;
use crate::engine::Runtime;
use crate::guest::{Guest, GuestBounds, GuestLog, GuestState, OutboundHooks};

/// The time limit of a component's description and check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// The interfaces of a key-value store, without their versions.
const KEY_VALUE: [&str; 3] = ["wasi:keyvalue/store", "spin:key-value/key-value", "fermyon:spin/key-value"];

/// The interfaces through which a component sends requests.
const OUTBOUND: [&str; 2] = ["wasi:http/client", "wasi:http/outgoing-handler"];

/// A version of a component. It lives as long as a service or a lease holds it.
pub struct Revision {
    /// The revision's number in its service since the host started, from 1.
    pub number: u64,
    pub digest: Digest,
    /// `None` for a component that is not an area.
    pub description: Option<Description>,
    pub loaded_at: SystemTime,
    code: LinkedCode,
    breakers: Arc<Breakers>,
    /// One for each shard.
    pools: Vec<Arc<InstancePool>>,
}

/// A compiled and linked component.
#[derive(Clone)]
struct LinkedCode {
    digest: Digest,
    pre: InstancePre<Guest>,
    /// `pre`, with the export that takes requests.
    proxy: Arc<ProxyPre<Guest>>,
    by_value: Option<ByValueExport>,
    /// Imports that the host links without supplying them.
    stubs: Vec<String>,
}

/// The parts that the revisions of a service share, besides their code.
#[derive(Clone, Copy)]
pub struct LoadContext<'a> {
    pub runtime: &'a Arc<Runtime>,
    pub component: &'a Arc<Component>,
    /// One for each shard.
    pub backends: &'a [Arc<dyn Backend>],
    /// `None` if the component may send no requests.
    pub outbound: Option<&'a Arc<Outbound>>,
    pub metrics: &'a Metrics,
    pub memory: &'a Arc<MemoryBudget>,
}

/// A component's bytes, and their source for error messages.
pub struct Artifact<'a> {
    pub wasm: &'a [u8],
    pub origin: &'a str,
}

/// Why the host cannot serve a component.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("component `{id}`: cannot read {path}: {source}; build it (`make components`) or correct `source`")]
    Unreadable { id: String, path: PathBuf, source: io::Error },
    #[error("component `{id}`: {origin} is not a usable component: {source:#}")]
    Invalid { id: String, origin: String, source: wasmtime::Error },
    #[error("component `{id}`: {origin} is not a usable component: {reason}")]
    NoComponent { id: String, origin: String, reason: &'static str },
    #[error("component `{id}`: this host has no {}; {}", listed(imports), remedy(imports))]
    Imports { id: String, imports: Vec<String> },
    #[error("component `{id}`: this host cannot supply what it imports: {source:#}")]
    ImportTypes { id: String, source: wasmtime::Error },
    #[error("component `{id}`: an area imports only what this host supplies, and not {}", listed(stubs))]
    Stubs { id: String, stubs: Vec<String> },
    #[error("component `{id}`: it imports `{import}`, which the manifest does not grant; {remedy}")]
    NotGranted { id: String, import: String, remedy: &'static str },
    #[error(
        "component `{id}`: it exports neither `wasi:http/handler@0.3.0` nor `wasi:http/incoming-handler@0.2`, so it \
         cannot answer HTTP requests: {source:#}"
    )]
    NoHandler { id: String, source: wasmtime::Error },
    #[error("component `{id}`: {source}")]
    Area { id: String, source: AreaError },
    #[error("component `{id}`: it took more than {} s to check itself", CHECK_TIMEOUT.as_secs())]
    CheckTimeout { id: String, source: Elapsed },
    #[error("component `{id}`: cannot run its check: {source}")]
    Runtime { id: String, source: io::Error },
}

impl LoadError {
    /// The component's id.
    pub fn component(&self) -> &str {
        match self {
            Self::Unreadable { id, .. }
            | Self::Invalid { id, .. }
            | Self::NoComponent { id, .. }
            | Self::Imports { id, .. }
            | Self::ImportTypes { id, .. }
            | Self::Stubs { id, .. }
            | Self::NotGranted { id, .. }
            | Self::NoHandler { id, .. }
            | Self::Area { id, .. }
            | Self::CheckTimeout { id, .. }
            | Self::Runtime { id, .. } => id,
        }
    }

    /// The store's failure, if it prevented the check.
    pub fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Area { source: AreaError::Store(error), .. } => Some(error),
            _ => None,
        }
    }
}

impl LinkedCode {
    fn new(context: LoadContext<'_>, artifact: &Artifact<'_>) -> Result<Self, LoadError> {
        let LoadContext { runtime, component, .. } = context;
        let id = || component.id.clone();
        let (digest, code) = runtime.compile(&component.id, artifact.wasm).map_err(|source| {
            let origin = artifact.origin.to_owned();
            match no_component(artifact.wasm) {
                Some(reason) => LoadError::NoComponent { id: id(), origin, reason },
                None => LoadError::Invalid { id: id(), origin, source },
            }
        })?;
        let stubs = stubs::of(&code);
        let linker = stubs::add(runtime.linker(), &code, &stubs);
        let linker = linker.map_err(|source| LoadError::ImportTypes { id: id(), source })?;
        let pre = linker.instantiate_pre(&code).map_err(|source| match stubs::missing(linker, &code, &source) {
            imports if imports.is_empty() => LoadError::ImportTypes { id: id(), source },
            imports => LoadError::Imports { id: id(), imports },
        })?;
        let proxy = match p3::bindings::ServicePre::new(pre.clone()) {
            Ok(pre) => ProxyPre::P3(pre),
            Err(_) => match p2::bindings::ProxyPre::new(pre.clone()) {
                Ok(pre) => ProxyPre::P2(pre),
                Err(source) => return Err(LoadError::NoHandler { id: id(), source }),
            },
        };
        let by_value = ByValueExport::of(&code);
        Ok(Self { digest, pre, proxy: Arc::new(proxy), by_value, stubs: stubs.into_iter().collect() })
    }

    /// Refuses an area that imports more than the host supplies and the manifest grants.
    fn check_area(&self, component: &Component) -> Result<(), LoadError> {
        let id = component.id.clone();
        if !self.stubs.is_empty() {
            return Err(LoadError::Stubs { id, stubs: self.stubs.clone() });
        }
        match check_imports(self.pre.component(), component) {
            Some((import, remedy)) => Err(LoadError::NotGranted { id, import, remedy }),
            None => Ok(()),
        }
    }
}

impl Revision {
    /// Compiles, links and checks a component. During its check, the component sends no requests.
    ///
    /// It blocks, for seconds if the code is not in the cache. Do not call it from an asynchronous runtime.
    pub fn load(context: LoadContext<'_>, artifact: &Artifact<'_>, number: u64) -> Result<Self, LoadError> {
        Self::new(context, LinkedCode::new(context, artifact)?, number)
    }

    /// Checks the same code with other settings. It blocks, as [`load`](Self::load) does.
    pub fn with_settings(&self, context: LoadContext<'_>, number: u64) -> Result<Self, LoadError> {
        Self::new(context, self.code.clone(), number)
    }

    fn new(context: LoadContext<'_>, code: LinkedCode, number: u64) -> Result<Self, LoadError> {
        let LoadContext { runtime, component, backends, outbound, metrics, memory } = context;
        if area::is_area(code.pre.component()) {
            code.check_area(component)?;
        }
        let guest_log =
            Arc::new(GuestLog::new(&component.id, component.limits.log_lines, metrics.log_lines_dropped.clone()));
        let description = match backends.first() {
            None => None,
            Some(backend) => {
                let read_only = Arc::new(component.grants.read_only());
                let scope = RequestWrites::default();
                let mut key_value = KeyValue::new(backend.clone(), read_only, Arc::default());
                key_value.enter(scope.clone(), None, None, None);
                let store = GuestState::store(
                    runtime.engine(),
                    key_value,
                    component.variables.clone(),
                    OutboundHooks::default(),
                    guest_log.output(),
                    GuestBounds { limits: &component.limits, memory },
                    Arc::default(),
                );
                let labels = component.grants.labels();
                let identified = area::identify(&component.id, &code.pre, code.by_value, store, &**backend, labels);
                within_check_timeout(&component.id, Some(&scope), identified)?
            }
        };
        let digest = code.digest;
        if !code.stubs.is_empty() {
            let imports = listed(&code.stubs);
            tracing::warn!(
                component = component.id,
                imports,
                "this host does not supply these imports: a call of them fails"
            );
        }
        match &description {
            Some(area) => tracing::info!(component = component.id, version = area.version, %digest, "loaded"),
            None => tracing::info!(component = component.id, %digest, "loaded; it is not an area of this platform"),
        }

        let breakers = Arc::new(Breakers::new(&component.id, number));
        let pools = backends.iter().enumerate().map(|(shard, backend)| {
            let outbound_hooks =
                outbound.map(|outbound| OutboundHooks::new(outbound.clone(), shard)).unwrap_or_default();
            let pool = Arc::new(InstancePool::new(InstanceTemplate {
                runtime: runtime.clone(),
                pre: code.proxy.clone(),
                by_value: code.by_value,
                component: component.clone(),
                guest_log: guest_log.clone(),
                backend: backend.clone(),
                outbound_hooks,
                memory: memory.clone(),
                breakers: breakers.clone(),
                counters: metrics.shard(shard).cloned().unwrap_or_default(),
            }));
            let weak: Weak<InstancePool> = Arc::downgrade(&pool);
            memory.add_idle_instances(weak);
            pool
        });
        let pools = pools.collect();
        Ok(Self { number, digest, description, loaded_at: SystemTime::now(), code, breakers, pools })
    }

    /// Refuses to replace an area by a component that is not one. [`load`](Self::load) refuses another area.
    pub fn check_replaces(&self, id: &str, current: &Self) -> Result<(), LoadError> {
        match (&current.description, &self.description) {
            (Some(area), None) => {
                Err(LoadError::Area { id: id.to_owned(), source: AreaError::NoArea(area.area.clone()) })
            }
            _ => Ok(()),
        }
    }

    /// The formats of the area's records, by prefix; none for another component.
    pub fn storages(&self) -> &[Storage] {
        self.description.as_ref().map_or(&[], |area| &area.storage)
    }

    /// Checks again that the area reads every format that the store has: another version may have written since
    /// [`load`](Self::load). It blocks.
    pub fn check_formats(&self, component: &Component, backends: &[Arc<dyn Backend>]) -> Result<(), LoadError> {
        let Some(backend) = backends.first() else { return Ok(()) };
        let check = || area::check_formats(&**backend, component.grants.labels(), self.storages());
        on_a_thread(|| within_check_timeout(&component.id, None, check()))
    }

    /// The first prefix and format that the area writes, without being its oldest format or one that the store has.
    /// It blocks.
    pub fn unwritten_format(
        &self,
        component: &Component,
        backends: &[Arc<dyn Backend>],
    ) -> Result<Option<(String, u32)>, LoadError> {
        let Some(backend) = backends.first() else { return Ok(None) };
        let find = || area::unwritten_format(&**backend, component.grants.labels(), self.storages());
        on_a_thread(|| within_check_timeout(&component.id, None, find()))
    }

    /// Imports that this host does not supply. A call of them fails ([`super::stubs`]).
    pub fn stubs(&self) -> &[String] {
        &self.code.stubs
    }

    /// The instances on the given shard.
    pub fn pool(&self, shard: usize) -> Option<&Arc<InstancePool>> {
        self.pools.get(shard)
    }

    /// Lets a request through, or returns how long the client should wait before it retries.
    pub fn admit(&self, path: &str) -> Result<(), Duration> {
        self.breakers.admit(path)
    }

    /// Records for the circuit breaker that a response was complete.
    pub fn record_success(&self, path: &str) {
        self.breakers.record_success(path);
    }

    pub fn health(&self) -> Health {
        self.breakers.health()
    }

    /// Ends the instances as soon as they are idle. The compiled code stays, for a rollback.
    pub fn retire(&self) {
        self.pools.iter().for_each(|pool| pool.retire());
    }

    /// Keeps instances again after [`retire`](Self::retire).
    pub fn revive(&self) {
        self.pools.iter().for_each(|pool| pool.revive());
    }
}

/// Runs what blocks on a thread of its own, because the caller may be in an asynchronous runtime.
fn on_a_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    let ran = std::thread::scope(|scope| scope.spawn(run).join());
    ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The outcome of a component's check. `scope` is that of its own reads.
fn within_check_timeout<T>(
    id: &str,
    scope: Option<&RequestWrites>,
    checked: impl Future<Output = Result<T, AreaError>>,
) -> Result<T, LoadError> {
    let id = || id.to_owned();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| LoadError::Runtime { id: id(), source })?
        .block_on(async { tokio::time::timeout(CHECK_TIMEOUT, checked).await })
        .map_err(|source| LoadError::CheckTimeout { id: id(), source })?
        .map_err(|source| match scope {
            Some(scope) => LoadError::Area { id: id(), source: source.or_outage(scope) },
            None => LoadError::Area { id: id(), source },
        })
}

/// Why bytes that do not compile are no component.
fn no_component(wasm: &[u8]) -> Option<&'static str> {
    match wasm.get(..8) {
        Some([0, b'a', b's', b'm', 1, 0, 0, 0]) => {
            Some("it is a core module; build it for wasm32-wasip2, or run `wasm-tools component new`")
        }
        Some([0, b'a', b's', b'm', ..] | [0x7f, b'E', b'L', b'F', ..]) => None,
        _ => Some("it is not WebAssembly"),
    }
}

/// Names in a sentence: `a`, `b` and `c`.
fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        quoted => quoted.concat(),
    }
}

fn remedy(imports: &[String]) -> &'static str {
    let is_handler =
        |name: &String| name.starts_with("wasi:http/handler@") || name.starts_with("wasi:http/incoming-handler@");
    match imports.iter().any(is_handler) {
        true => "put it in front of another component with `wac plug`, and serve what that makes",
        false => "build it without these imports, or supply them from another component with `wac plug`",
    }
}

/// The first import of an area without the grant that it needs, and a remedy for the operator. Other components may
/// import what they never call, as those of Python do; without a grant, a call fails.
///
/// WASI's interfaces for files and sockets need no grant. Standard libraries import them even if the program does not
/// use them, and the host offers no files or sockets there.
fn check_imports(code: &component::Component, component: &Component) -> Option<(String, &'static str)> {
    let has_store = component.grants.labels().next().is_some();
    let imports = code.component_type();
    let mut names = imports.imports(code.engine()).map(|(name, _)| name.to_owned());
    names.find_map(|name| {
        let interface = name.split_once('@').map_or(&*name, |(interface, _)| interface);
        if KEY_VALUE.contains(&interface) && !has_store {
            Some((name, "name a store in `key_value_stores`, or use a component without it"))
        } else if OUTBOUND.contains(&interface) && !component.declares_outbound {
            Some((name, "name hosts in `allowed_outbound_hosts`, or write `[]` there to deny it every request"))
        } else {
            None
        }
    })
}
