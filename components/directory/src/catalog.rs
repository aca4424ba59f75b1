//! One consistent snapshot of all namespaces and projects, for lists, searches and counts.
pub mod access_snapshot;
pub(crate) mod columns;
pub mod intent_log;
mod load;
pub(crate) mod manifest;
pub mod member;
mod row;
mod snapshot;
pub(crate) mod table;
mod tree;

pub use columns::Texts;
pub use load::read;
pub use snapshot::{Catalog, Columns, Namespace, Project, TreeVersion};

#[cfg(test)]
mod tests;
