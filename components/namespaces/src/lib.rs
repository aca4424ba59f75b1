//! Namespaces: groups, and the personal namespaces of users.
//!
//! | endpoint, below `/api/v4` | |
//! |---|---|
//! | `GET /namespaces` | those of the caller, or all of them for an administrator; search, pages |
//! | `GET /namespaces/:id` | one that the caller belongs to |
//! | `GET /namespaces/:namespace/exists` | whether a path is taken, and one that is not |
//!
//! Every endpoint needs a user and the scope `api` or `read_api`. What is wrong with a request is
//! looked for in this order: 401, the token's scope, 400, 404.
//!
//! | key | |
//! |---|---|
//! | `namespaces/v1/rate/exists/<slot>` | who asked lately whether a path is taken, if that is limited ([`kit::rate_limit`]) |
//!
//! Lists and searches are answered from the directory's catalog, of which
//! an instance keeps the texts in lower case ([`text`]) and the rows that the last searches found
//! ([`list`]): a page costs the reads of authentication, one of the catalog's root, and for the
//! fields of each group the members below it, which an instance counts once for a revision
//! ([`member`]).
//!
//! | question | reads |
//! |---|---|
//! | a page of the list | 3, with the caller's memberships 4, and features and settings 2 |
//! | one namespace by id | the same |
//! | one by path | 2 more for each segment |
//! | is a path taken? | 4; with a limit one more and a swap |

pub mod alternative;
pub mod api;
pub mod entity;
#[cfg(target_family = "wasm")]
mod entry;
pub mod list;
pub mod member;
pub mod query;
pub mod route;
pub mod text;
