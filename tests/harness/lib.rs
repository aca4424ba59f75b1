//! What the tests and the benchmark share: a running host, a seeded forge, packages to publish.

pub mod forge;
pub mod package;
pub mod registry;
pub mod server;
