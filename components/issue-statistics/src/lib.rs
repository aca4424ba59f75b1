//! Counts of issues by every filter, from an inverted index.
//!
//! | endpoint, below `/api/v4` | |
//! |---|---|
//! | `GET /issues_statistics` | of all issues that the caller may see, or of those created by or assigned to them |
//! | `GET /groups/:id/issues_statistics` | of a group and everything below it |
//! | `GET /projects/:id/issues_statistics` | of a project |
//! | `POST /import/issues` | upserts and deletes issues, one JSON object a line; for administrators |
//! | `POST /maintenance/issue-statistics/gc`, `…/fsck` | a step of garbage collection, or of a check of everything ([`kit::maintenance`]); for administrators |
//!
//! Errors of a request take precedence in this order: 401, the token's scope, 400, 404.
//!
//! | key, below `issue-statistics/v1/` | value |
//! |---|---|
//! | `index` | root: the [manifest], the list of segments and their tombstones, with the [checksum] of each |
//! | `segment/<id>/head` | blob: the header of a [segment], with the first key and the checksum of each page |
//! | `segment/<id>/<table>/<number>` | blob: a page of a [table], of at most 64 KiB, or a MiB of one longer value |
//! | `dead/<id>` | blob: the tombstones of a segment, a [set] of documents |
//! | `gc/<run>/…` | blob: marks of a run of [`kit::gc`] or [`kit::fsck`], until the run ends |
//! | `rate/<slot>` | root: the latest searches of users, if they are limited |
//!
//! The key `issue-statistics/v2/segments` exists if the [analyzer](text) of format 2 made segments. Hosts then refuse
//! to load a component that reads format 1 only. All other keys are the same in both formats.
//!
//! A count first decides what the caller may read ([`authorization`]). Then it queries each segment and adds the counts
//! up ([`count`]). In each segment it intersects the documents of readable projects with the documents of each filter.
//! The projects come from the directory's catalog, so moving a project or group changes no index.
//!
//! An instance [caches](cache) pages and results; a cache key contains the ids of all inputs. A count reads 5 records
//! if all its results are cached. Otherwise it reads a page or two for each filter and segment.
//!
//! An import adds one segment for each batch ([`segment::builder`]), completely or not at all. Segments of similar size
//! are merged ([`merge_policy`], [`index_writer`]). The memory of a batch and of a merge is bounded, and so is the
//! [cost](query_cost) of a count.
//!
//! Every blob that is read from the store is compared with its [checksum]. The manifest has none. Segments of earlier
//! builds get checksums when they are merged. Until then, a check compares their tables with each other
//! ([`segment::consistency`]).

pub mod api;
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
mod parameters;
mod query_cost;
mod route;
mod segment;
mod serde_base64;
mod set;
mod store;
mod table;
mod text;
mod varint;
mod visibility;
