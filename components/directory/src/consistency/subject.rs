//! The records from which the catalog and the path entries are derived.

use crate::catalog::intent_log;
use crate::namespace::{self, MAX_DEPTH};
use crate::store::{self, Existence, Key, NamespaceRecord};
use kit::Env;
use kit::store::StoreError;
use std::fmt;

pub(super) const PREFIX: &str = "directory/v1/";

/// A record from which rows of the catalog or a path entry are derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckedRecord {
    Namespace(u64),
    Project(u64),
    /// The memberships of a user.
    Memberships(u64),
    User(u64),
}

impl CheckedRecord {
    /// The record under a key.
    pub fn of_key(key: &str) -> Option<Self> {
        let (kind, id) = key.strip_prefix(PREFIX)?.split_once('/')?;
        let id = id.parse().ok()?;
        match kind {
            "namespace" => Some(CheckedRecord::Namespace(id)),
            "project" => Some(CheckedRecord::Project(id)),
            "access" => Some(CheckedRecord::Memberships(id)),
            "user" => Some(CheckedRecord::User(id)),
            _ => None,
        }
    }

    /// The key of the record.
    pub fn key(self) -> String {
        let key = match self {
            CheckedRecord::Namespace(id) => Key::Namespace(id),
            CheckedRecord::Project(id) => Key::Project(id),
            CheckedRecord::Memberships(id) => Key::Memberships(id),
            CheckedRecord::User(id) => Key::User(id),
        };
        key.text()
    }

    /// Whether a writer's intent names the record, so that the catalog may differ from it.
    pub(super) fn is_pending(self, env: &Env) -> Result<bool, StoreError> {
        let pending = intent_log::pending(env)?;
        Ok(match self {
            CheckedRecord::Namespace(id) => pending.has_namespace(id),
            CheckedRecord::Project(id) => pending.has_project(id),
            CheckedRecord::Memberships(id) | CheckedRecord::User(id) => pending.has_member(id),
        })
    }

    /// Whether the record is neither present nor deleted, and no writer's intent names it.
    pub(super) fn is_missing(self, env: &Env) -> Result<bool, StoreError> {
        let is_absent = || Ok::<_, StoreError>(env.store.get(&self.key())?.is_none());
        // A writer may have written it, and updated the catalog, before its intent was looked up.
        Ok(is_absent()? && !self.is_pending(env)? && is_absent()?)
    }
}

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
