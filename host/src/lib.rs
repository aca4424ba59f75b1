//! wip
pub mod keyvalue;
pub mod manifest;
pub mod router;
pub mod store;
mod throttle;
pub mod variables;
