//! A generation: one version of a component, linked and checked, and its instances on each shard.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::error::Elapsed;
use wasmtime_wasi_http::handler::ProxyPre;
use wasmtime_wasi_http::{p2, p3};

use super::area::{self, AreaError, Description};
use super::breaker::{Breakers, Health};
use super::capabilities;
use super::pool::{InstanceTemplate, Pool};
use crate::digest::Digest;
use crate::guest::{Guest, GuestLog, OutboundHooks};
use crate::imports::keyvalue::KeyValue;
use crate::imports::outbound::Outbound;
use crate::manifest::Component;
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use crate::store::Backend;

/// How long a component may take to describe and to check itself.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// A version of a component. It lives as long as a slot or a lease holds it.
pub struct Generation {
    /// Counts the generations of its slot since the host started, from 1.
    pub number: u64,
    pub digest: Digest,
    /// `None` for a component that is no area.
    pub description: Option<Description>,
    pub loaded_at: SystemTime,
    breakers: Arc<Breakers>,
    /// One for each shard.
    pools: Vec<Arc<Pool>>,
}

/// The bytes of a component, and where they are from, for error messages.
pub struct Artifact<'a> {
    pub wasm: &'a [u8],
    pub origin: &'a str,
}

/// Why a component cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("component `{id}`: cannot read {path}: {source}; build it (`make components`) or correct `source`")]
    Unreadable { id: String, path: PathBuf, source: io::Error },
    #[error("component `{id}`: {origin} is not a usable component: {source:#}")]
    Invalid { id: String, origin: String, source: wasmtime::Error },
    #[error("component `{id}`: this host cannot supply what it imports: {source:#}")]
    Imports { id: String, source: wasmtime::Error },
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

impl Generation {
    /// Compiles, links and checks a component. `backends` and `metrics` have one for each shard;
    /// `outbound` is `None` if it may send no requests. During its check it sends none.
    ///
    /// It blocks, for seconds if the code is not in the cache, and must not be called from within an
    /// asynchronous runtime.
    pub fn load(
        runtime: &Arc<Runtime>,
        component: &Arc<Component>,
        artifact: &Artifact<'_>,
        number: u64,
        backends: &[Arc<dyn Backend>],
        outbound: Option<&Arc<Outbound>>,
        metrics: &Metrics,
    ) -> Result<Self, LoadError> {
        let id = || component.id.clone();
        let (digest, code) = runtime.compile(artifact.wasm).map_err(|source| LoadError::Invalid {
            id: id(),
            origin: artifact.origin.to_owned(),
            source,
        })?;
        let pre = runtime.linker().instantiate_pre(&code).map_err(|source| LoadError::Imports { id: id(), source })?;
        if let Some((import, remedy)) = capabilities::find_ungranted(&code, component) {
            return Err(LoadError::NotGranted { id: id(), import, remedy });
        }
        let proxy = match p3::bindings::ServicePre::new(pre.clone()) {
            Ok(pre) => ProxyPre::P3(pre),
            Err(_) => match p2::bindings::ProxyPre::new(pre.clone()) {
                Ok(pre) => ProxyPre::P2(pre),
                Err(source) => return Err(LoadError::NoHandler { id: id(), source }),
            },
        };

        let guest_log =
            Arc::new(GuestLog::new(&component.id, component.limits.log_lines, metrics.log_lines_dropped.clone()));
        let description = match backends.first() {
            None => None,
            Some(backend) => {
                let read_only = Arc::new(component.grants.read_only());
                let store = Guest::store(
                    runtime.engine(),
                    KeyValue::new(backend.clone(), read_only, Arc::default()),
                    component.variables.clone(),
                    OutboundHooks::default(),
                    guest_log.output(),
                    &component.limits,
                    Arc::default(),
                );
                let identified = area::identify(&component.id, &pre, store, &**backend, component.grants.labels());
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|source| LoadError::Runtime { id: id(), source })?
                    .block_on(async { tokio::time::timeout(CHECK_TIMEOUT, identified).await })
                    .map_err(|source| LoadError::CheckTimeout { id: id(), source })?
                    .map_err(|source| LoadError::Area { id: id(), source })?
            }
        };
        match &description {
            Some(area) => tracing::info!(component = component.id, version = area.version, %digest, "loaded"),
            None => tracing::info!(component = component.id, %digest, "loaded; it is not an area of this platform"),
        }

        let proxy = Arc::new(proxy);
        let breakers = Arc::new(Breakers::new(&component.id, number));
        let pools = backends.iter().enumerate().map(|(shard, backend)| {
            let outbound_hooks =
                outbound.map(|outbound| OutboundHooks::new(outbound.clone(), shard)).unwrap_or_default();
            Arc::new(Pool::new(InstanceTemplate {
                runtime: runtime.clone(),
                pre: proxy.clone(),
                component: component.clone(),
                guest_log: guest_log.clone(),
                backend: backend.clone(),
                outbound_hooks,
                breakers: breakers.clone(),
                counters: metrics.shard(shard).cloned().unwrap_or_default(),
            }))
        });
        Ok(Self { number, digest, description, loaded_at: SystemTime::now(), pools: pools.collect(), breakers })
    }

    /// The instances on the given shard.
    pub(crate) fn pool(&self, shard: usize) -> Option<&Arc<Pool>> {
        self.pools.get(shard)
    }

    /// Lets a request through, or returns how long the client should wait before it retries.
    pub(crate) fn admit(&self, path: &str) -> Result<(), Duration> {
        self.breakers.admit(path)
    }

    /// Records for the circuit breaker that a response was complete.
    pub(crate) fn record_success(&self, path: &str) {
        self.breakers.record_success(path);
    }

    pub fn health(&self) -> Health {
        self.breakers.health()
    }

    /// Ends the instances as soon as they are idle. The compiled code stays, for a rollback.
    pub(crate) fn retire(&self) {
        self.pools.iter().for_each(|pool| pool.retire());
    }

    /// Keeps instances again after [`retire`](Self::retire).
    pub(crate) fn revive(&self) {
        self.pools.iter().for_each(|pool| pool.revive());
    }
}
