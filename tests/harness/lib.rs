//! What the tests and the benchmark share: a running host, a seeded forge, packages to publish.

// A harness may fail loudly: that is how a test says what is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod forge;
pub mod package;
pub mod registry;
pub mod server;
