//! Who may publish a name. The variable [`NAME_POLICY`] decides whether names have owners.
//!
//! A name's owner is recorded below the project's top-level namespace, by the publication that claims the name. Builds
//! without owners recorded none. If the record is missing, the owner is found by the projects that have the name: the
//! first to publish it owns it, and the others may go on. The next claim or maintenance records them.

use super::projects_by_name::projects_with_name_below;
use crate::api::request::event;
use crate::name::PackageName;
use crate::name_owner::{FurtherProject, NameAction, NameEvent, NameOwner, StoredProject};
use crate::store::{self, RootKey};
use directory::caller::Caller;
use directory::namespace::Namespace;
use directory::project::{self, Project, ProjectKey, ProjectLookup};
use directory::record_cache;
use kit::root::Decision;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use std::rc::Rc;

/// The variable with the policy of names: `owner`, the default, or [`SHARED`].
pub const NAME_POLICY: &str = "registry_name_policy";

/// Every project may publish every name, and the last publisher's package counts, as in the reference service.
const SHARED: &str = "shared";

/// The variable for projects that had a name before names had owners: empty, or [`STRICT`].
pub const NAME_MIGRATION: &str = "registry_name_migration";

/// They may not publish the name until they are confirmed, and their versions are not merged.
const STRICT: &str = "strict";

/// The most projects that a read looks at to find the owner of a name without a record: the last ones that published
/// it. A claim looks at all.
const MAX_LOOKUPS: usize = 100;

/// Whether names have owners.
pub fn has_owners(env: &Env) -> bool {
    env.variables.get(NAME_POLICY) != Some(SHARED)
}

/// Whether unconfirmed projects have no rights.
pub fn is_strict(env: &Env) -> bool {
    env.variables.get(NAME_MIGRATION) == Some(STRICT)
}

/// Who may publish a name below a top-level namespace; `None` if no project has it. 1 read, if the name has a record.
pub fn find(env: &Env, root: &Namespace, name: &PackageName) -> Result<Option<Rc<NameOwner>>, StoreError> {
    match store::name_owner(env, &RootKey::from(root), name)? {
        Some(known) => Ok(Some(known)),
        None => Ok(present_publishers(env, root, name, MAX_LOOKUPS)?.map(Rc::new)),
    }
}

/// Whether a project of a namespace holds the name, or has reserved it. Such a name is never forwarded.
pub fn is_held(env: &Env, root: &Namespace, name: &PackageName) -> Result<bool, StoreError> {
    let is_owned = find(env, root, name)?.is_some_and(|found| found.owner.is_some());
    Ok(is_owned || store::reservations(env, &RootKey::from(root))?.has(name))
}

/// The present project of a key; `None` if it is deleted or below another top-level namespace. An instance builds it
/// once.
pub fn present(env: &Env, root: &Namespace, key: &ProjectKey) -> Result<Option<Rc<Project>>, StoreError> {
    let ProjectLookup::Found(project) = record_cache::find_project(env, &key.id.to_string())? else { return Ok(None) };
    let is_present = project.incarnation == key.incarnation && project.root_namespace().id == root.id;
    Ok(Some(project).filter(|_| is_present))
}

/// The owner and the others by the packages that projects have now. Reads: the projects by name, and the package of up
/// to `limit` of them.
fn present_publishers(
    env: &Env,
    root: &Namespace,
    name: &PackageName,
    limit: usize,
) -> Result<Option<NameOwner>, StoreError> {
    let by_name = projects_with_name_below(env, name, root.id)?;
    let mut found: Vec<(bool, Timestamp, ProjectKey)> = Vec::new();
    for id in by_name.projects.iter().rev().take(limit) {
        let Some(key) = project::by_id(env, *id)?.map(|project| project.key()) else { continue };
        if let Some(package) = store::package(env, &key, name)? {
            found.push((package.listed() == 0, package.created, key));
        }
    }
    // A project with a stored version goes before projects that have unpublished all of theirs.
    let Some(owner) = found.iter().min().map(|(.., key)| key.clone()) else { return Ok(None) };
    let others = found.into_iter().map(|(.., project)| project).filter(|project| *project != owner);
    let further = others.map(|project| FurtherProject { project: StoredProject(project), unconfirmed: true }).collect();
    Ok(Some(NameOwner { owner: Some(StoredProject(owner)), further, events: Vec::new() }))
}

