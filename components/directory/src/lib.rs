//! Records that several areas read: users, tokens, groups, projects, members, settings, features.
//!
//! Every area authenticates ([`caller`]) and authorizes ([`access`]) its callers here, and looks up the record of a
//! path or id ([`project`], [`namespace`], [`user`]). Only the admin component writes, with two exceptions. Every area
//! records when a token was last used, and how many invalid tokens an address has sent.
//!
//! | key, below `directory/v1/` | record |
//! |---|---|
//! | `user/<id>` | user |
//! | `token/<SHA-256 of the token, hex>` | token: its subject, scopes, expiry |
//! | `tokens/<user id>` | the user's personal tokens: number, fingerprint, description, creation |
//! | `tokens/migration` | progress of listing tokens that are older than `tokens/…` |
//! | `token-use/v1/<fingerprint>`, beside `directory/` | the token's last use; every area writes it |
//! | `token-use/v1/refused/<slot>` | counts of invalid credentials by address; every area writes it ([`kit::rate_limit`]) |
//! | `token-use/v1/rate/<limit>/<slot>` | counts of writes by user, and of records by address ([`request_limits`]) |
//! | `namespace/<id>` | group, or personal namespace of a user; names its parent by id |
//! | `project/<id>` | project; names its namespace by id |
//! | `path/<namespace id, 0 at the top>/<segment in lower case>` | the present or former owner of the path; stays when the owner is deleted |
//! | `access/<user id>` | all direct memberships of a user |
//! | `settings` | settings with a value, by name |
//! | `features` | gates of every feature, by name |
//! | `demo` | whether the demo is loaded, or being loaded |
//! | `catalog` | the revision of the catalog, a copy of the records above for lists and counts |
//! | `catalog/blob/<id>` | a part of the catalog (immutable) |
//! | `catalog/changes` | intents: changes that may not be in the catalog yet |
//! | `gc/<run>/…` | marks of a run of [`kit::gc`] or [`kit::fsck`], until it ends (immutable) |
//!
//! | question | reads |
//! |---|---|
//! | who is this user (with their token)? | 2 |
//! | which project has this id? | 1, and 1 for each namespace above |
//! | which project has this path? | 2 for each segment |
//! | what is the caller's role here? | 1 for all questions of a request; more only for invited groups |
//! | settings; is this feature on? | 1 |
//! | users, projects, namespaces and roles, by an instance that read the same records before ([`record_cache`]) | 1 for all questions of a request |
//! | everything about all namespaces and projects, their tree, what a caller may see | 1, and the parts that changed since this instance last read them |
//!
//! Each record is a separate root, so an import can be repeated and interrupted anywhere. No fact is stored twice
//! except in the [`catalog`], which is derived from the records and never used to authenticate. Full paths and
//! inherited roles are computed from parent to parent on demand. So renaming or moving a group takes one write, and
//! records cannot disagree. Deliberately absent: URLs, and responses except for failed authentication and for a moved
//! project.
//!
//! Each layer uses only earlier layers:
//! - plain values (`model`, `glob`, [`service_url`]);
//! - keys and stored records (`store`);
//! - look-ups and changes ([`path`], [`namespace`], [`project`], [`user`], [`member`], [`token`], [`feature`],
//!   [`setting`], [`default_branch`]);
//! - authentication ([`caller`]);
//! - authorization ([`access`], [`protection`]);
//! - the [`catalog`] with a caller's access to all of it;
//! - the [`record_cache`], [`reauthorization`], the [`dependents`] of deleted and moved records, and the state of the
//!   [`demo`].

pub mod access;
pub mod caller;
pub mod catalog;
mod consistency;
pub mod default_branch;
pub mod demo;
pub mod dependents;
pub mod feature;
pub mod glob;
#[cfg(test)]
mod golden;
pub mod member;
mod model;
pub mod namespace;
pub mod path;
pub mod project;
pub mod protection;
mod reachability;
pub mod reauthorization;
pub mod record_cache;
pub mod redirect;
pub mod request_limits;
mod save_error;
pub mod seal;
pub mod service_url;
pub mod setting;
mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod token;
pub mod user;

pub use reachability::DirectoryRoots;
pub use save_error::{InvalidRecord, SaveError};
