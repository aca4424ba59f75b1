//! What the tests and the benchmark share: a running host, a seeded forge, packages to publish, a server that
//! answers as it is told.

pub mod forge;
pub mod package;
pub mod registry;
pub mod repository;
pub mod server;
pub mod suggestions;
pub mod upstream;
