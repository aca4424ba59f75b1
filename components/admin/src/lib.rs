//! The admin area: the only component that writes the directory that all areas read.
//!
//! | endpoint, below `/api/v4` | |
//! |---|---|
//! | `POST /import/directory` | upserts users, tokens, groups, projects, members, settings and features, one JSON object a line |
//! | `POST /import/demo` | begins or finishes loading the demo of `hexad up --demo`; refused where the store has other records |
//! | `GET, PUT /application/settings` | settings of the whole service; secrets can be set and are never shown |
//! | `GET /features` | every feature with a record |
//! | `POST, DELETE /features/:name` | switches a feature on or off, for all or for some actors; deletes it |
//! | `GET, POST /personal_access_tokens`, `POST /users/:id/personal_access_tokens` | the caller's tokens, or for an administrator those of all users; makes a token for a user and shows it once |
//! | `GET, DELETE /personal_access_tokens/:id`, `…/self` | shows or revokes a token |
//! | `POST /personal_access_tokens/:id/rotate`, `…/self/rotate` | revokes a token and makes its successor, which is shown once |
//! | `GET, POST <registry>/-/npm/v1/tokens`, `DELETE …/tokens/token/:key`, `DELETE <registry>/-/user/token/:token` | the same for npm, about the caller's own tokens |
//! | `POST /maintenance/admin/gc`, `…/fsck` | a step of garbage collection of the catalog, or of checking every record ([`kit::maintenance`]) |
//!
//! Every endpoint except the token endpoints is for administrators with the scope `api` (`read_api` suffices to read).
//! A token of any scope may show and revoke itself. A request is checked in this order: 401, the token's scope, 400,
//! 403, 404.
//!
//! The area has no keys of its own. The crate `directory` defines records and keys.

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
mod token_list;
mod tokens;
