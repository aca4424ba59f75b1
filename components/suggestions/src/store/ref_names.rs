//! The names of refs, and the requests that are creating refs.
//!
//! Each ref has a root of its own. So two requests could create `a` and `a/b` at the same moment, or one could create a
//! ref while another removes its name from the list. Therefore names are reserved in one root before refs are created;
//! the swaps of that root order the requests. Names are listed from that moment on. After the refs are created, one
//! more swap releases the reservations.
//!
//! The names are a list of pages ([`kit::list`]); builds before format 2 had them in the root. The root has the
//! reservations.
//!
//! A reservation of a request that died is dropped once it is older than [`GRACE`]: such a request creates no ref any
//! more, because it is too late ([`kit::gc::is_too_late`]).

use super::key::{FORMAT_2, Key};
use super::record::RefNamesRecord;
use super::refs;
use crate::repository_id::RepositoryId;
use directory::default_branch::ref_name_pages;
use kit::gc::GRACE;
use kit::list::{self, Change, Top};
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, id};
use std::collections::{BTreeMap, BTreeSet};

/// The most branches and tags of a repository. A clone reads all of their names.
pub const MAX_NAMES: usize = 200_000;

/// How many names are read at once, in search of one that conflicts with a new one.
const NAMES_AT_ONCE: usize = 100;

/// The refs that a repository may have. Every existing ref is listed. A listed name may have no ref: the ref is being
/// created, or an earlier build did not remove the name of a deleted ref.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefNames {
    pub names: BTreeSet<String>,
    /// The branch that the imported repository had checked out.
    pub default: Option<String>,
}

/// 1 read, and 1 for each page of names that is not cached.
pub fn read(env: &Env, project: RepositoryId) -> Result<RefNames, StoreError> {
    let key = Key::RefNames(project).to_string();
    list::retrying(env, &key, || {
        let RefNamesRecord { names, default, creating, .. } =
            root::read::<RefNamesRecord>(&*env.store, &key)?.unwrap_or_default();
        let mut names = listed(env, names)?;
        names.extend(creating.into_keys());
        Ok(RefNames { names, default })
    })
}

/// All names of a list.
pub fn listed(env: &Env, names: Top) -> Result<BTreeSet<String>, StoreError> {
    Ok(ref_name_pages().after(env, names, "", usize::MAX)?.into_iter().map(|(name, _)| name).collect())
}

/// The number of refs that a repository may have; of a few that are being created, it may count some twice. 1 read.
pub fn count(env: &Env, project: RepositoryId) -> Result<usize, StoreError> {
    let record = root::read::<RefNamesRecord>(&*env.store, &Key::RefNames(project).to_string())?.unwrap_or_default();
    Ok(record.count())
}

/// The record of a repository's names, while a request decides on its next value.
struct Draft<'a> {
    env: &'a Env,
    project: RepositoryId,
    current: Option<RefNamesRecord>,
    record: RefNamesRecord,
    /// The names that are added and removed.
    changes: BTreeMap<String, Change>,
}

