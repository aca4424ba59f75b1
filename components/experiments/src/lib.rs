//! Experiments: their definitions and their rollout.
//!
//! | endpoint, below `/api/v4` | |
//! |---|---|
//! | `GET /experiments` | lists all experiments, for members of the operator's group on the hosted site |
//! | `POST /import/experiments` | adds, replaces and deletes definitions (NDJSON), for administrators |
//! | `POST /maintenance/experiments/fsck` | checks the definitions ([`kit::maintenance`]), for administrators |
//!
//! | key | root |
//! |---|---|
//! | `experiments/v1/definitions` | every definition, in the order in which they were added |
//!
//! No root names a blob, so the area has no garbage to collect.
//!
//! An experiment has the gates of the feature of its name, which the admin area sets. A list costs 5 reads: the
//! catalog's root, the token, settings, definitions and features. If the root has changed, 4 more reads get the user,
//! the operator's group and the memberships. An instance caches the rendered list.

pub mod api;
#[cfg(target_family = "wasm")]
mod entry;
pub mod route;
pub mod store;
