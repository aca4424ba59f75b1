//! The library that every component shares. It knows no area, no URL and no stored key.
//!
//! | module | what it is |
//! |---|---|
//! | [`request`], [`response`], [`body`] | an HTTP request and its response as plain values, with streamed bodies |
//! | [`path`], [`url`], [`params`], [`input`], [`page`], [`keyset`] | paths, hosts of URLs, request parameters and their coercion, parameters in bodies, offset and keyset pagination |
//! | [`error`] | error responses |
//! | [`store`], [`root`], [`blob`], [`list`] | the key-value port, roots that compare-and-swap updates, cached immutable blobs, sorted lists of any length |
//! | [`ndjson`] | NDJSON imports and their reports |
//! | [`outbound`] | the port for outbound HTTP requests |
//! | [`markdown`] | bounds of Markdown that is parsed |
//! | [`instance_cache`], [`lru`] | derived values, cached across the requests of an instance; a cache that is bounded by bytes |
//! | [`reachability`], [`gc`], [`fsck`], [`maintenance`] | which blobs roots reach, garbage collection, checks, and the requests for both |
//! | [`rate_limit`] | rate limits |
//! | [`clock`], [`id`], [`variables`], [`env`] | time, randomness, configuration and storage as values and ports |
//! | `testing` | test doubles of the ports (feature `testing`) |
//! | `wasi` | the adapter to WASI, the only module with foreign types (wasm only) |
//!
//! Deliberately absent: routing macros, global state, any I/O outside `wasi`.

pub mod blob;
pub mod body;
pub mod clock;
#[cfg(any(test, target_family = "wasm"))]
mod compare;
pub mod env;
pub mod error;
#[cfg(any(test, target_family = "wasm"))]
mod field_lines;
pub mod fsck;
pub mod gc;
pub mod id;
pub mod input;
pub mod instance_cache;
#[cfg(any(test, target_family = "wasm"))]
mod kept_bodies;
pub mod keyset;
pub mod list;
pub mod lru;
pub mod maintenance;
pub mod markdown;
pub mod ndjson;
pub mod outbound;
pub mod page;
pub mod params;
pub mod path;
pub mod rate_limit;
pub mod reachability;
pub mod request;
pub mod response;
pub mod root;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
pub mod url;
pub mod variables;
#[cfg(target_family = "wasm")]
pub mod wasi;

pub use body::Body;
pub use clock::Timestamp;
pub use env::Env;
pub use error::Error;
pub use request::Request;
pub use response::Response;
