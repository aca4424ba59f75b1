//! The host: serves a manifest's components behind one HTTP address, each in a sandbox of its own.
//!
//! [`cli::Up`] is a thin command over this library, so that tests can do the same without a socket. Make a [`Runtime`]
//! (once per process), read a [`Manifest`], start a [`Host`], and [`handle`](Host::handle) requests, or
//! [`listen`](Host::listen).
//!
//! The host is made of these crates. Each uses only crates above it:
//!
//! | crate | what |
//! |---|---|
//! | `support` | files, throttles, TLS, threads |
//! | `telemetry` | counters, the access log, request ids, targets without secrets |
//! | `testing` | waits and PostgreSQL servers of tests |
//! | `store` | keys and values, and when they are durable: the contract of an engine |
//! | `store-sqlite`, `store-postgres` | the engines |
//! | `engine` | the engine that a host was started with, and copies of whole stores |
//! | `limits` | permits, instances, memory, processor time |
//! | `http` | bodies, origins, nested requests, buffered and cached responses |
//! | `trace` | the spans of requests |
//! | `imports` | the interfaces that guests call: key-value store, variables, outbound HTTP |
//! | `manifest` | `spin.toml`, and the routes of paths |
//! | `runtime` | a request, from its connection to its component and back |
//! | `deploy` | decides which revision a service gets, also after a restart |
//! | `admin` | the operator's listener: status, metrics, swaps, pages |
//! | `host` | starts and stops all of this; maintenance |
//! | `hexad` | the commands of a program that serves an application |

pub mod cli;

pub use hexad_admin as admin;
pub use hexad_deploy as deploy;
pub use hexad_host::{Host, HostOptions, Reloader, StartError, validation};
pub use hexad_http::{BodyError, ResponseBody, send_buffer};
pub use hexad_imports as imports;
pub use hexad_limits::{anonymous_work, memory_budget};
pub use hexad_manifest::{self as manifest, Manifest};
pub use hexad_runtime::{Runtime, RuntimeError, component};
pub use hexad_support::{Digest, private_files, random};
pub use hexad_telemetry::access_log;
pub use hexad_trace as trace;

/// The settings of a listener.
pub mod ingress {
    pub use hexad_http::forwarding::{ForwardedFamily, Forwarding};
    pub use hexad_http::origin::RequestOrigin;
    pub use hexad_runtime::ingress::*;
}

/// The store, its engines, and copies of whole stores.
pub mod store {
    pub use hexad_engine::{Engine, EngineError, StoreMonitor, copy};
    pub use hexad_store::*;
    pub use hexad_store_postgres as postgres;
    pub use hexad_store_sqlite as sqlite;
}
