//! The host: a manifest's components behind one HTTP address, each in a sandbox of its own.
//!
//! Everything that [`cli::Up`] does is here as a library, so that tests can do it without a
//! socket: make a [`Runtime`] (once per process), read a [`Manifest`], start a [`Host`], and
//! [`handle`](Host::handle) requests, or [`listen`](Host::listen).
//!
//! Inside, from the client to the store:
//!
//! | module | what it is |
//! |---|---|
//! | `acceptor`, `connection` | sockets, TLS and HTTP versions |
//! | `ingress` | connection limits, and which forwarded headers are trusted |
//! | `shard` | threads: a connection, its instances and its reads stay on one |
//! | `application` | the way of one request; the only file that maps failures to statuses |
//! | `router` | paths |
//! | `request_context`, `request_body`, `body`, `reply`, `request_id`, `credentials` | one request: its clock, its bodies, its id, its caller |
//! | `maintenance` | the requests that the host sends to components by itself |
//! | `response_cache` | responses that are given again, and the keys that they read |
//! | `component` | slots, generations, instances, canaries; when an instance ends |
//! | `deploy` | which generation may take a slot, and what a restart serves |
//! | `admin` | the operator's own listener, its status and its metrics |
//! | `guest` | the state of one instance |
//! | `imports` | the interfaces that guests import: key-value store, variables, outbound HTTP |
//! | `concurrency_limit` | a bound on concurrent work, with a bounded queue |
//! | `store` | keys, values, and when they are durable |
//! | `runtime` | the engine and compiled code |
//! | `metrics`, `trace` | counters, and spans of single requests |
//! | `manifest` | `spin.toml` |
//! | `random` | tokens |
//! | `cli` | the commands of a program that serves an application |

mod acceptor;
pub mod admin;
mod application;
mod body;
pub mod cli;
pub mod component;
mod concurrency_limit;
mod connection;
mod credentials;
pub mod deploy;
mod deployment_event;
mod digest;
mod guest;
mod host;
pub mod imports;
pub mod ingress;
mod log_throttle;
mod maintenance;
pub mod manifest;
mod memory;
mod metrics;
pub mod random;
mod reply;
mod request_body;
mod request_context;
mod request_id;
mod request_target;
pub mod response_cache;
mod router;
mod runtime;
mod shard;
mod stop;
pub mod store;
pub mod trace;

pub use body::{BodyError, ResponseBody};
pub use digest::Digest;
pub use host::{Host, Options, StartError};
pub use maintenance::MaintenanceError;
pub use manifest::Manifest;
pub use runtime::{Runtime, RuntimeError};
