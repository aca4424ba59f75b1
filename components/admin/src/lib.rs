//! The admin area: the only component that writes the directory that all areas read.
//!
//! | endpoint, below `/api/v4` | |
//! |---|---|
//! | `POST /import/directory` | upserts users, tokens, groups, projects, members, settings and features, one JSON object a line |
//! | `GET, PUT /application/settings` | settings of the whole service; secrets can be set and are never shown |
//! | `GET /features` | every feature with a record |
//! | `POST, DELETE /features/:name` | switches a feature on or off, for all or for some actors; deletes it |
//! | `POST /personal_access_tokens` | makes a token for a user and shows it once |
//! | `POST /maintenance/admin/gc`, `…/fsck` | a step of garbage collection of the catalog, or of checking every record ([`kit::maintenance`]) |
//!
//! Every endpoint is for administrators with the scope `api` (`read_api` suffices to read). A request
//! is checked in this order: 401, the token's scope, 400, 403, 404.
//!
//! It has no keys of its own: the crate `directory` defines records and keys.

pub mod api;
#[cfg(target_family = "wasm")]
mod entry;
mod features;
mod import;
mod line_error;
mod parameters;
mod record;
mod route;
mod settings;
mod tokens;
