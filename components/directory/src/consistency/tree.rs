//! Repairs groups and projects outside of the tree of namespaces: groups above themselves, and orphans of deleted
//! namespaces. Earlier builds did not see each other's changes and left such records. The catalog must already have
//! them.

use super::tree_position::{TreePosition, listed, youngest};
use super::{CheckedRecord, Comparison, Tables, row, tolerate};
use crate::catalog::changes::Changes;
use crate::catalog::dangling::DeletedRecords;
use crate::catalog::intent_log::IntentLog;
use crate::catalog::table::NamespaceRow;
use crate::dependents;
use crate::model::membership::Source;
use crate::namespace;
use crate::path::{self, PathOwner, is_segment};
use crate::save_error::SaveError;
use crate::store::{self, Key, NamespaceRecord};
use kit::Env;
use kit::fsck::CheckReport;
use kit::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};

/// The prefix of the cursors of these steps.
pub(super) const CURSOR: &str = "tree/";

/// Does one step, which deletes at most `limit` groups and projects with everything below them, after the key `after`.
/// Returns the last of their keys, unless all are deleted.
pub(super) fn step(env: &Env, after: &str, limit: usize) -> Result<(CheckReport, Option<String>), StoreError> {
    let mut report = CheckReport::default();
    let tables = Comparison::default().tables(env)?;
    if after.is_empty() {
        for group in cycles(&tables.namespaces).iter().filter_map(|cycle| youngest(cycle)) {
            let outcome = leave_cycle(env, group, &mut report);
            tolerate(&mut report, outcome)?;
        }
    }
    let mut orphans = orphans(env, &tables)?;
    orphans.retain(|orphan| *orphan.subject.key() > *after);
    orphans.truncate(limit);
    let last = orphans.last().filter(|_| orphans.len() == limit).map(|orphan| orphan.subject.key());
    delete(env, &tables, &orphans, &mut report)?;
    Ok((report, last))
}

/// The groups that are above themselves, by the rows of the catalog.
fn cycles(rows: &[NamespaceRow]) -> Vec<Vec<u64>> {
    let (mut seen, mut cycles) = (BTreeSet::new(), Vec::new());
    for first in rows {
        let (mut path, mut next) = (Vec::new(), Some(first));
        while let Some(group) = next {
            if !seen.insert(group.id) {
                let start = path.iter().position(|above| *above == group.id);
                cycles.extend(start.map(|start| path.split_off(start)));
                break;
            }
            path.push(group.id);
            next = row(rows, group.parent_id);
        }
    }
    cycles
}

/// Moves a group that is above itself to the top level. All records stay, and the groups and projects of the cycle get
/// paths again. The group that was meant to be at the top is unknown.
fn leave_cycle(env: &Env, id: u64, report: &mut CheckReport) -> Result<(), StoreError> {
    let (subject, key) = (CheckedRecord::Namespace(id), Key::Namespace(id));
    let Some(record) = store::read::<NamespaceRecord>(env, &key)? else { return Ok(()) };
    // Another writer may have moved one of the groups.
    let (Some(parent_id), TreePosition::InCycle(groups)) =
        (record.parent_id, TreePosition::of(env, subject, record.parent_id)?)
    else {
        return Ok(());
    };
    if !groups.contains(&id) {
        return Ok(());
    }
    let Some(segment) = free_path(env, id, &record.path)? else {
        report.add_problem(&subject.key(), TreePosition::InCycle(groups).to_string());
        return Ok(());
    };
    let mut changes = Changes::default();
    changes.group(id);
    let intent_log = IntentLog::begin(env, changes)?;
    let moved = namespace::move_to_top(env, id, parent_id, &segment);
    intent_log.commit(env)?;
    let groups = listed(&groups);
    match moved {
        Ok(false) => {}
        Ok(true) => report.add_problem(
            &subject.key(),
            format!(
                "groups {groups} were above themselves, and group {id} is at the top level now, as `{segment}`; if it belongs elsewhere, import it again with another parent"
            ),
        ),
        Err(SaveError::Invalid(why)) => report.add_problem(&subject.key(), why.to_string()),
        Err(SaveError::Store(error)) => return Err(error),
    }
    Ok(())
}

