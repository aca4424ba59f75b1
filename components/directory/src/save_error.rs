//! Errors of saving a record.

use crate::model::address::PathOwner;
use crate::model::namespace::MAX_DEPTH;
use kit::store::StoreError;
use std::fmt;

/// The reason why a record is refused. The text is for the client that sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidRecord {
    InvalidPath(String),
    PathTaken {
        path: String,
        by: PathOwner,
    },
    UnknownNamespace(u64),
    NotAGroup(u64),
    OwnAncestor(u64),
    TooDeep,
    /// The namespace id belongs to a group or to another user.
    NamespaceIdTaken(u64),
    /// All `records` together would take more than `limit` bytes.
    TooLarge {
        records: &'static str,
        limit: usize,
    },
}

impl fmt::Display for InvalidRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidRecord::InvalidPath(path) => {
                write!(
                    f,
                    "path `{path}` can only have letters, digits, `_`, `-` and `.`, at most 255 of them, and cannot start with `-` or end in `.`, `.git` or `.atom`"
                )
            }
            InvalidRecord::PathTaken { path, by: PathOwner::Namespace(id) } => {
                write!(f, "path `{path}` is taken by namespace {id}")
            }
            InvalidRecord::PathTaken { path, by: PathOwner::Project(id) } => {
                write!(f, "path `{path}` is taken by project {id}")
            }
            InvalidRecord::UnknownNamespace(id) => {
                write!(f, "namespace {id} is not known; groups and users come before what is in them")
            }
            InvalidRecord::NotAGroup(id) => write!(f, "namespace {id} is a personal namespace, which has no subgroups"),
            InvalidRecord::OwnAncestor(id) => write!(f, "group {id} cannot be moved below itself"),
            InvalidRecord::TooDeep => write!(f, "groups nest at most {} deep", MAX_DEPTH),
            InvalidRecord::NamespaceIdTaken(id) => write!(f, "namespace id {id} belongs to another user or group"),
            InvalidRecord::TooLarge { records, limit } => write!(f, "the {records} would take more than {limit} bytes"),
        }
    }
}

/// The reason why a record was not saved: it is refused, or storage failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaveError {
    Invalid(InvalidRecord),
    Store(StoreError),
}

impl From<InvalidRecord> for SaveError {
    fn from(invalid: InvalidRecord) -> Self {
        SaveError::Invalid(invalid)
    }
}

impl From<StoreError> for SaveError {
    fn from(error: StoreError) -> Self {
        SaveError::Store(error)
    }
}
