//! The tree of paths that users, groups and projects share.
//!
//! A path is resolved one segment at a time: the entry of a segment below a namespace names its
//! owner by id. No full path is stored, so renaming a group is one write however much is below it.
//! An entry is a present path only if the owner's record says so too; else it is a former one, which
//! leads to the owner until another record claims it, but not to the next record with a deleted owner's id:
//! the entry names the owner's incarnation. Resolving costs two reads a segment.
//!
//! An entry stays when its owner is deleted: the path is free for the next record, and [`is_or_was_path`] knows it.

pub use crate::model::address::{Identifier, PathOwner, is_segment};

use crate::model::incarnation::Incarnation;
use crate::save_error::{InvalidRecord, SaveError};
use crate::store::{self, Key, NamespaceRecord, PathRecord, ProjectRecord};
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;

/// Words below which every address is a page for people, so that it is not that of a namespace with such a path.
const PAGES: [&str; 7] = ["admin", "analytics", "experiments", "issues", "merge_requests", "namespaces", "packages"];

/// Whether the full path of a namespace or project begins with the word of a page.
pub fn begins_like_page(full_path: &str) -> bool {
    full_path.split('/').next().is_some_and(|root| PAGES.contains(&root))
}

/// How often a writer challenges the owner of a path; more than once only if others do so too.
const CHALLENGES: u32 = 20;

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
    Ok(entry.map(|entry| (entry.owner(), entry.incarnation)))
}

/// Whether `segment` is or was the path of a record below the namespace `parent_id`, also of a deleted one. An entry
/// that a repair has removed is `null` and counts, and so does one that cannot be read: a caller that protects former
/// paths must not take either for a path that no group and no user had. 1 read.
pub fn is_or_was_path(env: &Env, parent_id: Option<u64>, segment: &str) -> Result<bool, StoreError> {
    Ok(is_segment(segment) && env.store.get(&Key::path(parent_id, segment).text())?.is_some())
}

/// Makes `owner` the owner of `segment` below the namespace `parent_id`. Refused while it is the
/// present path of another, except of `former`, whose place `owner` takes.
///
/// The owner claims the path, then writes the record that says so, and then confirms the claim. Between the first two
/// the entry looks like a former path, which another writer may take. That writer first leaves a challenge in the entry
/// and looks at the owner's record once more before it replaces the entry; confirming removes the challenge, as does a
/// writer that is refused. So of two writers that claim a path at the same time, either the second one sees the first
/// one's record, or the first one cannot confirm.
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
    for _ in 0..CHALLENGES {
        let entry = store::try_update(env, &key, |current: Option<PathRecord>| {
            let Some(entry) = current else { return Ok(claimed.clone()) };
            let other = entry.owner();
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
                withdraw(env, &key, &challenge)?;
                return Err(refused);
            }
            entry => entry?,
        };
        if entry.owner() == owner {
            return Ok(());
        }
        has_challenged = true;
    }
    Err(StoreError::Contended(key.to_string()).into())
}

/// Removes a writer's own challenge.
fn withdraw(env: &Env, key: &Key, challenge: &str) -> Result<(), StoreError> {
    store::change(env, key, |entry: &mut PathRecord| {
        entry.challenge.take_if(|own| own == challenge);
    })
}

/// Removes the entry of `segment` below `parent_id` while `is_ownerless` says that its owner has no record; whether
/// it did. A writer may just be about to write that record: as in [`claim`], the challenge tells whether it has
/// claimed or confirmed the path since.
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
        if entry.owner() == owner {
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
        withdraw(env, &key, &challenge)?;
    }
    Ok(is_removed)
}

/// Confirms a [`claim`], once the owner's record is written, with this `incarnation`. Refused if another writer has
/// taken the path. 1 read, if nothing happened in between.
pub(crate) fn confirm(
    env: &Env,
    parent_id: Option<u64>,
    segment: &str,
    owner: PathOwner,
    incarnation: &Incarnation,
) -> Result<(), SaveError> {
    store::try_update(env, &Key::path(parent_id, segment), |current: Option<PathRecord>| {
        match current.map(|entry| entry.owner()) {
            Some(other) if other != owner => {
                Err(InvalidRecord::PathTaken { path: segment.to_owned(), by: other }.into())
            }
            _ => Ok(PathRecord::from(owner).of(incarnation)),
        }
    })
    .map(drop)
}

/// Whether the owner's record says that this is its path. 1 read.
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
