//! How the catalog follows the records.
//!
//! A writer first logs which records it is about to change ([`IntentLog::begin`]), then changes them,
//! and then updates the catalog ([`IntentLog::commit`]), which reads the records anew. If the last
//! step does not happen, because the host was killed or storage failed, the intent stays in the log,
//! and the next commit of any writer updates the catalog for both.
//!
//! The order in which concurrent writers commit does not matter: every revision is made of records
//! that were read after its predecessor was.

use super::changes::Changes;
use super::dangling::Dangling;
use super::load;
use super::manifest::{Intent, Manifest, Part, RetiredBlobs, Root, RowKey, Rows, blob, manifest};
use super::member::rows_of_users;
use super::row;
use super::table::{MemberRow, NamespaceRow, ProjectRow, Row};
use crate::member;
use crate::namespace;
use crate::project;
use crate::store::{self, Existence, Key};
use crate::user;
use kit::gc;
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A blob has at most this many rows; a larger one is divided into blobs of half as many.
const MAX_ROWS: usize = 4096;

/// How long blobs of a former revision are kept after the swap that retired them, in milliseconds.
const RETENTION: i64 = 60_000;

/// The age in milliseconds from which an intent counts as abandoned by its writer. A batch of changes
/// takes seconds.
const ABANDONED_AFTER: i64 = 15 * 60_000;

/// Logged changes for which the catalog is not updated yet.
#[must_use = "the catalog is updated when this is committed"]
pub struct IntentLog {
    changes: Changes,
    /// The id of the blob with them; `None` if there are no changes, or if they are all others'.
    blob: Option<String>,
}

impl IntentLog {
    /// Logs which records are about to change. 1 read, 1 for each intent, 1 blob and a swap, and a read for each user.
    pub fn begin(env: &Env, mut changes: Changes) -> Result<IntentLog, StoreError> {
        if changes.is_empty() {
            return Ok(IntentLog { changes, blob: None });
        }
        // A damaged intent stops all commits: nothing is written that they would not follow.
        pending(env)?;
        // The namespace of a user who is about to be deleted is known only now.
        changes.resolve(env)?;
        let id = write_json(env, &changes)?;
        update_intents(env, |intents| {
            if !intents.iter().any(|other| other.blob == id) {
                intents.push(Intent { logged_at: env.now, blob: id.clone() });
            }
        })?;
        Ok(IntentLog { changes, blob: Some(id) })
    }

    /// The intents of other writers. [`commit`](Self::commit) does the last step of the interrupted ones and does no
    /// harm to the others. 1 read, and 1 for each intent.
    pub(crate) fn of_others(env: &Env) -> Result<IntentLog, StoreError> {
        Ok(IntentLog { changes: pending(env)?, blob: None })
    }

