//! Experiments: which there are, and for whom each is rolled out.
//!
//! | endpoint, below `/api/v4` | |
//! |---|---|
//! | `GET /experiments` | all of them, for the people of the operator's team on the hosted site |
//! | `POST /import/experiments` | upserts definitions, one JSON object a line; administrators |
//!
//! | key | root |
//! |---|---|
//! | `experiments/v1/definitions` | every definition, in the order in which they came |
//!
//! The gates of an experiment are those of the feature of its name, which the admin area sets. A
//! list costs 5 reads: 2 for who is asking, settings, the caller's memberships and the operator's
//! group (2), and both roots it is made of, whose answer an instance keeps.

pub mod api;
pub mod definition;
#[cfg(target_family = "wasm")]
mod entry;
pub mod import;
pub mod route;
pub mod store;
