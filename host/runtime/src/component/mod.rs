//! A component: the [`ComponentService`] that serves its routes, and the service's [`Revision`]s.
//!
//! Lifetimes, from long to short:
//! - The process has one engine.
//! - An application has one service for each component.
//! - A service has a current revision (compiled, checked and linked code), possibly a standby and a canary.
//! - A revision has instances on each shard.
//! - An instance serves many requests, one after the other.

mod area;
mod breaker;
mod by_value;
mod canary;
mod guest_call;
mod instance_limits;
mod lease;
mod pool;
mod response_body;
mod revision;
mod service;
mod stubs;
mod timed_run;
mod unfinished_bodies;

pub use area::{AreaError, Description, Storage};
pub use breaker::Health;
pub use canary::{Canary, CanaryPolicy, DeploymentEvent, Verdict};
pub use guest_call::{CallError, GuestCall};
pub use lease::{Lease, ResponseEnd};
pub use response_body::GuestBody;
pub use revision::{Artifact, LoadContext, LoadError, Revision};
pub use service::{ActiveRevisions, ComponentService, LeaseError, Settings, Trial};
