//! The harness of tests and benchmarks: the running program, a small forge, packages to publish, clients, and an
//! upstream server whose answers a test defines.

pub mod browser;
pub mod compiled_code;
pub mod forge;
pub mod http;
pub mod operator;
pub mod package;
pub mod processor_time;
pub mod registry;
pub mod repository;
pub mod server;
pub mod suggestions;
pub mod upstream;
pub mod verdaccio;

pub use hexad_testing::{databases, postgres, proxy, wait};
