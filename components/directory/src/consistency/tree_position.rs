//! The position of a group or project in the tree of namespaces, or the reason why it is outside of the tree.

use super::subject::CheckedRecord;
use crate::namespace::{self, MAX_DEPTH};
use crate::store::{self, Existence, Key, NamespaceRecord};
use kit::Env;
use kit::store::StoreError;
use std::fmt;

/// The position of a group or project in the tree, by the namespaces above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TreePosition {
    InTree,
    /// The id of the deleted namespace above.
    BelowDeleted(u64),
    /// The id of the namespace above that has no record.
    BelowMissing(u64),
    /// The groups that are below each other, from the lowest one up.
    InCycle(Vec<u64>),
    TooDeep,
}

impl TreePosition {
    /// The position of a group or project below `parent_id`. 1 read for each level, and 1 more for a missing record.
    pub fn of(env: &Env, subject: CheckedRecord, parent_id: Option<u64>) -> Result<TreePosition, StoreError> {
        let (mut next, mut above) = (parent_id, Vec::new());
        while let Some(id) = next {
            if let Some(first) = above.iter().position(|known| *known == id) {
                return Ok(TreePosition::InCycle(above.split_off(first)));
            }
            above.push(id);
            let Some(record) = store::read::<NamespaceRecord>(env, &Key::Namespace(id))? else {
                return Ok(match namespace::existence(env, id)? {
                    Existence::Deleted => TreePosition::BelowDeleted(id),
                    Existence::Unknown | Existence::Present(_) => TreePosition::BelowMissing(id),
                });
            };
            next = record.parent_id;
        }
        let levels = if matches!(subject, CheckedRecord::Namespace(_)) { MAX_DEPTH - 1 } else { MAX_DEPTH };
        Ok(if above.len() > levels { TreePosition::TooDeep } else { TreePosition::InTree })
    }
}

/// The group of a cycle that a repair moves to the top level: the newest one, by its id.
pub(super) fn youngest(cycle: &[u64]) -> Option<u64> {
    cycle.iter().copied().max()
}

/// Ids for a sentence.
pub(super) fn listed(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// The problem and its remedy.
impl fmt::Display for TreePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreePosition::InTree => Ok(()),
            TreePosition::BelowDeleted(id) => write!(
                f,
                "it is below namespace {id}, which is deleted; `hexad fsck --repair` deletes it too; to keep it, import it again with another namespace before"
            ),
            TreePosition::BelowMissing(id) => write!(
                f,
                "namespace {id}, which it is below, is not there; import that again, or this with another one, or as deleted"
            ),
            TreePosition::InCycle(groups) => write!(
                f,
                "groups {} are above themselves; `hexad fsck --repair` moves group {} to the top level; to choose, import one of them again with another parent",
                listed(groups),
                youngest(groups).unwrap_or_default()
            ),
            TreePosition::TooDeep => {
                write!(
                    f,
                    "it is below more than {MAX_DEPTH} levels; import it again with another namespace, or as deleted"
                )
            }
        }
    }
}
