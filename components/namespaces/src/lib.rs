//! Namespaces: groups, and the personal namespaces of users.
//!
//! | endpoint, below `/api/v4` | |
//! |---|---|
//! | `GET /namespaces` | the caller's namespaces, or all of them for an administrator; search, pages |
//! | `GET /namespaces/:id` | a namespace that the caller is a member of |
//! | `GET /namespaces/:namespace/exists` | whether a path is taken, and a free path in its place |
//!
//! Every endpoint needs a user and the scope `api` or `read_api`. Checks come in this order: 401, the
//! token's scope, 400, 404.
//!
//! | key | |
//! |---|---|
//! | `namespaces/v1/rate/exists/<slot>` | counts of `exists` requests, if they are limited ([`kit::rate_limit`]) |
//!
//! Lists and searches use the directory's catalog. An instance caches a text index of it ([`text`])
//! and the results of recent searches ([`list`]). A page costs the reads of authentication, one of
//! the catalog's root, and for each group the members below it, which an instance counts once per
//! revision ([`member`]).
//!
//! | request | reads |
//! |---|---|
//! | a page of the list | 3, with the caller's memberships 4, and features and settings 2 |
//! | one namespace by id | the same |
//! | one by path | 2 more for each segment |
//! | `exists` | 4; with a rate limit one more and a swap |

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
