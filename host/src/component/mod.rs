//! A component in the host: the [`Slot`] that routes lead to, and the [`Generation`]s in it.
//!
//! Lifetimes, from long to short: the process has one engine; an application has one slot per
//! component; a slot has a generation that serves, which is code, checked and linked, the one
//! before it, and at times a canary; a generation has instances on each shard; an instance serves
//! many requests, one after the other.

mod area;
mod breaker;
mod canary;
mod capabilities;
mod generation;
mod guest_call;
mod lease;
mod pool;
mod response_body;
mod slot;

pub use area::{AreaError, Description};
pub use breaker::Health;
pub use canary::{Canary, Terms, Verdict};
pub use generation::{Artifact, Generation, LoadError};
pub use guest_call::{CallError, GuestCall};
pub use response_body::GuestBody;
pub use slot::{Deployment, LeaseError, Slot, Trial};
