//! Missing records to which derived data or another record refers. A deleted record is not missing: it is kept as
//! `null`.

use super::{CheckedRecord, Comparison, PREFIX, Tables};
use crate::path::{self, PathOwner};
use crate::store::Key;
use kit::Env;
use kit::root;
use kit::store::StoreError;
use std::collections::BTreeSet;

/// The page size when keys are listed.
const LIST_PAGE: usize = 10_000;

impl Comparison {
    /// The missing records that the catalog has, unless a writer's intent names them.
    pub fn missing(&self, env: &Env) -> Result<Vec<CheckedRecord>, StoreError> {
        in_tables(env, &*self.tables(env)?)
    }
}

/// Like [`Comparison::missing`], for these tables. Lists the keys of all records of the catalog, and reads nothing else
/// if all exist.
pub(super) fn in_tables(env: &Env, tables: &Tables) -> Result<Vec<CheckedRecord>, StoreError> {
    let namespaces = tables.namespaces.iter().map(|row| row.id);
    let projects = tables.projects.iter().map(|row| row.id);
    let unlisted = [
        unlisted(env, "access", CheckedRecord::Memberships, tables.members.keys().copied())?,
        unlisted(env, "namespace", CheckedRecord::Namespace, namespaces)?,
        unlisted(env, "project", CheckedRecord::Project, projects)?,
    ];
    let mut missing = Vec::new();
    for subject in unlisted.into_iter().flatten() {
        if subject.is_missing(env)? {
            missing.push(subject);
        }
    }
    Ok(missing)
}

/// The keys of the settings and the features, if the record is missing and the counter beside it exists
/// ([`kit::root::update`]). A writer has then begun to create the record, and may have finished. 1 read for each, and 2
/// more for an absent one.
pub fn singletons(env: &Env) -> Result<Vec<String>, StoreError> {
    let mut missing = Vec::new();
    for key in [Key::Features.text(), Key::Settings.text()] {
        let is_absent = || env.store.exists(&key).map(|exists| !exists);
        // A writer may have created the record before the counter was read.
        if is_absent()? && env.store.exists(&root::counter(&key))? && is_absent()? {
            missing.push(key);
        }
    }
    Ok(missing)
}

fn unlisted(
    env: &Env,
    kind: &str,
    subject: fn(u64) -> CheckedRecord,
    ids: impl Iterator<Item = u64>,
) -> Result<Vec<CheckedRecord>, StoreError> {
    let mut ids: BTreeSet<u64> = ids.collect();
    let (prefix, mut after) = (format!("{PREFIX}{kind}/"), String::new());
    while !ids.is_empty() {
        let keys = env.store.list(&prefix, &after, LIST_PAGE)?;
        for key in &keys {
            key.strip_prefix(&prefix).and_then(|id| id.parse().ok()).map(|id: u64| ids.remove(&id));
        }
        match keys.last() {
            Some(last) if keys.len() >= LIST_PAGE => after.clone_from(last),
            _ => break,
        }
    }
    Ok(ids.into_iter().map(subject).collect())
}

/// Whether the record that owns a path is missing.
pub(super) fn is_owner_missing(env: &Env, owner: PathOwner) -> Result<bool, StoreError> {
    subject(owner).is_missing(env)
}

fn subject(owner: PathOwner) -> CheckedRecord {
    match owner {
        PathOwner::Namespace(id) => CheckedRecord::Namespace(id),
        PathOwner::Project(id) => CheckedRecord::Project(id),
    }
}

/// The problem of the path entry under this key, if its owner is missing.
pub fn path_problem(env: &Env, key: &str) -> Result<Option<String>, StoreError> {
    let Some((parent_id, segment)) = Key::parse_path(key) else { return Ok(None) };
    let Some((owner, _)) = path::owner(env, parent_id, segment)? else { return Ok(None) };
    Ok(is_owner_missing(env, owner)?.then(|| {
        let owner = describe(owner);
        format!("the path entry has {owner}, whose record is missing; import it again, or remove the entry by `hexad fsck --repair`")
    }))
}

pub(super) fn describe(owner: PathOwner) -> String {
    match owner {
        PathOwner::Namespace(id) => format!("namespace {id}"),
        PathOwner::Project(id) => format!("project {id}"),
    }
}
