//! The repair derives the catalog and the path entries again. Derived data that cannot be read is overwritten. A record
//! that cannot be read is reported, and the data derived from it stays. A token that cannot be read is removed: nothing
//! is derived from it, and its owner can create another one.
//!
//! Repairs groups and projects outside of the tree of namespaces: groups above themselves, and orphans of deleted
//! namespaces. Earlier builds did not see each other's changes and left such records. The catalog must already have
//! them.

use crate::catalog::changes::{Changes, DeletedRecords};
use crate::catalog::intent_log::{self, DanglingPolicy, IntentLog};
use crate::catalog::manifest::{Intent, Root};
use crate::catalog::table::NamespaceRow;
use crate::consistency::subject::{TreePosition, listed, youngest};
use crate::consistency::{
    self, CheckedRecord, Comparison, PREFIX, PresentPath, Tables, dangling_roles, row, token_lists, tolerate,
};
use crate::model::membership::Source;
use crate::path::{self, PathOwner, is_segment};
use crate::save_error::SaveError;
use crate::store::{self, Key, NamespaceRecord, PathRecord};
use crate::{dependents, namespace};
use kit::Env;
use kit::fsck::CheckReport;
use kit::reachability::StepError;
use kit::root::{self, Decision};
use kit::store::{StoreError, list_all};
use std::collections::{BTreeMap, BTreeSet};

/// The most records, or path entries, in a step.
const MAX_RECORDS: usize = 1000;

/// Does one step. The cursor is the last handled key. The phases in order are:
/// - the records;
/// - groups and projects outside of the tree, which the catalog must already have;
/// - path entries that no record has restored, which may be left over;
/// - the lists of tokens;
/// - the tokens.
pub fn step(env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
    let env = &env.with_current_time();
    match cursor {
        Some(after) if after.starts_with(TREE_CURSOR) => {
            let after = after.trim_start_matches(TREE_CURSOR);
            let (report, last) = tree_step(env, after, MAX_RECORDS)?;
            let next = last.map_or(Key::PATHS.to_owned(), |last| format!("{}{last}", TREE_CURSOR));
            Ok(CheckReport { cursor: Some(next), ..report })
        }
        Some(after) if after.starts_with(Key::PATHS) => remove_ownerless_paths(env, after),
        Some(after) if after.starts_with(Key::TOKEN_LISTS) => token_lists::repair(env, after),
        Some(after) if after.starts_with(Key::TOKENS) => token_lists::remove_unlisted(env, after),
        _ => derive(env, cursor),
    }
}

/// Derives the catalog's rows and the path entries of some records.
fn derive(env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
    if cursor.is_none() {
        empty_if_damaged(env)?;
    }
    let mut report = CheckReport::default();
    let prefixes = ["access/", "namespace/", "project/", "user/"].map(|kind| format!("{PREFIX}{kind}"));
    let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
    let keys = list_all(&*env.store, &prefixes, cursor.unwrap_or_default(), MAX_RECORDS)?;
    let tables = Comparison::default().tables(env)?;
    let mut changes = Changes::default();
    if cursor.is_none() {
        for subject in consistency::in_tables(env, &tables)? {
            subject.add_to(env, &mut changes, &tables)?;
            report.add_problem(&subject.key(), "the record is missing, and is removed from the catalog".to_owned());
        }
        let ended = dangling_roles::remove_gates(env, &mut report);
        super::tolerate(&mut report, ended)?;
    }
    let mut subjects = Vec::new();
    for key in &keys {
        let Some(subject) = CheckedRecord::of_key(key) else { continue };
        let added = subject.add_to(env, &mut changes, &tables);
        if super::tolerate(&mut report, added)?.is_some() {
            subjects.push(subject);
        }
    }
    let intent_log = IntentLog::begin(env, changes)?;
    let mut readable = Vec::new();
    for subject in subjects {
        let derived = derive_path(env, subject, &mut report);
        if super::tolerate(&mut report, derived)?.is_some() {
            readable.push(subject);
            report.roots += 1;
        }
    }
    // Orphans of a deleted namespace are deleted in a later step, when the catalog has everything below them.
    intent_log.update_catalog(env, DanglingPolicy::Keep)?;
    dangling_roles::remove(env, &readable, &mut report)?;
    report.cursor =
        Some(keys.last().filter(|_| keys.len() >= MAX_RECORDS).map_or(TREE_CURSOR, String::as_str).to_owned());
    Ok(report)
}

