//! Product analytics: a proxy for a project's queries and metadata requests to the analytics engine
//! that the settings name. A beta, behind the feature `product_analytics_features`.
//!
//! | endpoint, below `/api/v4/projects/:id/product_analytics/request` | |
//! |---|---|
//! | `GET, POST /load` | runs a query, or several to be blended, and returns the result |
//! | `GET, POST /dry-run` | checks a query and returns the engine's analysis |
//! | `GET, POST /meta` | the measures and dimensions that queries can use |
//!
//! The project is named by its id or its full path. Errors have their text as `message` and as `error`,
//! which the engine's client shows.
//!
//! Checks come in this order: 401; the token's scope; the parameters (400). Then 404, if the caller may not read the
//! project, or if analytics is not enabled for it. Then 403, if the settings or the project require a higher role, or
//! if the caller is an external user without membership. Then the engine is called once, and its response decides
//! ([`response`]).
//!
//! The engine of a project is configured in the project's record, or else in the settings `analytics_api_base_url` and
//! `analytics_api_key` ([`engine`]). The key signs a token for each call ([`token`]) and is sent in no other form. It
//! is sealed in the store if a sealing key is configured ([`directory::seal`]).
//!
//! # Cost
//!
//! The area stores nothing and only reads the directory: 4 reads, of the catalog's root, the token, settings and
//! features. If the root has changed, the instance also reads the user, the project, its namespaces and the user's
//! memberships. A response of at most 64 KiB is parsed as a whole. Of a longer response, only the beginning is scanned,
//! and the rest is streamed unchanged ([`pass_through`]). A response with gaps to fill ([`gap_filling`]) is buffered as
//! a whole, up to the limit.

pub mod api;
pub mod engine;
#[cfg(target_family = "wasm")]
mod entry;
pub mod gap_filling;
mod pass_through;
pub mod query;
pub mod response;
mod route;
