//! The records from which the catalog and the path entries are derived.

use crate::catalog::intent_log;
use crate::store::Key;
use kit::Env;
use kit::store::StoreError;

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
