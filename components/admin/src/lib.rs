//! The supporting component: it alone writes the directory that the areas read.
//!
//! | endpoint, below `/api/v4` | |
//! |---|---|
//! | `POST /import/directory` | upserts users, tokens, groups, projects, members, settings and features, one JSON object a line |
//! | `GET, PUT /application/settings` | settings of the whole service; secrets can be set and are never shown |
//! | `GET /features` | every feature that was touched |
//! | `POST, DELETE /features/:name` | switches a feature on or off, for all or for some; forgets it |
//! | `POST /personal_access_tokens` | makes a token for a user and shows it once |
//! | `POST /maintenance/admin/gc`, `…/fsck` | a step of removing garbage of the catalog, or of checking every record ([`kit::maintenance`]) |
//!
//! Every endpoint is for administrators with the scope `api`. What is wrong with a request is
//! looked for in this order: 401, the token's scope, 400, 403, 404.
//!
//! It has no keys of its own: records and their keys are those of the crate `directory`.

pub mod api;
mod bad_line;
#[cfg(target_family = "wasm")]
mod entry;
mod features;
mod import;
mod input;
mod record;
mod route;
mod settings;
mod tokens;