/// A path for the group at the top level that no other owner has or had: its path, or a path with its id.
fn free_path(env: &Env, id: u64, path: &str) -> Result<Option<String>, StoreError> {
    for segment in [path.to_owned(), format!("{path}-{id}"), format!("group-{id}")] {
        let owner = path::owner(env, None, &segment)?.map(|(owner, _)| owner);
        if is_segment(&segment) && owner.is_none_or(|owner| owner == PathOwner::Namespace(id)) {
            return Ok(Some(segment));
        }
    }
    Ok(None)
}

/// A group or project directly below a deleted namespace.
struct Orphan {
    subject: CheckedRecord,
    namespace: u64,
}

/// The orphans by key. 1 read for each namespace without a row.
fn orphans(env: &Env, tables: &Tables) -> Result<Vec<Orphan>, StoreError> {
    let groups = tables.namespaces.iter().filter(|row| row.parent_id != 0);
    let groups = groups.map(|row| (CheckedRecord::Namespace(row.id), row.parent_id));
    let projects = tables.projects.iter().map(|row| (CheckedRecord::Project(row.id), row.namespace_id));
    let (mut found, mut deleted) = (Vec::new(), DeletedRecords::default());
    for (subject, namespace) in groups.chain(projects) {
        if row(&tables.namespaces, namespace).is_some() {
            continue;
        }
        if deleted.source(env, Source::Group(namespace))? {
            found.push(Orphan { subject, namespace });
        }
    }
    found.sort_by_cached_key(|orphan| orphan.subject.key());
    Ok(found)
}

/// Deletes the orphans with everything below them, and reports each deleted record.
fn delete(env: &Env, tables: &Tables, orphans: &[Orphan], report: &mut CheckReport) -> Result<(), StoreError> {
    let changes = |orphans: &[Orphan]| {
        let mut changes = Changes::default();
        orphans.iter().for_each(|orphan| match orphan.subject {
            CheckedRecord::Namespace(id) => changes.delete_group(id),
            CheckedRecord::Project(id) => changes.delete_project(id),
            CheckedRecord::Memberships(_) | CheckedRecord::User(_) => {}
        });
        changes
    };
    match dependents::delete_dangling(env, changes(orphans).into()) {
        // An unreadable dependent of one orphan must not keep the other orphans.
        Err(StoreError::Corrupt { .. }) => {
            for orphan in orphans {
                let deleted = dependents::delete_dangling(env, changes(std::slice::from_ref(orphan)).into());
                tolerate(report, deleted)?;
            }
        }
        deleted => deleted?,
    }
    let below = if orphans.is_empty() { Children::default() } else { Children::of(tables) };
    let mut deleted = DeletedRecords::default();
    for orphan in orphans {
        for subject in below.with_everything_below(orphan.subject) {
            if is_deleted(env, &mut deleted, subject)? {
                let namespace = orphan.namespace;
                let text = format!("it was below namespace {namespace}, which is deleted, and is deleted with it");
                report.add_problem(&subject.key(), text);
            }
        }
    }
    Ok(())
}

fn is_deleted(env: &Env, deleted: &mut DeletedRecords, subject: CheckedRecord) -> Result<bool, StoreError> {
    match subject {
        CheckedRecord::Namespace(id) => deleted.source(env, Source::Group(id)),
        CheckedRecord::Project(id) => deleted.source(env, Source::Project(id)),
        CheckedRecord::Memberships(_) | CheckedRecord::User(_) => Ok(false),
    }
}

/// The groups and projects directly below each namespace.
#[derive(Default)]
struct Children(BTreeMap<u64, Vec<CheckedRecord>>);

impl Children {
    fn of(tables: &Tables) -> Self {
        let mut below: BTreeMap<u64, Vec<CheckedRecord>> = BTreeMap::new();
        let groups = tables.namespaces.iter().map(|row| (row.parent_id, CheckedRecord::Namespace(row.id)));
        let projects = tables.projects.iter().map(|row| (row.namespace_id, CheckedRecord::Project(row.id)));
        groups.chain(projects).for_each(|(parent_id, subject)| below.entry(parent_id).or_default().push(subject));
        Children(below)
    }

    /// A group or project outside of every cycle, and the groups and projects below it.
    fn with_everything_below(&self, top: CheckedRecord) -> Vec<CheckedRecord> {
        let mut all = vec![top];
        let mut at = 0;
        while let Some(subject) = all.get(at).copied() {
            if let CheckedRecord::Namespace(id) = subject {
                all.extend_from_slice(self.0.get(&id).map(Vec::as_slice).unwrap_or_default());
            }
            at += 1;
        }
        all
    }
}
