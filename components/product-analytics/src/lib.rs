//! Product analytics: queries and metadata requests for a project, passed on to the analytics
//! engine that the settings name. A beta, behind the feature `product_analytics_features`.
//!
//! | endpoint, below `/api/v4/projects/:id/product_analytics/request` | |
//! |---|---|
//! | `POST /load` | runs a query and answers with its result |
//! | `POST /dry-run` | checks a query and answers with what the engine makes of it |
//! | `GET, POST /meta` | what can be asked for |
//!
//! What is wrong with a request is looked for in this order: 401, the token's scope, the parameters
//! (400), whether the caller may read the project (404), whether analytics is there for it (404).
//! Then the engine is called, once, and its answer decides ([`answer`]).
//!
//! The engine of a project is the one in its own record, or else in the settings
//! `analytics_api_base_url` and `analytics_api_key` ([`engine`]). The key signs a token for each
//! call ([`token`]) and never leaves this component in any other form. Where it is stored it is sealed,
//! if there is a key for that ([`directory::seal`]).
//!
//! # Cost
//!
//! No keys of its own: only the directory is read. Beside the caller (2 reads) and the project (1,
//! 1 for each namespace, and 1 for the caller's memberships): settings 1, features 1. An answer of
//! at most 64 KiB is looked at as a whole; of a longer one only the beginning is, and the rest is
//! streamed, byte for byte, a chunk at a time ([`passage`]). One that has gaps to be filled ([`gap`]) is held as a
//! whole, up to the limit.

pub mod answer;
pub mod api;
pub mod engine;
#[cfg(target_family = "wasm")]
mod entry;
pub mod gap;
pub mod outline;
mod passage;
pub mod query;
mod route;
pub mod token;
