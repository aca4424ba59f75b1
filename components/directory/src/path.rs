//! The tree of paths that users, groups and projects share.
//!
//! A path is resolved one segment at a time, with 2 reads each. The entry of a segment below a namespace names its
//! owner by id. No full path is stored, so renaming a group takes one write. An entry is a present path if the owner's
//! record has the same path; otherwise it is a former path. A former path leads to the owner until another record
//! claims it. It does not lead to the next record with a deleted owner's id, because the entry names the owner's
//! incarnation.
//!
//! An entry stays when its owner is deleted. The path is then free for the next record, and [`is_or_was_path`] is true.

pub use crate::model::namespace::{Identifier, PathOwner, is_segment};

use crate::model::incarnation::Incarnation;
use crate::save_error::{InvalidRecord, SaveError};
use crate::store::{self, Key, NamespaceRecord, PathRecord, ProjectRecord};
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;

/// First segments of the console's pages. The pages hide a namespace with such a path.
const PAGES: [&str; 7] = ["admin", "analytics", "experiments", "issues", "merge_requests", "namespaces", "packages"];

/// Whether the first segment of a full path is a page's.
pub fn begins_like_page(full_path: &str) -> bool {
    full_path.split('/').next().is_some_and(|root| PAGES.contains(&root))
}

/// The most challenges of a writer to the owner of a path. A second one is needed only if other writers challenge too.
const MAX_CHALLENGES: u32 = 20;

/// The present or former owner of `segment` below the namespace `parent_id`, and the incarnation to which a former path
/// leads. `None` for a text that is no valid segment, and might be no valid key. 1 read.
pub(crate) fn owner(
    env: &Env,
    parent_id: Option<u64>,
    segment: &str,
) -> Result<Option<(PathOwner, Incarnation)>, StoreError> {
    if !is_segment(segment) {
        return Ok(None);
    }
    let entry = store::read::<PathRecord>(env, &Key::path(parent_id, segment))?;
    Ok(entry.map(|entry| (entry.owner, entry.incarnation)))
}

/// Whether `segment` is or was the path of a record below the namespace `parent_id`, even a deleted one. An entry that
/// a repair removed is `null` and counts, as does an unreadable entry. A caller that protects former paths must not
/// take these for unused paths. 1 read.
pub fn is_or_was_path(env: &Env, parent_id: Option<u64>, segment: &str) -> Result<bool, StoreError> {
    Ok(is_segment(segment) && env.store.get(&Key::path(parent_id, segment).text())?.is_some())
}

/// Makes `owner` the owner of `segment` below the namespace `parent_id`. Refused while it is the present path of
/// another owner, except `former`, which `owner` replaces.
///
/// An owner claims a path, then writes its record with the path, then confirms the claim. Between the first two steps
/// the entry looks like a former path, which another writer may take. The challenger first writes a challenge into the
/// entry and reads the owner's record again. Only then it replaces the entry. The owner's confirmation removes the
/// challenge, as does a refused challenger. So of two writers that claim a path at the same time, either the second
/// sees the first's record, or the first cannot confirm.
pub(crate) fn claim(
    env: &Env,
    parent_id: Option<u64>,
    segment: &str,
    owner: PathOwner,
    former: Option<PathOwner>,
) -> Result<(), SaveError> {
    if !is_segment(segment) {
        return Err(InvalidRecord::InvalidPath(segment.to_owned()).into());
    }
    let (key, challenge, claimed) = (Key::path(parent_id, segment), env.id(), PathRecord::from(owner));
    let mut has_challenged = false;
    for _ in 0..MAX_CHALLENGES {
        let entry = store::try_update(env, &key, |current: Option<PathRecord>| {
            let Some(entry) = current else { return Ok(claimed.clone()) };
            let other = entry.owner;
            if other == owner {
                return Ok(entry.unchallenged());
            }
            if Some(other) == former {
                return Ok(claimed.clone());
            }
            if is_present_path(env, other, parent_id, segment)? {
                return Err(InvalidRecord::PathTaken { path: segment.to_owned(), by: other }.into());
            }
            Ok(match &entry.challenge {
                Some(own) if *own == challenge => claimed.clone(),
                _ => entry.challenged(&challenge),
            })
        });
        let entry = match entry {
            Err(refused @ SaveError::Invalid(_)) if has_challenged => {
                remove_challenge(env, &key, &challenge)?;
                return Err(refused);
            }
            entry => entry?,
        };
        if entry.owner == owner {
            return Ok(());
        }
        has_challenged = true;
    }
    Err(StoreError::Contended(key.to_string()).into())
}

