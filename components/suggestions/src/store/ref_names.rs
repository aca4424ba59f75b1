//! The names of refs, and the requests that are creating refs.
//!
//! Each ref has a root of its own. So two requests could create `a` and `a/b` at the same moment, or one could create a
//! ref while another removes its name from the list. Therefore names are reserved in one root before refs are created;
//! the swaps of that root order the requests. Names are listed from that moment on. After the refs are created, one
//! more swap releases the reservations.
//!
//! A reservation of a request that died is dropped once it is older than [`GRACE`]: such a request creates no ref any
//! more, because it is too late ([`kit::gc::is_too_late`]).

use super::key::Key;
use super::record::RefNamesRecord;
use super::refs;
use crate::repository_id::RepositoryId;
use kit::gc::GRACE;
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, id};
use std::collections::{BTreeMap, BTreeSet};

/// The most branches and tags of a repository. A request that creates one rewrites the list of all names.
pub const MAX_NAMES: usize = 200_000;

/// The refs that a repository may have. Every existing ref is listed. A listed name may have no ref: the ref is being
/// created, or an earlier build did not remove the name of a deleted ref.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefNames {
    pub names: BTreeSet<String>,
    /// The branch that the imported repository had checked out.
    pub default: Option<String>,
}

/// 1 read.
pub fn read(env: &Env, project: RepositoryId) -> Result<RefNames, StoreError> {
    let key = Key::RefNames(project).to_string();
    let RefNamesRecord { mut names, default, creating, .. } =
        root::read::<RefNamesRecord>(&*env.store, &key)?.unwrap_or_default();
    names.extend(creating.into_keys());
    Ok(RefNames { names, default })
}

/// Names of refs that a request creates, and of refs that it deletes.
pub struct Reservation {
    id: String,
    refused: BTreeMap<String, ReservationError>,
    outcomes: RefOutcomes,
}

/// Why a name was not reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationError {
    /// This other ref conflicts with it, as `a` with `a/b`.
    NameConflict(String),
    /// The repository has [`MAX_NAMES`].
    TooMany,
}

/// The refs whose outcome the request knows.
#[derive(Default)]
struct RefOutcomes {
    /// Reserved names whose refs were created, or will not be.
    created: BTreeSet<String>,
    refused: BTreeSet<String>,
    deleted: BTreeSet<String>,
}

impl Reservation {
    /// Reserves names of refs that are about to be created, in this order; of two names that conflict, only the first.
    /// Refs that the request deletes before (`freed`) do not count as conflicts yet; see [`find_undeleted`]. Writes
    /// nothing if there are no names.
    pub fn make(
        env: &Env,
        project: RepositoryId,
        names: &[&str],
        freed: &BTreeSet<&str>,
    ) -> Result<Reservation, StoreError> {
        let id = env.id();
        let mut refused = BTreeMap::new();
        if !names.is_empty() {
            let key = Key::RefNames(project).to_string();
            root::update(env, &key, |current: Option<RefNamesRecord>| {
                let mut record = current.clone().unwrap_or_default();
                refused.clear();
                drop_expired(env, project, &mut record)?;
                release(&mut record, &id, |_| true);
                for name in names {
                    let unreservable = match find_conflict(env, project, &mut record, name, freed)? {
                        Some(other) => Some(ReservationError::NameConflict(other)),
                        None => is_full(&record, name).then_some(ReservationError::TooMany),
                    };
                    match unreservable {
                        Some(why) => drop(refused.insert((*name).to_owned(), why)),
                        None => drop(record.creating.entry((*name).to_owned()).or_default().insert(id.clone())),
                    }
                }
                Ok::<_, StoreError>(write_changed(current, record, &id))
            })?;
        }
        Ok(Reservation { id, refused, outcomes: RefOutcomes::default() })
    }

    /// Why this name was not reserved.
    pub fn refusal(&self, name: &str) -> Option<&ReservationError> {
        self.refused.get(name)
    }

    /// Records that a reserved ref was created, or will not be. If neither is known, the name stays reserved.
    pub fn note_creation(&mut self, name: &str, is_created: bool) {
        if self.refusal(name).is_none() {
            let names = if is_created { &mut self.outcomes.created } else { &mut self.outcomes.refused };
            names.insert(name.to_owned());
        }
    }

    /// Records that a ref was deleted.
    pub fn note_deletion(&mut self, name: &str) {
        self.outcomes.deleted.insert(name.to_owned());
    }

