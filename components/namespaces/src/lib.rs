//! Namespaces: groups and the personal namespaces of users. Also users, projects and groups for API clients.
//!
//! | endpoint, below `/api/v4` | |
//! |---|---|
//! | `GET /namespaces` | the caller's namespaces, or all of them for an administrator; search, pages |
//! | `GET /namespaces/:id` | a namespace that the caller is a member of |
//! | `GET /namespaces/:namespace/exists` | whether a path is taken, and a free path in its place |
//! | `GET /user` | the caller |
//! | `GET /users`, `/users/:id` | users; search, pages |
//! | `GET /projects`, `/groups/:id/projects`, `/users/:id/projects` | the projects that the caller may read; filters, pages |
//! | `GET /projects/:id` | a project that the caller may read; 301 from a former path |
//! | `GET /groups`, `/groups/:id/subgroups`, `/groups/:id/descendant_groups` | the caller's groups, or all that the caller may read; filters, pages |
//! | `GET /groups/:id` | a group that the caller may read |
//! | `GET /projects/:id/members`, `/groups/:id/members`, each with `/all` and `/:user_id` | the direct members, or all; filters, pages |
//! | `GET /version`, `/metadata` | the version of the interface, and of this service |
//!
//! The endpoints need a user and the scope `api` or `read_api`. Anonymous callers may also read projects and groups.
//! The scope `read_user` suffices for users and the version. Checks come in this order: 401, the token's scope, 400,
//! 404.
//!
//! | key | |
//! |---|---|
//! | `namespaces/v1/rate/exists/<slot>` | counts of `exists` requests, if they are limited ([`kit::rate_limit`]) |
//!
//! Lists and searches use the directory's catalog. An instance caches a text index of it ([`text`]), the results of
//! recent searches ([`list`]), and the users by address (`email_index`). A page costs the reads of authentication, one
//! read of the catalog's root, and the members below each group. An instance counts these members once per revision
//! ([`member`]).
//!
//! | request | reads |
//! |---|---|
//! | a page of the list | 3, with the caller's memberships 4, and features and settings 2 |
//! | one namespace by id | the same |
//! | one by path | 2 more for each segment |
//! | `exists` | 4; with a rate limit one more and a swap |
//! | `/user` | 3 |
//! | a page of users | 3, and 1 for each; with `blocked=true` also 1, and those who are not active, once until the catalog changes; with an `@` in an administrator's search also 1, 1 for each who has the address, and all users once until the catalog changes |
//! | a page of projects | 4, for each its record, those of the namespaces above it and its default branch ([`directory::default_branch`]), and 1 for each of their creators; with `with_merge_requests_enabled=true` also 1, and the records of all candidates, once until the catalog changes |
//! | a page of groups | 4 |
//! | a page of members | 4, the parts of the member table with them, and 1 for each |

pub mod api;
pub mod entity;
#[cfg(target_family = "wasm")]
mod entry;
pub mod group;
pub mod member_list;
pub mod project;
pub mod query;
pub mod route;
pub mod text;
pub mod user;
mod user_search;
mod web_url;
