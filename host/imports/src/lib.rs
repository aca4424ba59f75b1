//! The interfaces that guests import: key-value store, variables, outbound HTTP.

pub mod config;
pub mod keyvalue;
pub mod outbound;
pub mod variables;
