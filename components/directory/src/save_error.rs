//! Why a record is not saved.

use crate::path::PathOwner;
use kit::store::StoreError;
use std::fmt;

/// A record contradicts what is there. The text is for the person who sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    BadPath(String),
    Taken {
        path: String,
        by: PathOwner,
    },
    NoNamespace(u64),
    NotAGroup(u64),
    OwnAncestor(u64),
    TooDeep,
    /// The namespace id belongs to a group or to another user.
    NamespaceInUse(u64),
    /// All of `what` together would take more than `limit` bytes.
    Full {
        what: &'static str,
        limit: usize,
    },
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::BadPath(path) => {
                write!(
                    f,
                    "path `{path}` can only have letters, digits, `_`, `-` and `.`, at most 255 of them, and cannot start with `-` or end in `.`, `.git` or `.atom`"
                )
            }
            Rejection::Taken { path, by: PathOwner::Namespace(id) } => {
                write!(f, "path `{path}` is taken by namespace {id}")
            }
            Rejection::Taken { path, by: PathOwner::Project(id) } => {
                write!(f, "path `{path}` is taken by project {id}")
            }
            Rejection::NoNamespace(id) => {
                write!(f, "namespace {id} is not known; groups and users come before what is in them")
            }
            Rejection::NotAGroup(id) => write!(f, "namespace {id} is a personal namespace, which has no subgroups"),
            Rejection::OwnAncestor(id) => write!(f, "group {id} cannot be moved below itself"),
            Rejection::TooDeep => write!(f, "groups nest at most {} deep", crate::namespace::MAX_DEPTH),
            Rejection::NamespaceInUse(id) => write!(f, "namespace id {id} belongs to another user or group"),
            Rejection::Full { what, limit } => write!(f, "the {what} would take more than {limit} bytes"),
        }
    }
}

/// A record was not saved: it is wrong, or storage failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaveError {
    Rejected(Rejection),
    Store(StoreError),
}

impl From<Rejection> for SaveError {
    fn from(rejection: Rejection) -> Self {
        SaveError::Rejected(rejection)
    }
}

impl From<StoreError> for SaveError {
    fn from(fault: StoreError) -> Self {
        SaveError::Store(fault)
    }
}