/// Removes a writer's own challenge.
fn remove_challenge(env: &Env, key: &Key, challenge: &str) -> Result<(), StoreError> {
    store::change(env, key, |entry: &mut PathRecord| {
        entry.challenge.take_if(|own| own == challenge);
    })
}

/// Removes the entry of `segment` below `parent_id` if `is_ownerless` is true for its owner. Returns whether it was
/// removed. A writer may be about to write the owner's record. As in [`claim`], the challenge shows whether the writer
/// has claimed or confirmed the path since.
pub(crate) fn remove_ownerless(
    env: &Env,
    parent_id: Option<u64>,
    segment: &str,
    is_ownerless: impl Fn(PathOwner) -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    let (key, challenge) = (Key::path(parent_id, segment), env.id());
    let Some(owner) = owner(env, parent_id, segment)?.map(|(owner, _)| owner) else { return Ok(false) };
    if !is_ownerless(owner)? {
        return Ok(false);
    }
    store::change(env, &key, |entry: &mut PathRecord| {
        if entry.owner == owner {
            entry.challenge = Some(challenge.clone());
        }
    })?;
    let is_removed = root::update(env, &key.to_string(), |entry: Option<Option<PathRecord>>| {
        let Some(entry) = entry.flatten() else { return Ok(Decision::Keep(true)) };
        let is_own = entry.challenge.as_ref() == Some(&challenge);
        Ok::<_, StoreError>(match is_own && is_ownerless(owner)? {
            true => Decision::Replace(None, true),
            false => Decision::Keep(false),
        })
    })?;
    if !is_removed {
        remove_challenge(env, &key, &challenge)?;
    }
    Ok(is_removed)
}

type Confirmation = dyn FnOnce(&Env) -> Result<(), SaveError>;

/// A written record that has claimed a path and not confirmed it yet. A confirmation waits until the record is durable.
/// A writer that confirms several records after all of them are written waits once.
#[must_use = "the record stays incomplete until it is confirmed"]
pub struct Unconfirmed(Box<Confirmation>);

impl Unconfirmed {
    pub(crate) fn new(confirm: impl FnOnce(&Env) -> Result<(), SaveError> + 'static) -> Self {
        Unconfirmed(Box::new(confirm))
    }

    /// Completes the record, or undoes it if another writer has taken its path or its parent meanwhile.
    pub fn confirm(self, env: &Env) -> Result<(), SaveError> {
        (self.0)(env)
    }
}

/// Confirms a [`claim`] with this `incarnation`, after the owner's record is written. Refused if another writer has
/// taken the path. 1 read, if nothing happened in between.
pub(crate) fn confirm(
    env: &Env,
    parent_id: Option<u64>,
    segment: &str,
    owner: PathOwner,
    incarnation: &Incarnation,
) -> Result<(), SaveError> {
    store::try_update(env, &Key::path(parent_id, segment), |current: Option<PathRecord>| {
        match current.map(|entry| entry.owner) {
            Some(other) if other != owner => {
                Err(InvalidRecord::PathTaken { path: segment.to_owned(), by: other }.into())
            }
            _ => Ok(PathRecord::from(owner).of(incarnation)),
        }
    })
    .map(drop)
}

/// Whether the owner's record has this path. 1 read.
pub(crate) fn is_present_path(
    env: &Env,
    owner: PathOwner,
    parent_id: Option<u64>,
    segment: &str,
) -> Result<bool, StoreError> {
    let (parent, path) = match owner {
        PathOwner::Namespace(id) => match store::read::<NamespaceRecord>(env, &Key::Namespace(id))? {
            Some(record) => (record.parent_id, record.path),
            None => return Ok(false),
        },
        PathOwner::Project(id) => match store::read::<ProjectRecord>(env, &Key::Project(id))? {
            Some(record) => (Some(record.namespace_id), record.path),
            None => return Ok(false),
        },
    };
    Ok(parent == parent_id && path.eq_ignore_ascii_case(segment))
}

#[cfg(test)]
mod tests;
