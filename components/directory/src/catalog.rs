//! A consistent snapshot of all namespaces and projects, for lists, searches and counts.
//!
//! The records of single namespaces, projects and memberships are authoritative. The request that changes them also
//! derives the catalog from them ([`intent_log`]). An instance caches the tables and reads only changed parts again.
//! Reading an unchanged catalog costs one read.
//!
//! ```ignore
//! let catalog = catalog::read(env)?;
//! let group = catalog.namespace(group_id);
//! let projects = group.projects_below().map(|project| project.id());
//! let snapshot = catalog.access_snapshot(env, &caller)?;
//! let mine = catalog.projects().filter(|project| snapshot.may_read(*project));
//! ```
//!
//! [`Catalog::revision`] changes whenever a namespace, a project, a membership or the state of a user changes. So a
//! result that is derived from a revision can be cached under it. A result of an [`snapshot::AccessSnapshot`]
//! can be cached under the revision and the user's id until [`snapshot::AccessSnapshot::valid_until`].
//!
//! Namespaces and projects below a deleted namespace are not part of the catalog.

pub mod changes;
pub mod intent_log;
pub(crate) mod manifest;
pub mod member;
mod row;
mod snapshot;
pub(crate) mod table;

pub use snapshot::{AccessSnapshot, Catalog, CatalogColumns, NamespaceView, ProjectView, TreeVersion, read};
pub use table::Texts;

#[cfg(test)]
mod tests;
