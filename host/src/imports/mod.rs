//! The interfaces that guests import: key-value store, variables, outbound HTTP.

pub(crate) mod config;
pub(crate) mod keyvalue;
pub mod outbound;
pub(crate) mod variables;
