//! Errors of saving a record.

use crate::model::namespace::{MAX_DEPTH, PathOwner};
use kit::store::StoreError;
use thiserror::Error;

/// The reason why a record is refused. The text is for the client that sent it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidRecord {
    #[error(
        "path `{0}` can only have letters, digits, `_`, `-` and `.`, at most 255 of them, and cannot start with `-` or end in `.`, `.git` or `.atom`"
    )]
    InvalidPath(String),
    #[error("path `{path}` is taken by {by}")]
    PathTaken { path: String, by: PathOwner },
    #[error("namespace {0} is not known; groups and users come before what is in them")]
    UnknownNamespace(u64),
    #[error("namespace {0} is a personal namespace, which has no subgroups")]
    NotAGroup(u64),
    #[error("group {0} cannot be moved below itself")]
    OwnAncestor(u64),
    #[error("groups nest at most {} deep", MAX_DEPTH)]
    TooDeep,
    /// The namespace id belongs to a group or to another user.
    #[error("namespace id {0} belongs to another user or group")]
    NamespaceIdTaken(u64),
    /// All `records` together would take more than `limit` bytes.
    #[error("the {records} would take more than {limit} bytes")]
    TooLarge { records: &'static str, limit: usize },
}

/// The reason why a record was not saved: it is refused, or storage failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SaveError {
    #[error(transparent)]
    Invalid(#[from] InvalidRecord),
    #[error(transparent)]
    Store(#[from] StoreError),
}
