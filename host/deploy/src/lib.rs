//! Deployment: the only way in which the component of a service and its settings change.
//!
//! The host compiles and checks a new component off the request path, one at a time and at low priority. The checks are
//! the same as at a start: imports and exports, area, stored formats that it reads, and its own `check`. If there is a
//! [`TrustPolicy`], the component must be trusted. Then the host writes to disk, in this order: the component's bytes,
//! the record of active components, and an entry of the audit log. Last, it replaces one pointer. A refused component
//! changes nothing.
//!
//! The record keeps the entry until the log has it. So, after a crash or with a full disk, the log has exactly the
//! changes that took place.
//!
//! In the data folder:
//!
//! | file | what |
//! |---|---|
//! | `components/<digest>.wasm` | components that are or were deployed by a swap; `.sig` beside them are their signatures |
//! | `components/active.json` | which component is active in each service ([`record`]) |
//! | `audit.ndjson` | every attempt ([`audit`]) |
//!
//! When several hosts share a store, the store has the record, the components and an audit log of all hosts
//! ([`fleet`]). For a swap, every live host prepares the component. Then one compare-and-swap of the record makes all
//! hosts serve it ([`fleet_change`], [`follower`]). The files above are copies then.
//!
//! A backup of the store includes the record and its components ([`transfer`]), and so does a copy ([`store_copy`]).

mod artifacts;
mod audit;
mod background;
mod change;
mod deployer;
mod files;
mod fleet;
mod fleet_change;
#[cfg(test)]
mod fleet_hosts;
mod follower;
mod formats;
mod policy;
mod prepared;
mod record;
mod reload;
pub mod secrets;
mod start;
mod stop_phase;
mod store_copy;
mod supervisor;
mod transfer;

use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use hexad_manifest::UnknownComponent;
use hexad_runtime::application::Application;
use hexad_runtime::component::{CanaryPolicy, ComponentService, LoadError};
use hexad_store::StoreError;
use hexad_support::digest::Digest;
use serde::Serialize;

pub use audit::AuditRecord;
pub use deployer::{Deployer, Expected};
pub use files::{Deployments, InitialComponent, RecordError};
pub use fleet::{Fleet, FleetHost, ServingRecord};
pub use follower::Follower;
pub use formats::Mixture;
pub use policy::{PolicyError, Signature, TrustPolicy, Untrusted};
pub use reload::{ReloadError, ReloadOutcome, ReloadRecord, Reloaded};
pub use start::{DeployOptions, Environment, Serving, StartError};
pub use store_copy::RecordLocation;
pub use supervisor::Supervisor;
pub use transfer::{FOLDER as COMPONENTS, read_deployed, restore_deployed};

/// The actor in the audit log when the host itself acts.
const HOST: &str = "hexad";

/// A request to deploy a component.
#[derive(Clone, Debug)]
pub struct SwapRequest {
    /// The service.
    pub component: String,
    pub wasm: Bytes,
    /// The component's signature, if it has one.
    pub signature: Option<Signature>,
    /// The actor, for the audit log.
    pub by: String,
    /// The policy of a canary, if only some callers get the component at first.
    pub canary: Option<CanaryPolicy>,
    /// Hosts that share the store, by name, that the swap does not wait for.
    pub without: Vec<String>,
    /// The digests that the component replaces; any if `None`.
    pub expected: Option<Expected>,
}

/// The result of a deployment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeployReport {
    pub component: String,
    /// The component that was deployed.
    pub digest: Digest,
    pub version: Option<String>,
    #[serde(rename = "generation")]
    pub revision: u64,
    /// The component that a rollback would restore.
    pub previous: Option<Digest>,
    /// Whether the component is on trial.
    pub canary: bool,
    pub milliseconds: u64,
}

/// The service of a component.
pub fn service_of<'a>(application: &'a Application, id: &str) -> Result<&'a ComponentService, UnknownComponent> {
    let services = application.services();
    let unknown = || UnknownComponent::new(id, services.iter().map(ComponentService::id));
    services.iter().find(|service| service.id() == id).ok_or_else(unknown)
}

impl From<RecordError> for DeployError {
    fn from(error: RecordError) -> Self {
        Self::Record(Box::new(error))
    }
}

/// Why a deployment was refused, or is incomplete ([`changed_nothing`](Self::changed_nothing)).
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    #[error(transparent)]
    Unknown(#[from] UnknownComponent),
    #[error("component `{0}` has a canary; promote it or roll it back first")]
    CanaryUnderWay(String),
    #[error("component `{0}`: this version is already its active revision")]
    ServesAlready(String),
    #[error("component `{0}` has no canary")]
    NoCanary(String),
    #[error("component `{0}` has no previous revision to roll back to")]
    NoPrevious(String),
    #[error(
        "the active revision or the canary of `{0}` has changed since you looked; run `hexad status` and try again"
    )]
    Changed(String),
    #[error("the trial in component `{component}` was ended, and its canary was not promoted: {source}")]
    TrialEnded { component: String, source: Box<DeployError> },
    #[error("component `{component}`: it is not trusted: {source}")]
    Untrusted { component: String, source: Box<Untrusted> },
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Mixture(#[from] Mixture),
    #[error("{0}")]
    Fleet(String),
    #[error("the store of the hosts: {0}")]
    Store(StoreError),
    #[error("the deployment may have succeeded: {0}; check `hexad status` before you try again")]
    Unconfirmed(StoreError),
    #[error("the deployment is recorded, but this host does not serve it yet: {0}; check `hexad status`")]
    NotServedYet(String),
    #[error("the stored component {path} cannot be read: {source}; restore the file, or run `hexad swap`")]
    Artifact { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Record(Box<RecordError>),
    #[error("the host is stopping")]
    Stopping,
    #[error("cannot use {subject}: {source}")]
    Io { subject: &'static str, source: io::Error },
}

impl DeployError {
    /// Whether the host certainly serves the same components as before.
    pub fn changed_nothing(&self) -> bool {
        !matches!(self, Self::Unconfirmed(_) | Self::NotServedYet(_) | Self::TrialEnded { .. })
    }
}

#[cfg(test)]
mod tests;
