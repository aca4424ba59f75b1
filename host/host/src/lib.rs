//! Starts and stops a host: the store, the components, the listeners and the maintenance.

pub mod host;
pub mod maintenance;
pub mod validation;

pub use host::{Host, HostOptions, Reloader, StartError};

#[cfg(test)]
mod deployments;
