//! Starts and stops a host: the store, the components, the listeners and the maintenance.

pub mod host;
pub mod maintenance;
pub mod validation;

pub use hexad_deploy::StartError;
pub use host::{Host, HostOptions, Reloader};
