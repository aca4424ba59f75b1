//! Counts of issues, by every filter.
//!
//! | endpoint, below `/api/v4` | |
//! |---|---|
//! | `GET /issues_statistics` | of all issues that the caller may see, or of those created by or assigned to them |
//! | `GET /groups/:id/issues_statistics` | of a group and everything below it |
//! | `GET /projects/:id/issues_statistics` | of a project |
//! | `POST /import/issues` | upserts and deletes issues, one JSON object a line; for administrators |
//! | `POST /maintenance/issue-statistics/gc`, `…/fsck` | a step of removing garbage, or of checking everything ([`kit::maintenance`]); for administrators |
//!
//! What is wrong with a request is looked for in this order: 401, the token's scope, 400, 404.
//!
//! | key, below `issue-statistics/v1/` | value |
//! |---|---|
//! | `index` | the root: which [segments](segment) there are, and which of their documents were superseded |
//! | `segment/<id>/head` | blob: size of a segment, and the first keys of its tables' pages |
//! | `segment/<id>/<table>/<number>` | blob: a page of at most 64 KiB, or one longer value |
//! | `dead/<id>` | blob: a set of documents of one segment |
//! | `gc/<run>/…` | blob: what a run of [`kit::gc`] or [`kit::fsck`] has marked, while it goes on |
//! | `rate/<slot>` | root: how often who searched lately, if that is limited |
//!
//! A question is asked of each segment, and the counts added up: the documents of the projects that
//! the caller may see, cut with the documents of each filter. Which projects those are is told by the
//! directory at that moment, so that moving a project or group changes no index. An instance keeps
//! what it has read and made ([`cache`]), each thing under the ids of all that it was made of; a
//! question it has all for reads 5 records, and else a page or two for each filter and segment.
//!
//! An import becomes a segment for each batch ([`segment::builder`]), whole or not at all, and
//! segments of about the same size are merged ([`index_writer`]).

pub mod api;
mod authorization;
mod cache;
mod count;
#[cfg(target_family = "wasm")]
mod entry;
mod facet;
mod filter;
#[cfg(test)]
mod golden;
mod hash;
mod import;
mod index_writer;
mod issue;
mod manifest;
mod merge_policy;
mod milestone;
mod parameters;
mod route;
mod segment;
mod serde_base64;
mod set;
mod store;
mod table;
mod text;
mod varint;
mod visibility;