/// Writes the path entry of a record.
fn derive_path(env: &Env, subject: CheckedRecord, report: &mut CheckReport) -> Result<(), StoreError> {
    let Some(PresentPath { parent_id, segment, owner, incarnation }) = subject.path(env)? else { return Ok(()) };
    let derive = || {
        path::claim(env, parent_id, &segment, owner, None)?;
        path::confirm(env, parent_id, &segment, owner, &incarnation)
    };
    let derived = match derive() {
        Err(SaveError::Store(StoreError::Corrupt { .. })) if is_replaced(env, parent_id, &segment)? => derive(),
        derived => derived,
    };
    match derived {
        Err(SaveError::Invalid(why)) => report.add_problem(&subject.key(), why.to_string()),
        Err(SaveError::Store(error)) => return Err(error),
        Ok(()) => {}
    }
    Ok(())
}

/// Removes an entry that cannot be read; false if it can be read.
fn is_replaced(env: &Env, parent_id: Option<u64>, segment: &str) -> Result<bool, StoreError> {
    store::replace_unreadable::<PathRecord>(env, &Key::path(parent_id, segment), None)
}

/// Removes entries that cannot be read, or whose owner is missing, among up to [`MAX_RECORDS`] after the key `after`.
fn remove_ownerless_paths(env: &Env, after: &str) -> Result<CheckReport, StepError> {
    let mut report = CheckReport::default();
    let keys = env.store.list(Key::PATHS, after, MAX_RECORDS)?;
    for key in &keys {
        let Some((parent_id, segment)) = Key::parse_path(key) else { continue };
        if is_replaced(env, parent_id, segment)? {
            report.add_problem(
                key,
                "the path entry could not be read, and is removed: no record has this path".to_owned(),
            );
            continue;
        }
        let Some((owner, _)) = path::owner(env, parent_id, segment)? else { continue };
        let is_missing = |owner| consistency::is_owner_missing(env, owner);
        if path::remove_ownerless(env, parent_id, segment, is_missing)? {
            report.add_problem(key, format!("the path entry had {owner}, whose record is missing, and is removed"));
        }
    }
    let last = keys.last().filter(|_| keys.len() >= MAX_RECORDS).map_or(Key::TOKEN_LISTS, String::as_str);
    report.cursor = Some(last.to_owned());
    Ok(report)
}

/// Empties a catalog that cannot be read, and its intents, which a repair makes superfluous.
fn empty_if_damaged(env: &Env) -> Result<(), StoreError> {
    let empty = || Root { revision: String::new(), batch: env.id() };
    store::replace_unreadable(env, &Key::Catalog, Some(&empty()))?;
    store::replace_unreadable::<Vec<Intent>>(env, &Key::CatalogChanges, Some(&Vec::new()))?;
    intent_log::drop_damaged(env)?;
    match Comparison::default().tables(env) {
        Err(StoreError::Corrupt { .. }) => root::update(env, &Key::Catalog.to_string(), |root: Option<Root>| {
            let is_empty = root.is_none_or(|root| root.revision.is_empty());
            Ok(if is_empty { Decision::Keep(()) } else { Decision::Replace(empty(), ()) })
        }),
        outcome => outcome.map(drop),
    }
}

/// The prefix of the cursors of these steps.
pub(super) const TREE_CURSOR: &str = "tree/";

/// Does one step, which deletes at most `limit` groups and projects with everything below them, after the key `after`.
/// Returns the last of their keys, unless all are deleted.
pub(super) fn tree_step(env: &Env, after: &str, limit: usize) -> Result<(CheckReport, Option<String>), StoreError> {
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
