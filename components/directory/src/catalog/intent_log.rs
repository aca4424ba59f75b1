//! The update of the catalog after changes of records.
//!
//! A writer first logs the records that it will change ([`IntentLog::begin`]), then changes them, then updates the
//! catalog ([`IntentLog::commit`]), which reads the records again. If the host is killed or storage fails before the
//! update, the intent stays in the log. The next commit of any writer then updates the catalog for both.
//!
//! Concurrent writers may commit in any order: every revision is made of records that were read after the previous
//! revision was.

use super::changes::Changes;
use super::manifest::{Intent, Manifest, Part, RetiredBlobs, Root, RowKey, Rows, decode, manifest};
use super::member::rows_of_users;
use super::row;
use super::table::{MemberRow, NamespaceRow, ProjectRow, Row};
use crate::catalog::changes::Dangling;
use crate::catalog::snapshot;
use crate::store::{self, Existence, Key};
use crate::{member, namespace, project, user};
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, Timestamp, gc};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The most rows in a blob. A larger blob is split into blobs of half as many rows.
const MAX_ROWS: usize = 4096;

/// The time, in milliseconds, that blobs of a former revision are kept after the swap that retired them.
const RETENTION: i64 = 60_000;

/// The age, in milliseconds, from which an intent counts as abandoned by its writer. A batch of changes takes seconds.
const ABANDONED_AFTER: i64 = 15 * 60_000;

/// Logged changes that the catalog does not have yet.
#[must_use = "the catalog is updated when this is committed"]
pub struct IntentLog {
    changes: Changes,
    /// The id of the blob with the changes; `None` without changes, or if all are other writers' changes.
    blob: Option<String>,
}

impl IntentLog {
    /// Logs the records that are about to change. Reads: 1, 1 for each intent, and 1 for each user. Writes: 1 blob and
    /// a swap.
    pub fn begin(env: &Env, mut changes: Changes) -> Result<IntentLog, StoreError> {
        if changes.is_empty() {
            return Ok(IntentLog { changes, blob: None });
        }
        // A damaged intent stops all commits, so no record may change before this check.
        pending(env)?;
        // Only now is the namespace of a user known who is about to be deleted.
        changes.resolve(env)?;
        let id = write_json(env, &changes)?;
        update_intents(env, |intents| {
            if !intents.iter().any(|other| other.blob == id) {
                intents.push(Intent { logged_at: env.now, blob: id.clone() });
            }
        })?;
        Ok(IntentLog { changes, blob: Some(id) })
    }

    /// The intents of other writers. [`commit`](Self::commit) completes interrupted intents and does not affect the
    /// others. 1 read, and 1 for each intent.
    pub(crate) fn of_others(env: &Env) -> Result<IntentLog, StoreError> {
        Ok(IntentLog { changes: pending(env)?, blob: None })
    }

    /// Groups and projects that other writers have put below deleted namespaces after this writer searched for
    /// dependents. 1 read, 1 for each intent and each project in one, and 2 for each namespace.
    pub(crate) fn late_children(&self, env: &Env) -> Result<Changes, StoreError> {
        let mut late = Changes::default();
        if !self.changes.deletes_namespaces() {
            return Ok(late);
        }
        let mut deleted = BTreeSet::new();
        for id in &self.changes.namespaces {
            store::read_barrier(env, &Key::Namespace(*id))?;
            if namespace::existence(env, *id)? == Existence::Deleted {
                deleted.insert(*id);
            }
        }
        // A change without an intent is in the catalog, so the catalog is read after the intents.
        let pending = pending(env)?;
        let (groups, projects) = snapshot::read(env)?.right_below(&deleted);
        let is_below = |parent: Result<Option<u64>, StoreError>| match parent {
            // An unreadable record keeps its row until it can be read ([`rows`]).
            Err(StoreError::Corrupt { .. }) => Ok(false),
            parent => Ok::<_, StoreError>(parent?.is_some_and(|parent| deleted.contains(&parent))),
        };
        for id in pending.namespaces.into_iter().chain(groups) {
            if is_below(namespace::parent_of(env, id))? {
                late.delete_group(id);
            }
        }
        for id in pending.projects.into_iter().chain(projects) {
            if is_below(project::namespace_of(env, id))? {
                late.delete_project(id);
            }
        }
        Ok(late)
    }

