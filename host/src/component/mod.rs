//! A component: the [`Slot`] that its routes lead to, and the [`Generation`]s in the slot.
//!
//! Lifetimes, from long to short: the process has one engine; an application has one slot per
//! component; a slot has a current generation, which is code, checked and linked, perhaps a standby
//! and a canary; a generation has instances on each shard; an instance serves many requests, one
//! after the other.

mod area;
mod breaker;
mod by_value;
mod canary;
mod capabilities;
mod generation;
mod guest_call;
mod instance_limits;
mod lease;
mod pool;
mod response_body;
mod slot;
mod tally;
mod timed_run;
mod unfinished_bodies;

pub use area::{AreaError, Description};
pub use breaker::Health;
pub use canary::{Canary, CanaryPolicy, Verdict};
pub use generation::{Artifact, Generation, LoadError, Surroundings};
pub use guest_call::{CallError, GuestCall};
pub use lease::{Lease, ResponseEnd};
pub use response_body::GuestBody;
pub use slot::{Deployment, LeaseError, Settings, Slot, Trial};
