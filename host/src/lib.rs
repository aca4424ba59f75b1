//! The host: a manifest's components behind one HTTP address, each in a sandbox of its own.
//!
//! Everything that [`cli::Up`] does is here as a library, so that tests can do it without a
//! socket: make a [`Runtime`] (once per process), read a [`Manifest`], start a [`Host`], and
//! [`handle`](Host::handle) requests, or [`listen`](Host::listen).
//!
//! Inside, from the client to the store:
//!
//! | module | knows |
//! |---|---|
//! | `acceptor`, `connection` | sockets, TLS and HTTP versions |
//! | `ingress` | who may connect, and what is believed of a request's way here |
//! | `shard` | threads: a connection, its instances and its reads stay on one |
//! | `application` | the way of one request; the only file that maps failures to statuses |
//! | `router` | paths |
//! | `exchange`, `body`, `reply`, `request_id`, `credentials` | one request: its clock, its limits, its bodies, its id, its caller |
//! | `maintenance` | the requests that the host sends to components by itself |
//! | `memo`, `testimony` | answers that are given again, and what they rest on |
//! | `component` | slots, generations, instances, canaries; when an instance ends |
//! | `deploy` | which generation may take a slot, and what a restart serves |
//! | `admin` | the operator's own listener |
//! | `guest` | what an instance may reach |
//! | `outbound` | HTTP requests of guests to others |
//! | `keyvalue`, `variables`, `config` | the interfaces that guests import |
//! | `places` | a bound on what goes on at once |
//! | `store` | keys, values, and when they are durable |
//! | `runtime` | the engine and compiled code |
//! | `metrics`, `trace` | what is counted, and what is told of single requests |
//! | `manifest` | `spin.toml` |
//! | `random` | tokens |
//! | `cli` | the commands of a program that serves an application |

mod acceptor;
pub mod admin;
mod application;
mod body;
pub mod cli;
pub mod component;
mod config;
mod connection;
mod credentials;
pub mod deploy;
mod exchange;
mod guest;
mod host;
pub mod ingress;
mod keyvalue;
mod maintenance;
pub mod manifest;
pub mod memo;
mod memory;
mod metrics;
pub mod outbound;
mod places;
pub mod random;
mod reply;
mod request_id;
mod router;
mod runtime;
mod shard;
pub mod store;
mod testimony;
mod throttle;
pub mod trace;
mod variables;

pub use body::{BodyError, ResponseBody};
pub use host::{Host, Options, StartError};
pub use maintenance::MaintenanceError;
pub use manifest::Manifest;
pub use runtime::{Digest, Runtime, RuntimeError};