    /// Updates the catalog to the present records, including the records in other writers' intents. With
    /// [`DanglingPolicy::Refuse`], rows that refer to deleted records are returned, and the catalog is not updated.
    pub(crate) fn update_catalog(&self, env: &Env, dangling: DanglingPolicy) -> Result<Dangling, StoreError> {
        if self.changes.is_empty() {
            return Ok(Dangling::default());
        }
        let mut changes = self.changes.clone();
        let intents = store::read::<Vec<Intent>>(env, &Key::CatalogChanges)?.unwrap_or_default();
        let mut done = Vec::from_iter(self.blob.clone());
        for other in intents {
            if done.contains(&other.blob) {
                continue;
            }
            changes.extend(logged_changes(env, &other)?);
            if is_older(other.logged_at, env.now, ABANDONED_AFTER) {
                done.push(other.blob);
            }
        }
        match write_revision(env, &changes, dangling) {
            Err(CatalogError::Dangling(dangling)) => return Ok(*dangling),
            Err(CatalogError::Store(error)) => return Err(error),
            Ok(()) => {}
        }
        update_intents(env, |intents| intents.retain(|other| !done.contains(&other.blob)))?;
        done.iter().try_for_each(|id| env.store.delete(&Key::CatalogBlob(id).to_string()))?;
        Ok(Dangling::default())
    }
}

/// The treatment of rows that refer to deleted records in an update of the catalog.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DanglingPolicy {
    /// They are returned, and the catalog is not updated.
    Refuse,
    /// They stay.
    Keep,
}

fn is_older(at: Timestamp, now: Timestamp, millis: i64) -> bool {
    now.millis().saturating_sub(at.millis()) > millis
}

fn update_intents(env: &Env, change: impl Fn(&mut Vec<Intent>)) -> Result<(), StoreError> {
    store::update(env, &Key::CatalogChanges, |current: Option<Vec<Intent>>| {
        let mut intents = current.unwrap_or_default();
        change(&mut intents);
        intents
    })
}

fn write_json(env: &Env, content: &impl Serialize) -> Result<String, StoreError> {
    let content = serde_json::to_vec(content).map_err(|why| StoreError::corrupt(&Key::Catalog.to_string(), why))?;
    write_blob(env, &content)
}

fn write_blob(env: &Env, content: &[u8]) -> Result<String, StoreError> {
    let id = env.id();
    env.store.set(&Key::CatalogBlob(&id).to_string(), content)?;
    Ok(id)
}

/// The reason why the catalog was not updated.
enum CatalogError {
    /// Rows refer to deleted records.
    Dangling(Box<Dangling>),
    Store(StoreError),
}

impl From<StoreError> for CatalogError {
    fn from(error: StoreError) -> Self {
        CatalogError::Store(error)
    }
}

