//! Waits with deadlines, PostgreSQL servers, and a faulty connection: for the tests of all crates.

pub mod databases;
pub mod postgres;
pub mod proxy;
pub mod wait;
pub mod wait_async;
