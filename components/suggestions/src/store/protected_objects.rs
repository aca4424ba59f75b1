//! Objects that are protected from the sweep, so that a new value of a ref, or a new object, may rely on them.
//!
//! A loose object that nothing reaches may be swept at any moment. The sweep takes no object out of a pack, and
//! recently uploaded objects are not swept yet. An object that a present ref reaches is kept for a day after that ref
//! moves (see `Key::ReflogEntry`), longer than a request may take.

use super::history::History;
use super::packs::Packs;
use super::{objects, ref_names, refs, semispace_roles};
use crate::git::{ObjectId, ObjectKind};
use crate::repository_id::RepositoryId;
use crate::store::key::Semispace;
use kit::Env;
use kit::store::StoreError;
use std::collections::HashSet;

/// The most trees that are read. The newest trees have the objects that a push builds on.
const MAX_TREES: usize = 100_000;

/// The objects of `ids` that are missing, or may be swept before a ref reaches them. 1 read if all of them are in
/// packs. For loose objects, also reads their keys and, unless they are recent, the history and the trees down to them.
pub fn find_unprotected(
    env: &Env,
    project: RepositoryId,
    ids: impl IntoIterator<Item = ObjectId>,
) -> Result<HashSet<ObjectId>, StoreError> {
    let mut unprotected: HashSet<ObjectId> = ids.into_iter().collect();
    if unprotected.is_empty() {
        return Ok(unprotected);
    }
    let packed = Packs::load(env, project)?.find_all(&unprotected.iter().copied().collect())?;
    unprotected.retain(|id| !packed.contains_key(id));
    if !unprotected.is_empty() {
        remove_recent(env, project, &mut unprotected)?;
    }
    if !unprotected.is_empty() {
        remove_reached(env, project, &mut unprotected)?;
    }
    Ok(unprotected)
}

/// Removes objects that were uploaded so recently that no object that was uploaded with them can have been swept.
fn remove_recent(env: &Env, project: RepositoryId, ids: &mut HashSet<ObjectId>) -> Result<(), StoreError> {
    let relied_on = match semispace_roles::read(env)? {
        None => vec![Semispace::First],
        Some(roles) if roles.is_recent(env.now) => vec![roles.current, roles.current.other()],
        Some(roles) => vec![roles.current],
    };
    for semispace in relied_on {
        let mut found = Vec::new();
        for id in &*ids {
            if objects::exists(env, semispace, project, *id)? {
                found.push(*id);
            }
        }
        found.iter().for_each(|id| {
            ids.remove(id);
        });
    }
    Ok(())
}

/// Removes objects that a ref reaches.
fn remove_reached(env: &Env, project: RepositoryId, ids: &mut HashSet<ObjectId>) -> Result<(), StoreError> {
    let mut commits = HashSet::new();
    for id in &*ids {
        if matches!(objects::loose_kind(env, project, *id)?, None | Some(ObjectKind::Commit | ObjectKind::Tag)) {
            commits.insert(*id);
        }
    }
    let mut tips = Vec::new();
    for name in ref_names::read(env, project)?.names {
        tips.extend(refs::read(env, project, &name)?.map(|value| value.commit));
    }
    // How many trees and blobs are left.
    let mut parts = ids.len() - commits.len();
    let mut seen = HashSet::new();
    let visit = |root: ObjectId, wanted: &mut HashSet<ObjectId>| {
        let mut pending = vec![root];
        while let Some(id) = pending.pop() {
            parts -= usize::from(wanted.remove(&id) && !commits.contains(&id));
            if parts == 0 || seen.len() >= MAX_TREES || !seen.insert(id) {
                continue;
            }
            for entry in objects::read_tree(env, project, id)?.entries() {
                parts -= usize::from(wanted.remove(&entry.id) && !commits.contains(&entry.id));
                if entry.is_tree() {
                    pending.push(entry.id);
                }
            }
        }
        Ok(())
    };
    History::new(env, &[project]).remove_reached(tips, ids, visit)
}
