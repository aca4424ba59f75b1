//! The stored form of a path's segment.

use crate::model::address::PathOwner;
use serde::{Deserialize, Serialize};

/// The owner of a path.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PathRecord {
    Namespace(u64),
    Project(u64),
}

impl From<PathRecord> for PathOwner {
    fn from(record: PathRecord) -> Self {
        match record {
            PathRecord::Namespace(id) => PathOwner::Namespace(id),
            PathRecord::Project(id) => PathOwner::Project(id),
        }
    }
}

impl From<PathOwner> for PathRecord {
    fn from(owner: PathOwner) -> Self {
        match owner {
            PathOwner::Namespace(id) => PathRecord::Namespace(id),
            PathOwner::Project(id) => PathRecord::Project(id),
        }
    }
}
