//! Whether a host could serve a manifest and its components: the checks of a start or a swap, without a host.
//!
//! The components pass the same checks as at a start, with an empty store. Only a host that has the store can decide
//! whether they can read its records.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hexad_deploy::{PolicyError, Signature, TrustPolicy, Untrusted};
use hexad_http::response_cache;
use hexad_http::send_buffer::SendLimits;
use hexad_limits::memory_budget::{MemoryBudget, MemoryDivision, MemoryError};
use hexad_manifest::{Component, Manifest, UnknownComponent};
use hexad_runtime::component::{Artifact, LoadContext, LoadError, Revision};
use hexad_runtime::engine::{Runtime, RuntimeError};
use hexad_store as store;
use hexad_store::Backend;
use hexad_store_sqlite::{self as sqlite, Sqlite, SqliteOpenError};
use hexad_support::bounded_file::read_component;
use hexad_support::digest::Digest;
use hexad_telemetry::metrics::Metrics;

/// The options of a check, besides the manifest.
#[derive(Clone, Debug, Default)]
pub struct ValidationOptions {
    /// The id of a component, and a file to swap in for it. Only that component is checked.
    pub replacement: Option<(String, PathBuf)>,
    pub policy: TrustPolicy,
    /// The host's memory, in bytes.
    pub memory: Option<u64>,
    /// The host's shards, each with a cache.
    pub threads: usize,
}

/// A component that a host could serve.
#[derive(Debug)]
pub struct ValidComponent {
    pub id: String,
    pub digest: Digest,
    pub bytes: usize,
    /// The version that the component reports, if it is an area.
    pub version: Option<String>,
    /// Imports that a host does not supply: a call of them fails.
    pub stubs: Vec<String>,
}

/// Why a host could not serve a manifest or a component: a sentence for the author of the manifest.
#[derive(Debug, thiserror::Error)]
pub enum ValidationError {
    #[error(transparent)]
    Unknown(#[from] UnknownComponent),
    #[error("component `{id}`: {path} is not trusted: {source}")]
    Untrusted { id: String, path: PathBuf, source: Box<Untrusted> },
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Component(#[from] LoadError),
    #[error("component `{0}`: the host panicked while it was loaded; this is a defect of the host")]
    Panicked(String),
}

/// Why no check was possible.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("no store for the checks can be made: {0}")]
    Folder(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] SqliteOpenError),
    #[error("the policy of what may be served cannot be used: {0}")]
    Policy(#[from] PolicyError),
}

/// Checks every component of a manifest, or the replacement of one.
pub fn validate(
    manifest: Manifest,
    options: &ValidationOptions,
) -> Result<Vec<Result<ValidComponent, ValidationError>>, CheckError> {
    options.policy.check()?;
    let mut components = manifest.components;
    let mut results = Vec::new();
    let caches = response_cache::MAX_BYTES.saturating_add(store::NEAR_CACHE_BYTES.saturating_mul(options.threads));
    let division = MemoryDivision::new(options.memory, SendLimits::default().total as u64, caches);
    if let Err(error) = division.check(components.iter().map(|component| (&*component.id, component.limits.memory))) {
        results.push(Err(error.into()));
    }
    if let Some((id, _)) = &options.replacement {
        if components.iter().all(|component| component.id != *id) {
            let known = components.iter().map(|component| &*component.id);
            results.push(Err(UnknownComponent::new(id, known).into()));
        }
        components.retain(|component| component.id == *id);
    }
    let folder = tempfile::tempdir()?;
    let store = Sqlite::open(folder.path(), &sqlite::SqliteOptions::default())?;
    let runtime = Runtime::for_checks()?;
    let gate = Gate { runtime, backends: vec![store.backend()?], memory: MemoryBudget::new(u64::MAX), options };
    let components: Vec<_> = components.into_iter().map(Arc::new).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            components.iter().map(|component| (component, scope.spawn(|| gate.check(component)))).collect();
        for (component, thread) in threads {
            let result = thread.join();
            results.push(result.unwrap_or_else(|_| Err(ValidationError::Panicked(component.id.clone()))));
        }
    });
    Ok(results)
}

/// The parts of a host that check components.
struct Gate<'a> {
    runtime: Arc<Runtime>,
    backends: Vec<Arc<dyn Backend>>,
    memory: Arc<MemoryBudget>,
    options: &'a ValidationOptions,
}

impl Gate<'_> {
    fn check(&self, component: &Arc<Component>) -> Result<ValidComponent, ValidationError> {
        let Some((_, path)) = &self.options.replacement else {
            return self.load(component, &component.source).map(|(valid, _)| valid);
        };
        let (valid, revision) = self.load(component, path)?;
        // The current component decides whether the service is an area's. If it does not load, any component may
        // replace it.
        if let Ok((_, current)) = self.load(component, &component.source) {
            revision.check_replaces(&component.id, &current)?;
        }
        Ok(valid)
    }

    fn load(&self, component: &Arc<Component>, path: &Path) -> Result<(ValidComponent, Revision), ValidationError> {
        let (id, origin) = (component.id.clone(), path.display().to_string());
        let wasm = read_component(path).map_err(|source| {
            let (id, path) = (id.clone(), path.to_owned());
            LoadError::Unreadable { id, path, source }
        })?;
        self.check_trust(&wasm, path).map_err(|source| ValidationError::Untrusted {
            id: id.clone(),
            path: path.to_owned(),
            source,
        })?;
        let metrics = Metrics::new(self.backends.len());
        let context = LoadContext {
            runtime: &self.runtime,
            component,
            backends: &self.backends,
            outbound: None,
            metrics: &metrics,
            memory: &self.memory,
        };
        let revision = Revision::load(context, &Artifact { wasm: &wasm, origin: &origin }, 1)?;
        let version = revision.description.as_ref().map(|area| area.version.clone());
        let stubs = revision.stubs().to_vec();
        Ok((ValidComponent { id, digest: revision.digest, bytes: wasm.len(), version, stubs }, revision))
    }

    fn check_trust(&self, wasm: &[u8], path: &Path) -> Result<(), Box<Untrusted>> {
        let policy = &self.options.policy;
        if policy.is_set() {
            let signature = Signature::read(&Signature::beside(path)).map_err(Untrusted::from)?;
            policy.admit(wasm, &Digest::of(wasm), signature.as_ref())?;
        }
        Ok(())
    }
}