/// Writes the next revision if it differs; the root changes in any case. The blobs of an attempt whose swap was lost
/// stay until garbage collection, because the swap may have taken place.
fn write_revision(env: &Env, changes: &Changes, dangling: DanglingPolicy) -> Result<(), CatalogError> {
    let batch = env.id();
    root::update(env, &Key::Catalog.to_string(), |current: Option<Root>| {
        if current.as_ref().is_some_and(|root| root.batch == batch) {
            return Ok(Decision::Keep(()));
        }
        let is_absent = current.is_none();
        let revision = current.map(|root| root.revision).unwrap_or_default();
        let old = manifest(env, &revision)?;
        let mut changes = changes.clone();
        changes.resolve(env)?;
        // Another writer may have committed a role of a user after this writer read the roles that it deletes.
        changes.members.extend(rows_of_users(env, &old.members, &changes.deleted_users)?);
        let (namespaces, projects) = (namespace_rows(env, &changes)?, project_rows(env, &changes)?);
        let members = member_rows(env, &changes)?;
        if dangling == DanglingPolicy::Refuse {
            let dangling = Dangling::of(env, &namespaces, &projects, &members)?;
            if !dangling.is_empty() {
                return Err(CatalogError::Dangling(Box::new(dangling)));
            }
        }
        let mut update = TableUpdate { env, removed: Vec::new() };
        let mut new = Manifest {
            namespaces: update.table(&old.namespaces, namespaces)?,
            projects: update.table(&old.projects, projects)?,
            members: update.table(&old.members, members)?,
            retired: old.retired.clone(),
        };
        if (&new.namespaces, &new.projects, &new.members) == (&old.namespaces, &old.projects, &old.members) {
            let root = Root { revision, batch: batch.clone() };
            return Ok(if is_absent { Decision::Keep(()) } else { Decision::Replace(root, ()) });
        }
        if gc::is_too_late(env) {
            return Err(StoreError::TooLate.into());
        }
        let now = env.clock.now();
        // The swap that made this revision retired the last blobs. Its writer could not know when the swap ended. It
        // has ended now.
        if let Some(last) = new.retired.last_mut() {
            last.retired_at = now;
        }
        for expired in new.retired.extract_if(.., |retired| is_older(retired.retired_at, now, RETENTION)) {
            expired.blobs.iter().try_for_each(|id| env.store.delete(&Key::CatalogBlob(id).to_string()))?;
        }
        update.removed.extend(Some(revision).filter(|revision| !revision.is_empty()));
        new.retired.push(RetiredBlobs { retired_at: now, blobs: update.removed });
        let revision = write_json(env, &new)?;
        Ok(Decision::Replace(Root { revision, batch: batch.clone() }, ()))
    })
}

fn namespace_rows(env: &Env, changes: &Changes) -> Result<Rows<NamespaceRow>, StoreError> {
    rows(&changes.namespaces, |id| namespace_row(env, id))
}

fn project_rows(env: &Env, changes: &Changes) -> Result<Rows<ProjectRow>, StoreError> {
    rows(&changes.projects, |id| project_row(env, id))
}

/// Reads rows. A record that cannot be read keeps its row: it could not be changed, and other writers' changes must not
/// wait for its repair.
fn rows<R>(ids: &BTreeSet<u64>, row: impl Fn(u64) -> Result<Option<R>, StoreError>) -> Result<Rows<R>, StoreError> {
    let row = |id: &u64| match row(*id) {
        Err(StoreError::Corrupt { .. }) => None,
        row => Some(row.map(|row| ((*id, 0), row))),
    };
    ids.iter().filter_map(row).collect()
}

/// The row of a namespace's present record.
pub(crate) fn namespace_row(env: &Env, id: u64) -> Result<Option<NamespaceRow>, StoreError> {
    let Some(record) = store::read::<store::NamespaceRecord>(env, &Key::Namespace(id))? else { return Ok(None) };
    let owner = record.owner_id.map(|owner| user::by_id(env, owner)).transpose()?.flatten();
    Ok(Some(row::namespace(id, record, owner.as_ref())))
}

/// The row of a project's present record.
pub(crate) fn project_row(env: &Env, id: u64) -> Result<Option<ProjectRow>, StoreError> {
    let record = store::read::<store::ProjectRecord>(env, &Key::Project(id))?;
    Ok(record.map(|record| row::project(id, record)))
}

/// The rows of a user's present memberships, in order.
pub(crate) fn rows_of_member(env: &Env, user_id: u64) -> Result<Vec<MemberRow>, StoreError> {
    let memberships = member::of_user(env, user_id)?;
    let row = |(source, membership)| row::member((row::source_code(source), user_id), &membership);
    let mut rows: Vec<MemberRow> = memberships.0.into_iter().map(row).collect();
    rows.sort_unstable_by_key(Row::key);
    Ok(rows)
}

/// All changes that the catalog may not have yet. 1 read, and 1 for each intent.
pub(crate) fn pending(env: &Env) -> Result<Changes, StoreError> {
    let mut changes = Changes::default();
    for intent in store::read::<Vec<Intent>>(env, &Key::CatalogChanges)?.unwrap_or_default() {
        changes.extend(logged_changes(env, &intent)?);
    }
    Ok(changes)
}

