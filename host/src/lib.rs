//! The host: serves a manifest's components behind one HTTP address, each in a sandbox of its own.
//!
//! [`cli::Up`] is a thin command over this library, so that tests can do the same without a socket. Make a [`Runtime`]
//! (once per process), read a [`Manifest`], start a [`Host`], and [`handle`](Host::handle) requests, or
//! [`listen`](Host::listen).
//!
//! A request passes through these modules, in this order:
//!
//! | module | what it does |
//! |---|---|
//! | `acceptor` | accepts connections and gives each to a shard |
//! | `ingress` | limits connections, holds certificates, reads forwarded headers |
//! | `shard` | a thread on which a connection, its requests, their guest instances and reads stay |
//! | `connection` | TLS and HTTP on one connection |
//! | `application` | the stages of a request; the only module that maps failures to statuses |
//! | `request_id`, `request_target`, `router` | the request's id, its absolute URI, the route of its path |
//! | `response_cache` | cached responses, and the data that they depend on |
//! | `nested_request` | requests of guests to their own application: their origin, their depth |
//! | `request_context`, `request_body`, `upload_wait` | its clock, writes, outcome and body; the wait for more |
//! | `component` | services, revisions, canaries, circuit breakers, instances, guest calls, response bodies |
//! | `guest` | the state of one instance |
//! | `imports` | the interfaces that guests call: key-value store, variables, outbound HTTP |
//! | `store` | keys and values, and when they are durable |
//! | `request_error` | why a request gets no response of its component |
//! | `send_buffer` | responses that the host buffers for slow clients, and the minimum rate |
//! | `body`, `reply` | the type of response bodies; the responses that the host makes itself |
//!
//! The other modules:
//!
//! | module | what it does |
//! |---|---|
//! | `host` | starts and stops all of this |
//! | `manifest` | `spin.toml` |
//! | `runtime` | the wasmtime engine and the cache of compiled code |
//! | `deploy` | decides which revision a service gets, also after a restart |
//! | `maintenance` | the periodic requests of the host to components |
//! | `admin` | the operator's listener: status, metrics, swaps |
//! | `metrics`, `trace` | counters, and the spans of single requests |
//! | `cli` | the commands of a program that serves an application |
//! | `http_client` | the HTTP client of the commands and of the exporter of traces |
//! | `access_log` | a line for each request |
//! | `credentials` | the credentials that identify callers |
//! | `concurrency_limit`, `log_throttle`, `byte_lru` | limits on concurrent work, log lines, and a cache's bytes |
//! | `tls`, `pem` | the settings of TLS, and the files of certificates and keys |
//! | `named_values` | enums whose values have names in metrics, logs and spans |
//! | `private_files` | files that only the host's user may read |
//! | `redaction` | request targets and URLs for logs, traces and messages, without secrets |
//! | `cpu_scheduler` | the run queue of a shard's CPU-bound guests |
//! | `shared_map` | values by key that live while they are used |
//! | `validation` | whether a host could serve a manifest and its components |
//! | `memory_budget` | the memory of caches, responses, uploads over HTTP/2 and guests together |
//! | `read_bounds` | limits on the bytes read of a connection in one turn, and without a head or data |
//! | `machine` | the memory that the process can have, and its descriptors |
//! | `serving_threads` | the stop signal, and the threads that have ended or panicked |
//! | `digest`, `memory`, `random` | digests of components, the allocator, random tokens |

mod acceptor;
pub mod access_log;
pub mod admin;
pub mod anonymous_work;
mod application;
mod bearer_token;
mod body;
mod bounded_file;
mod byte_lru;
pub mod cli;
pub mod component;
mod concurrency_limit;
mod connection;
mod cpu_scheduler;
mod credentials;
pub mod deploy;
mod digest;
mod guest;
mod host;
mod http_client;
pub mod imports;
pub mod ingress;
mod instance_permit;
mod log_throttle;
mod machine;
mod maintenance;
pub mod manifest;
mod memory;
pub mod memory_budget;
mod metrics;
mod named_values;
mod nested_request;
mod pem;
pub mod private_files;
pub mod random;
mod read_bounds;
mod redaction;
mod reply;
mod request_body;
mod request_context;
mod request_error;
mod request_id;
mod request_target;
pub mod response_cache;
mod router;
mod runtime;
mod secrets;
pub mod send_buffer;
mod serving_threads;
mod shard;
mod shared_map;
pub mod store;
mod tls;
pub mod trace;
mod upload_wait;
pub mod validation;
#[cfg(test)]
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../tests/harness/wait.rs"]
mod wait;
#[cfg(test)]
#[path = "../../tests/harness/wait_async.rs"]
mod wait_async;

pub use body::{BodyError, ResponseBody};
pub use digest::Digest;
pub use host::{Host, HostOptions, Reloader, StartError};
pub use manifest::Manifest;
pub use runtime::{Runtime, RuntimeError};