/// The outcome of a claim of a name.
pub enum NameClaim {
    /// The project may publish the name. Holds the other projects that may.
    Granted(Vec<ProjectKey>),
    /// The name is the owner's, who may be deleted or elsewhere.
    Owned(ProjectKey),
    Reserved,
}

/// Claims a name for a project, which is about to publish it. The claim is one swap of the name's record, so that of
/// several projects one gets the name. 1 read, if the project has the name already.
pub fn claim(
    env: &Env,
    caller: Option<&Caller>,
    project: &Project,
    name: &PackageName,
) -> Result<NameClaim, StoreError> {
    let (root, key) = (RootKey::from(project.root_namespace()), project.key());
    let strict = is_strict(env);
    let granted = |known: &NameOwner| {
        let others = known.publishers(strict).filter(|publisher| **publisher != key);
        known.may_publish(&key, strict).then(|| NameClaim::Granted(others.cloned().collect()))
    };
    if let Some(known) = store::name_owner(env, &root, name)? {
        if let Some(granted) = granted(&known) {
            return Ok(granted);
        }
        if let Some(owner) = &known.owner {
            return Ok(NameClaim::Owned(owner.0.clone()));
        }
    }
    let is_refused = store::reservations(env, &root)?.refuses(name, &key);
    let event = event(env, caller, NameAction::Claimed, Some(&key));
    store::update_name_owner(env, &root, name, |current| {
        let (mut known, is_new) = match current {
            Some(known) => (known, false),
            None => (found(env, project.root_namespace(), name)?, true),
        };
        let outcome = match (granted(&known), &known.owner) {
            (Some(granted), _) => granted,
            (None, Some(owner)) => NameClaim::Owned(owner.0.clone()),
            (None, None) if is_refused => return Ok(Decision::Keep(NameClaim::Reserved)),
            (None, None) => {
                known.owner = Some(StoredProject(key.clone()));
                known.record(event.clone());
                return Ok(Decision::Replace(known, NameClaim::Granted(Vec::new())));
            }
        };
        Ok(if is_new { Decision::Replace(known, outcome) } else { Decision::Keep(outcome) })
    })
}

/// The record that a name without one gets, with everything that projects have.
fn found(env: &Env, root: &Namespace, name: &PackageName) -> Result<NameOwner, StoreError> {
    let Some(mut found) = present_publishers(env, root, name, usize::MAX)? else { return Ok(NameOwner::default()) };
    let owner = found.owner.clone().map(|owner| owner.0);
    found.record(event(env, None, NameAction::Found, owner.as_ref()));
    Ok(found)
}

/// Records the owner of a name for which builds without owners recorded none. True if it wrote a record. 1 read, if
/// the name has one.
pub fn complete(env: &Env, project: &Project, name: &PackageName) -> Result<bool, StoreError> {
    let root = project.root_namespace();
    let key = RootKey::from(root);
    if store::name_owner(env, &key, name)?.is_some() {
        return Ok(false);
    }
    store::update_name_owner(env, &key, name, |current| {
        if current.is_some() {
            return Ok(Decision::Keep(false));
        }
        let found = found(env, root, name)?;
        Ok(if found.owner.is_some() { Decision::Replace(found, true) } else { Decision::Keep(false) })
    })
}

/// Changes who may publish a name. `change` returns false if nothing is to be changed. A name without a
/// record gets the record of all its publishers first. Returns the record after the change.
pub fn change<E: From<StoreError>>(
    env: &Env,
    root: &Namespace,
    name: &PackageName,
    event: &NameEvent,
    mut change: impl FnMut(&mut NameOwner) -> Result<bool, E>,
) -> Result<NameOwner, E> {
    store::update_name_owner(env, &RootKey::from(root), name, |current| {
        let mut known = match current {
            Some(known) => known,
            None => found(env, root, name)?,
        };
        // An earlier attempt was stored, but its reply was lost.
        if known.has_applied(&event.id) || !change(&mut known)? {
            return Ok(Decision::Keep(known));
        }
        known.record(event.clone());
        Ok(Decision::Replace(known.clone(), known))
    })
}