/// The changes of an intent; empty if its writer has committed since the intents were read. 1 read, or 2.
pub(crate) fn logged_changes(env: &Env, intent: &Intent) -> Result<Changes, StoreError> {
    let key = Key::CatalogBlob(&intent.blob).to_string();
    if let Some(changes) = root::read(&*env.store, &key)? {
        return Ok(changes);
    }
    // A writer takes its intent off the list before it removes the blob.
    let intents = store::read::<Vec<Intent>>(env, &Key::CatalogChanges)?.unwrap_or_default();
    match intents.contains(intent) {
        true => Err(StoreError::corrupt(&key, "it is missing, and the list of intents names it")),
        false => Ok(Changes::default()),
    }
}

/// Removes intents whose changes cannot be read. Only for a repair, which reads every record again.
pub(crate) fn drop_damaged(env: &Env) -> Result<(), StoreError> {
    let mut damaged = BTreeSet::new();
    for intent in store::read::<Vec<Intent>>(env, &Key::CatalogChanges)?.unwrap_or_default() {
        match logged_changes(env, &intent) {
            Err(StoreError::Corrupt { .. }) => drop(damaged.insert(intent.blob)),
            changes => drop(changes?),
        }
    }
    match damaged.is_empty() {
        true => Ok(()),
        false => update_intents(env, |intents| intents.retain(|intent| !damaged.contains(&intent.blob))),
    }
}

fn member_rows(env: &Env, changes: &Changes) -> Result<Rows<MemberRow>, StoreError> {
    let mut by_user: BTreeMap<u64, Vec<RowKey>> = BTreeMap::new();
    changes.members.iter().for_each(|key| by_user.entry(key.1).or_default().push(*key));
    let mut rows = Rows::new();
    for (user_id, keys) in by_user {
        let memberships = match member::of_user(env, user_id) {
            // As for the other tables ([`rows`]).
            Err(StoreError::Corrupt { .. }) => continue,
            memberships => memberships?,
        };
        let held: BTreeMap<u64, _> =
            memberships.0.iter().map(|(source, membership)| (row::source_code(*source), membership)).collect();
        for key in keys {
            rows.insert(key, held.get(&key.0).map(|membership| row::member(key, membership)));
        }
    }
    Ok(rows)
}

struct TableUpdate<'a> {
    env: &'a Env,
    /// Blobs that are not part of the next revision.
    removed: Vec<String>,
}

impl TableUpdate<'_> {
    /// The parts of a table after a change. Parts without a changed row stay unchanged.
    fn table<R: Row>(&mut self, parts: &[Part], mut rows: Rows<R>) -> Result<Vec<Part>, StoreError> {
        if parts.is_empty() {
            return self.write(rows.into_values().flatten().collect());
        }
        let mut new = Vec::with_capacity(parts.len() + 1);
        for (at, part) in parts.iter().enumerate() {
            let later = match parts.get(at + 1) {
                Some(next) => rows.split_off(&next.first),
                None => Rows::new(),
            };
            let changed = std::mem::replace(&mut rows, later);
            if changed.is_empty() {
                new.push(part.clone());
                continue;
            }
            let before: Vec<R> = decode(self.env, part, R::decode)?;
            let after = merge(&before, changed);
            if after == before {
                new.push(part.clone());
                continue;
            }
            self.removed.push(part.blob.clone());
            new.extend(self.write(after)?);
        }
        Ok(new)
    }

    fn write<R: Row>(&mut self, rows: Vec<R>) -> Result<Vec<Part>, StoreError> {
        let size = if rows.len() > MAX_ROWS { MAX_ROWS / 2 } else { MAX_ROWS };
        let mut parts = Vec::new();
        for rows in rows.chunks(size) {
            let Some(first) = rows.first() else { continue };
            let blob = write_blob(self.env, &R::encode(rows))?;
            parts.push(Part { first: first.key(), rows: rows.len(), blob });
        }
        Ok(parts)
    }
}

/// Applies changes to rows. Both are in the order of their keys.
fn merge<R: Row>(rows: &[R], changed: Rows<R>) -> Vec<R> {
    let mut merged = Vec::with_capacity(rows.len() + changed.len());
    let mut old = rows.iter().peekable();
    for (key, row) in changed {
        while let Some(before) = old.next_if(|old| old.key() < key) {
            merged.push(before.clone());
        }
        old.next_if(|old| old.key() == key);
        merged.extend(row);
    }
    merged.extend(old.cloned());
    merged
}
