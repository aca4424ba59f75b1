//! What a guest can call: the key-value store, its variables, and HTTP to other services.

pub(crate) mod config;
pub(crate) mod keyvalue;
pub mod outbound;
pub(crate) mod variables;
