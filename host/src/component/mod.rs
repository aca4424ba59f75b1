//! A component: the [`ComponentService`] that its routes lead to, and the [`Revision`]s in the service.
//!
//! Lifetimes, from long to short: the process has one engine; an application has one service per
//! component; a service has a current revision, which is code, checked and linked, perhaps a standby
//! and a canary; a revision has instances on each shard; an instance serves many requests, one
//! after the other.

mod area;
mod breaker;
mod by_value;
mod canary;
mod canary_stats;
mod capabilities;
mod guest_call;
mod instance_limits;
mod lease;
mod pool;
mod response_body;
mod revision;
mod service;
mod timed_run;
mod unfinished_bodies;

pub use area::{AreaError, Description};
pub use breaker::Health;
pub use canary::{Canary, CanaryPolicy, Verdict};
pub use guest_call::{CallError, GuestCall};
pub use lease::{Lease, ResponseEnd};
pub use response_body::GuestBody;
pub use revision::{Artifact, LoadContext, LoadError, Revision};
pub use service::{ActiveRevisions, ComponentService, LeaseError, Settings, Trial};
