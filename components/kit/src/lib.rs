//! Mechanism that every component shares. Knows no area, no URL and no key.
//!
//! | module | what it is |
//! |---|---|
//! | [`request`], [`response`], [`body`] | one HTTP exchange as plain values, bodies streamed |
//! | [`path`], [`params`], [`page`] | the raw path split before decoding, parameters and their coercion, offset pagination |
//! | [`error`] | every error answer's status and shape |
//! | [`store`], [`root`], [`blob`] | the key-value port, roots moved by compare-and-swap, immutable blobs cached by key |
//! | [`ndjson`] | imports of one record a line, and what is told about them |
//! | [`outbound`] | the port for requests to other servers |
//! | [`instance_cache`] | what an instance keeps of its own making across requests |
//! | [`reachability`], [`gc`], [`fsck`], [`maintenance`] | everything that roots reach, removal of what they do not, checks, and who asks for both |
//! | [`rate_limit`] | counted requests |
//! | [`clock`], [`id`], [`variables`], [`env`] | time, randomness, configuration and storage, handed to the rules as values |
//! | `testing` | test doubles of the ports (feature `testing`) |
//! | `wasi` | the only module that knows a foreign type (wasm only) |
//!
//! Deliberately absent: routing macros, a global state, any I/O outside `wasi`.

pub mod blob;
pub mod body;
pub mod clock;
pub mod env;
pub mod error;
pub mod fsck;
pub mod gc;
pub mod id;
pub mod instance_cache;
pub mod maintenance;
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
pub mod variables;
#[cfg(target_family = "wasm")]
pub mod wasi;

pub use body::Body;
pub use clock::Timestamp;
pub use env::Env;
pub use error::Error;
pub use request::Request;
pub use response::Response;
