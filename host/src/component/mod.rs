//! A component in the host: the [`Slot`] that routes lead to, and the [`Generation`] in it.
//!
//! Lifetimes, from long to short: the process has one engine; an application has one slot per
//! component; a slot has one generation at a time, which is code, checked and linked; a
//! generation has instances on each shard; an instance serves many requests, one after the other.

mod area;
mod generation;
mod slot;
mod worker;

pub use area::Description;
pub use generation::{Generation, LoadError};
pub use slot::Slot;