    /// Releases the reservations of refs that were created or will not be, and removes the names of deleted refs. The
    /// refs do not depend on it, so a caller goes on if it fails.
    pub fn finish_reservation(self, env: &Env, project: RepositoryId) -> Result<(), StoreError> {
        let RefOutcomes { created, refused, deleted } = self.outcomes;
        if created.is_empty() && refused.is_empty() && deleted.is_empty() {
            return Ok(());
        }
        let key = Key::RefNames(project).to_string();
        root::update(env, &key, |current: Option<RefNamesRecord>| {
            let mut record = current.clone().unwrap_or_default();
            release(&mut record, &self.id, |name| created.contains(name) || refused.contains(name));
            // An earlier build may have dropped the reservation.
            record.names.extend(created.iter().cloned());
            for name in &deleted {
                let is_listed = record.names.contains(name) && !record.creating.contains_key(name);
                if is_listed && refs::read(env, project, name)?.is_none() {
                    record.names.remove(name);
                }
            }
            Ok(write_changed(current, record, &self.id))
        })
    }
}

fn write_changed(
    current: Option<RefNamesRecord>,
    mut record: RefNamesRecord,
    id: &str,
) -> Decision<RefNamesRecord, ()> {
    if current.as_ref() == Some(&record) {
        return Decision::Keep(());
    }
    id.clone_into(&mut record.changed_by);
    Decision::Replace(record, ())
}

/// A ref that the request was to delete (`freed`), and that still exists and conflicts with this name. 1 read for
/// each that could.
pub fn find_undeleted<'n>(
    env: &Env,
    project: RepositoryId,
    name: &str,
    freed: &BTreeSet<&'n str>,
) -> Result<Option<&'n str>, StoreError> {
    for other in freed.iter().filter(|other| is_conflict(other, name)) {
        if refs::read(env, project, other)?.is_some() {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

/// Sets the branch that the imported repository had checked out.
pub fn set_default(env: &Env, project: RepositoryId, default: &str) -> Result<(), StoreError> {
    let key = Key::RefNames(project).to_string();
    root::update(env, &key, |current: Option<RefNamesRecord>| {
        let mut record = current.unwrap_or_default();
        if record.default.as_deref() == Some(default) {
            return Ok(Decision::Keep(()));
        }
        record.default = Some(default.to_owned());
        Ok(Decision::Replace(record, ()))
    })
}

/// Whether one of the names is a folder of the other one.
fn is_conflict(a: &str, b: &str) -> bool {
    let is_folder_of = |a: &str, b: &str| b.strip_prefix(a).is_some_and(|rest| rest.starts_with('/'));
    is_folder_of(a, b) || is_folder_of(b, a)
}

/// Whether there is no room for one more name.
fn is_full(record: &RefNamesRecord, name: &str) -> bool {
    let is_new = !record.names.contains(name) && !record.creating.contains_key(name);
    is_new && record.names.len() + record.creating.len() >= MAX_NAMES
}

/// Removes the reservations of an id of these names.
fn release(record: &mut RefNamesRecord, id: &str, is_released: impl Fn(&str) -> bool) {
    record.creating.retain(|name, ids| {
        if is_released(name) {
            ids.remove(id);
        }
        !ids.is_empty()
    });
}

/// Drops the reservations of requests that died. A name whose ref they created is listed.
fn drop_expired(env: &Env, project: RepositoryId, record: &mut RefNamesRecord) -> Result<(), StoreError> {
    let is_expired = |id: &String| match id::number(id).map(id::made_at) {
        Some(made) => made.millis() < env.now.millis() - GRACE,
        None => true,
    };
    let mut dropped = Vec::new();
    record.creating.retain(|name, ids| {
        ids.retain(|id| !is_expired(id));
        if ids.is_empty() {
            dropped.push(name.clone());
        }
        !ids.is_empty()
    });
    for name in dropped {
        if refs::read(env, project, &name)?.is_some() {
            record.names.insert(name);
        }
    }
    Ok(())
}

/// A ref that is a folder of this name, or has it as a folder, and exists or is being created. Names of refs that do
/// not exist are removed from the record: a ref that is created now was reserved before.
fn find_conflict(
    env: &Env,
    project: RepositoryId,
    record: &mut RefNamesRecord,
    name: &str,
    freed: &BTreeSet<&str>,
) -> Result<Option<String>, StoreError> {
    let below = format!("{name}/");
    let folders: Vec<&str> = name.match_indices('/').filter_map(|(at, _)| name.get(..at)).collect();
    let created_below = record.creating.range(below.clone()..).map(|(other, _)| other).next();
    if let Some(other) = created_below.filter(|other| other.starts_with(&below)) {
        return Ok(Some(other.clone()));
    }
    if let Some(other) = folders.iter().find(|other| record.creating.contains_key(**other)) {
        return Ok(Some((*other).to_owned()));
    }
    let listed_below = record.names.range(below.clone()..).take_while(|other| other.starts_with(&below)).cloned();
    let listed_folders = folders.into_iter().filter(|other| record.names.contains(*other)).map(str::to_owned);
    let listed: Vec<String> = listed_below.chain(listed_folders).collect();
    for other in listed.into_iter().filter(|other| !freed.contains(other.as_str())) {
        if refs::read(env, project, &other)?.is_some() {
            return Ok(Some(other));
        }
        record.names.remove(&other);
    }
    Ok(None)
}
