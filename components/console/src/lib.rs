//! The console: pages for people. It has no storage, and its only network is the application itself. It calls the API
//! as every client does, with the visitor's own token, so that no page shows more than the API answers. Pages are
//! rendered here and work without scripts; a small script adds comfort.
//!
//! | page | shows |
//! |---|---|
//! | `/` | a search over packages; what this server is |
//! | `/packages?project=`, `?group=` | the packages of a project or of a group |
//! | `/packages/:name`, with `?project=` or `?group=` | a package; tagging, deprecating, unpublishing, if permitted |
//! | `/issues`, with `?project=` or `?group=` | counts of issues, by filters, month, label and milestone |
//! | `/merge_requests?project=` | the merge requests of a project |
//! | `/merge_requests/:project/:iid` | discussions with their suggestions; applying them |
//! | `/namespaces`, `/namespaces/:path` | namespaces; one, with its projects and groups |
//! | `/analytics/:project` | a query of product analytics, its chart and its table |
//! | `/experiments` | experiments and their gates |
//! | `/admin` | tokens, features, settings, for administrators |
//! | `/-/sign-in`, `/-/sign-out` | the session: a cookie with the visitor's sealed token |
//! | `/:group`, `/:user`, `/:group/:project`, `/groups/:group` | 302 to the namespace, as the API's `web_url` is |
//! | any other address of one or two parts | 404; programs get JSON |
//! | `/-/console.css`, `/-/console.js`, `/-/icon.svg` | static files |
//!
//! A page costs its requests to the API ([`forge`]), 1 more for a visitor with a session (for the user), and the time
//! to render it.

pub mod api;
#[cfg(target_family = "wasm")]
mod entry;
mod forge;
mod layout;
mod markdown;
mod page_context;
mod pages;
mod route;
mod session;
