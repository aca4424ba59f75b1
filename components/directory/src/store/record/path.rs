//! The stored form of a path's segment.

use super::is_default::is_default;
use crate::model::address::PathOwner;
use crate::model::incarnation::Incarnation;
use serde::{Deserialize, Serialize};

/// The entry of a path: its owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PathRecord {
    #[serde(flatten)]
    owner: OwnerRecord,
    /// The owner's incarnation. Only a former path needs it, because the owner's record has the present path. Earlier
    /// builds did not write it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub incarnation: Incarnation,
    /// The id of a writer that is about to take the former path from its owner.
    #[serde(default, skip_serializing_if = "is_default")]
    pub challenge: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OwnerRecord {
    Namespace(u64),
    Project(u64),
}

impl PathRecord {
    pub fn owner(&self) -> PathOwner {
        match self.owner {
            OwnerRecord::Namespace(id) => PathOwner::Namespace(id),
            OwnerRecord::Project(id) => PathOwner::Project(id),
        }
    }

    pub fn of(self, incarnation: &Incarnation) -> Self {
        PathRecord { incarnation: incarnation.clone(), ..self }
    }

    pub fn unchallenged(self) -> Self {
        PathRecord { challenge: None, ..self }
    }

    pub fn challenged(self, challenge: &str) -> Self {
        PathRecord { challenge: Some(challenge.to_owned()), ..self }
    }
}

impl From<PathOwner> for PathRecord {
    fn from(owner: PathOwner) -> Self {
        let owner = match owner {
            PathOwner::Namespace(id) => OwnerRecord::Namespace(id),
            PathOwner::Project(id) => OwnerRecord::Project(id),
        };
        PathRecord { owner, incarnation: Incarnation::default(), challenge: None }
    }
}