impl<'a> Draft<'a> {
    /// Swaps the record for one that `change` has changed, by the request with this id. Writes nothing if it has changed
    /// nothing.
    fn update(
        env: &'a Env,
        project: RepositoryId,
        id: &str,
        mut change: impl FnMut(&mut Draft<'a>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let key = Key::RefNames(project).to_string();
        let mut replaced = Vec::new();
        list::retrying(env, &key, || {
            root::update(env, &key, |current: Option<RefNamesRecord>| {
                let record = current.clone().unwrap_or_default();
                let mut draft = Draft { env, project, current, record, changes: BTreeMap::new() };
                change(&mut draft)?;
                draft.decide(id, &mut replaced)
            })
        })?;
        ref_name_pages().delete(env, &replaced)
    }

    fn decide(self, id: &str, replaced: &mut Vec<String>) -> Result<Decision<RefNamesRecord, ()>, StoreError> {
        let Draft { env, current, mut record, changes, .. } = self;
        let pages = ref_name_pages();
        let names = pages.change(env, &record.names, &changes, replaced)?;
        if names == record.names && current.as_ref() == Some(&record) {
            return Ok(Decision::Keep(()));
        }
        list::mark_format(env, FORMAT_2)?;
        // An earlier build had all names in the root.
        record.names = if names == record.names { pages.divide(env, names, replaced)? } else { names };
        id.clone_into(&mut record.changed_by);
        Ok(Decision::Replace(record, ()))
    }

    fn is_listed(&self, name: &str) -> Result<bool, StoreError> {
        match self.changes.get(name) {
            Some(change) => Ok(matches!(change, Change::Put(_))),
            None => Ok(ref_name_pages().get(self.env, self.record.names.clone(), name)?.is_some()),
        }
    }

    /// A listed name below a folder (`a/`) whose ref exists, unless it is `freed`. Others are removed.
    fn find_below(&mut self, folder: &str, freed: &BTreeSet<&str>) -> Result<Option<String>, StoreError> {
        let mut after = folder.to_owned();
        loop {
            let page = ref_name_pages().after(self.env, self.record.names.clone(), &after, NAMES_AT_ONCE)?;
            let mut names = page.into_iter().map(|(name, _)| name).take_while(|name| name.starts_with(folder));
            let Some(first) = names.next() else { return Ok(None) };
            for name in std::iter::once(first).chain(names) {
                after.clone_from(&name);
                if self.exists(&name, freed)? {
                    return Ok(Some(name));
                }
            }
        }
    }

    /// Whether the ref of a listed name exists and is not `freed`. Otherwise a name that is not freed is removed: a ref
    /// that is created now was reserved before.
    fn exists(&mut self, name: &str, freed: &BTreeSet<&str>) -> Result<bool, StoreError> {
        if freed.contains(name) {
            return Ok(false);
        }
        let exists = refs::read(self.env, self.project, name)?.is_some();
        if !exists {
            self.remove(name);
        }
        Ok(exists)
    }

    fn add(&mut self, name: String) {
        self.changes.insert(name, Change::Put(String::new()));
    }

    fn remove(&mut self, name: &str) {
        self.changes.insert(name.to_owned(), Change::Remove(String::new()));
    }

    /// Whether there is no room for one more name.
    fn is_full(&self, name: &str) -> Result<bool, StoreError> {
        let is_known = self.record.creating.contains_key(name) || self.is_listed(name)?;
        Ok(!is_known && self.record.count() >= MAX_NAMES)
    }

    /// Removes the reservations of an id of these names.
    fn release(&mut self, id: &str, is_released: impl Fn(&str) -> bool) {
        self.record.creating.retain(|name, ids| {
            if is_released(name) {
                ids.remove(id);
            }
            !ids.is_empty()
        });
    }

    /// Drops the reservations of requests that died. A name whose ref they created is listed.
    fn drop_expired(&mut self) -> Result<(), StoreError> {
        let is_expired = |id: &String| match id::number(id).map(id::made_at) {
            Some(made) => made.millis() < self.env.now.millis() - GRACE,
            None => true,
        };
        let mut dropped = Vec::new();
        self.record.creating.retain(|name, ids| {
            ids.retain(|id| !is_expired(id));
            if ids.is_empty() {
                dropped.push(name.clone());
            }
            !ids.is_empty()
        });
        for name in dropped {
            if refs::read(self.env, self.project, &name)?.is_some() {
                self.add(name);
            }
        }
        Ok(())
    }

    /// A ref that is a folder of this name, or has it as a folder, and exists or is being created. Names of refs that do
    /// not exist are removed from the list.
    fn find_conflict(&mut self, name: &str, freed: &BTreeSet<&str>) -> Result<Option<String>, StoreError> {
        let below = format!("{name}/");
        let folders: Vec<&str> = name.match_indices('/').filter_map(|(at, _)| name.get(..at)).collect();
        let created_below = self.record.creating.range(below.clone()..).map(|(other, _)| other).next();
        if let Some(other) = created_below.filter(|other| other.starts_with(&below)) {
            return Ok(Some(other.clone()));
        }
        if let Some(other) = folders.iter().find(|other| self.record.creating.contains_key(**other)) {
            return Ok(Some((*other).to_owned()));
        }
        if let Some(other) = self.find_below(&below, freed)? {
            return Ok(Some(other));
        }
        for other in folders {
            if self.is_listed(other)? && self.exists(other, freed)? {
                return Ok(Some(other.to_owned()));
            }
        }
        Ok(None)
    }
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
            Draft::update(env, project, &id, |draft| {
                refused.clear();
                draft.drop_expired()?;
                draft.release(&id, |_| true);
                for name in names {
                    let unreservable = match draft.find_conflict(name, freed)? {
                        Some(other) => Some(ReservationError::NameConflict(other)),
                        None => draft.is_full(name)?.then_some(ReservationError::TooMany),
                    };
                    match unreservable {
                        Some(why) => drop(refused.insert((*name).to_owned(), why)),
                        None => drop(draft.record.creating.entry((*name).to_owned()).or_default().insert(id.clone())),
                    }
                }
                Ok(())
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
        Draft::update(env, project, &self.id, |draft| {
            draft.release(&self.id, |name| created.contains(name) || refused.contains(name));
            // An earlier build may have dropped the reservation.
            created.iter().for_each(|name| draft.add(name.clone()));
            for name in &deleted {
                let is_listed = !draft.record.creating.contains_key(name) && draft.is_listed(name)?;
                if is_listed && refs::read(env, project, name)?.is_none() {
                    draft.remove(name);
                }
            }
            Ok(())
        })
    }
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
    Draft::update(env, project, &env.id(), |draft| {
        draft.record.default = Some(default.to_owned());
        Ok(())
    })
}

/// Whether one of the names is a folder of the other one.
fn is_conflict(a: &str, b: &str) -> bool {
    let is_folder_of = |a: &str, b: &str| b.strip_prefix(a).is_some_and(|rest| rest.starts_with('/'));
    is_folder_of(a, b) || is_folder_of(b, a)
}
