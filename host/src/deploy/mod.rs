//! Which generation may take a slot: the one way in which what is served changes.
//!
//! A swap is compiled and checked off the request path, one at a time and at low priority, by
//! the same gate as at the start: what it imports, what it exports, which area it is, which
//! stored formats it reads, its own check; and, if there is a [`Policy`], whether it is trusted. Then its bytes, a line in the audit log and the record
//! of what serves are on disk, in this order, and then one pointer changes. Whatever refuses it
//! changes nothing.
//!
//! In the data folder:
//!
//! | file | what |
//! |---|---|
//! | `components/<digest>.wasm` | the components that serve, or served before, by a swap; beside them `.sig`, their signatures |
//! | `components/active.json` | which those are: see [`record`] |
//! | `audit.ndjson` | every attempt: see [`audit`] |

mod artifacts;
mod audit;
mod background;
mod deployer;
mod files;
mod policy;
mod record;
mod supervisor;
mod trial;

use std::io;

use bytes::Bytes;
use serde::Serialize;

use crate::component::{CanaryPolicy, LoadError};
use crate::digest::Digest;

pub use deployer::Deployer;
pub use files::{Chosen, Deployments, RecordError};
pub use policy::{Policy, PolicyError, Signature, Untrusted};
pub use supervisor::Supervisor;

/// The name under which the host itself acts.
const HOST: &str = "hexad";

/// A component that is to serve.
#[derive(Clone, Debug)]
pub struct Order {
    /// The slot.
    pub component: String,
    pub wasm: Bytes,
    /// Whoever answers for it, where the [`Policy`] asks.
    pub signature: Option<Signature>,
    /// Who asks for it, for the audit log.
    pub by: String,
    /// For some callers first.
    pub canary: Option<CanaryPolicy>,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub component: String,
    /// What the action was about.
    pub digest: Digest,
    pub version: Option<String>,
    pub generation: u64,
    /// What a rollback leads to.
    pub previous: Option<Digest>,
    /// Whether it is on trial.
    pub canary: bool,
    pub milliseconds: u64,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("there is no component `{0}` in the manifest")]
    Unknown(String),
    #[error("component `{0}` has a canary; promote it or roll it back first")]
    CanaryUnderWay(String),
    #[error("component `{0}` has no canary")]
    NoCanary(String),
    #[error("component `{0}` has nothing to go back to")]
    NoPrevious(String),
    #[error("component `{component}`: it is not trusted: {source}")]
    Untrusted { component: String, source: Box<Untrusted> },
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("the host is stopping")]
    Stopping,
    #[error("cannot use {what}: {source}")]
    Io { what: &'static str, source: io::Error },
}