    /// Groups and projects that other writers have put below namespaces deleted by this one, after it looked for
    /// dependents. 1 read, 1 for each intent and each project in one, and 2 for each namespace.
    pub(crate) fn latecomers(&self, env: &Env) -> Result<Changes, StoreError> {
        let mut late = Changes::default();
        if !self.changes.deletes_namespaces() {
            return Ok(late);
        }
        let mut gone = BTreeSet::new();
        for id in &self.changes.namespaces {
            store::read_barrier(env, &Key::Namespace(*id))?;
            if namespace::existence(env, *id)? == Existence::Deleted {
                gone.insert(*id);
            }
        }
        // A change that is no intent any more is in the catalog, which is therefore read afterwards.
        let pending = pending(env)?;
        let (groups, projects) = load::read(env)?.right_below(&gone);
        let is_below = |parent: Result<Option<u64>, StoreError>| match parent {
            // It stays until it can be read ([`rows`]).
            Err(StoreError::Corrupt { .. }) => Ok(false),
            parent => Ok::<_, StoreError>(parent?.is_some_and(|parent| gone.contains(&parent))),
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

    /// Updates the catalog to the present records, those of other writers' intents included. If rows refer to deleted
    /// records and are to be refused, it is not updated, and they are returned.
    pub(crate) fn update_catalog(&self, env: &Env, dangling: DanglingRows) -> Result<Dangling, StoreError> {
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

/// How an update of the catalog treats rows that refer to deleted records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DanglingRows {
    Refused,
    Listed,
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

/// Why the catalog was not updated.
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

/// Makes the next revision, unless it would be the same; the root changes also then. Blobs of an attempt
/// whose swap was lost stay until they are collected as garbage: a swap that is reported as lost may have
/// taken place.
fn write_revision(env: &Env, changes: &Changes, dangling: DanglingRows) -> Result<(), CatalogError> {
    let batch = env.id();
    root::update(env, &Key::Catalog.to_string(), |current: Option<Root>| {
        if current.as_ref().is_some_and(|root| root.batch == batch) {
            return Ok(Decision::Keep(()));
        }
        let is_unmade = current.is_none();
        let revision = current.map(|root| root.revision).unwrap_or_default();
        let old = manifest(env, &revision)?;
        let mut changes = changes.clone();
        changes.resolve(env)?;
        // Another writer may have committed a role of a user after this one looked for the roles that it deletes.
        changes.members.extend(rows_of_users(env, &old.members, &changes.deleted_users)?);
        let (namespaces, projects) = (namespace_rows(env, &changes)?, project_rows(env, &changes)?);
        let members = member_rows(env, &changes)?;
        if dangling == DanglingRows::Refused {
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
            return Ok(if is_unmade { Decision::Keep(()) } else { Decision::Replace(root, ()) });
        }
        if gc::is_too_late(env) {
            return Err(StoreError::TooLate.into());
        }
        let now = env.clock.now();
        // The last ones were retired by the swap that made this revision, whose end its writer could not
        // know. It is over by now.
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

/// A record that cannot be read keeps the row that it has: it could not be changed, and other writers' changes
/// must not wait for its repair.
fn rows<R>(ids: &BTreeSet<u64>, row: impl Fn(u64) -> Result<Option<R>, StoreError>) -> Result<Rows<R>, StoreError> {
    let row = |id: &u64| match row(*id) {
        Err(StoreError::Corrupt { .. }) => None,
        row => Some(row.map(|row| ((*id, 0), row))),
    };
    ids.iter().filter_map(row).collect()
}

/// The row of a namespace, as its record is now.
pub(crate) fn namespace_row(env: &Env, id: u64) -> Result<Option<NamespaceRow>, StoreError> {
    let Some(record) = store::read::<store::NamespaceRecord>(env, &Key::Namespace(id))? else { return Ok(None) };
    let owner = record.owner_id.map(|owner| user::by_id(env, owner)).transpose()?.flatten();
    Ok(Some(row::namespace(id, record, owner.as_ref())))
}

/// The row of a project, as its record is now.
pub(crate) fn project_row(env: &Env, id: u64) -> Result<Option<ProjectRow>, StoreError> {
    let record = store::read::<store::ProjectRecord>(env, &Key::Project(id))?;
    Ok(record.map(|record| row::project(id, record)))
}

/// The rows of a user's memberships, as they are now, in their order.
pub(crate) fn rows_of_member(env: &Env, user_id: u64) -> Result<Vec<MemberRow>, StoreError> {
    let memberships = member::of_user(env, user_id)?;
    let row = |(source, membership)| row::member((row::source_code(source), user_id), &membership);
    let mut rows: Vec<MemberRow> = memberships.0.into_iter().map(row).collect();
    rows.sort_unstable_by_key(Row::key);
    Ok(rows)
}

/// All changes for which the catalog may not be updated yet. 1 read, and 1 for each intent.
pub(crate) fn pending(env: &Env) -> Result<Changes, StoreError> {
    let mut changes = Changes::default();
    for intent in store::read::<Vec<Intent>>(env, &Key::CatalogChanges)?.unwrap_or_default() {
        changes.extend(logged_changes(env, &intent)?);
    }
    Ok(changes)
}

/// The changes of an intent; none if its writer has committed since the intents were read. 1 read, or 2.
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

/// Takes intents off the list whose changes cannot be read. Only for a repair, which reads every record anew.
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
    /// The parts of a table after a change; those without a changed row stay as they are.
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
            let corrupt = || StoreError::corrupt(&Key::CatalogBlob(&part.blob).to_string(), "no such rows");
            let before: Vec<R> = R::decode(&blob(self.env, &part.blob)?).ok_or_else(corrupt)?;
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

/// Rows with changes applied, both in the order of their keys.
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
