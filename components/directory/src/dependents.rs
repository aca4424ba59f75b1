//! The dependents of a user, a group or a project, which are deleted or moved with it.
//!
//! No record names its dependents; the [`catalog`] does. So the caller first commits earlier changes and logs an
//! intent, which adds the dependents. A dependent is deleted only if its record still names the deleted record.

use crate::catalog::changes::{Dangling, DeletedRecords, existence};
use crate::catalog::intent_log::{DanglingPolicy, IntentLog};
use crate::catalog::{self, Catalog};
use crate::feature::{self, Actor};
use crate::member::{self, Source};
use crate::namespace::{self, NewGroup};
use crate::path::Unconfirmed;
use crate::project::{self, Incarnation};
use crate::save_error::SaveError;
use crate::store::{self, Existence, Key};
use crate::token;
use crate::user::{self, NewUser};
use kit::Env;
use kit::store::StoreError;
use std::collections::BTreeSet;

/// Deletes a project, the roles of its members, and its gates of features.
pub fn delete_project(env: &Env, id: u64) -> Result<(), StoreError> {
    detach_project(env, &*catalog::read(env)?, id)?;
    project::delete(env, id)?;
    close_gates_of_deleted(env, [(Actor::Project(id), None)]).map(drop)
}

/// Deletes a group, everything below it, the roles of its members, its invitations, and its gates of features.
pub fn delete_group(env: &Env, id: u64) -> Result<(), StoreError> {
    let catalog = catalog::read(env)?;
    if catalog.namespace(id).is_none_or(|namespace| namespace.is_group()) {
        delete_below(env, &catalog, id)?;
        detach_group(env, &catalog, id)?;
        namespace::delete_group(env, id)?;
        close_gates_of_deleted(env, [(Actor::Group(id), None)])?;
    }
    Ok(())
}

/// Deletes a user with roles, gates of features, personal tokens, and the personal namespace with its projects.
pub fn delete_user(env: &Env, id: u64) -> Result<(), StoreError> {
    let catalog = catalog::read(env)?;
    if let Some(user) = user::by_id(env, id)? {
        delete_below(env, &catalog, user.namespace_id)?;
    }
    feature::forget_actor(env, Actor::User(id))?;
    user::delete(env, id)?;
    close_gates_of_deleted(env, [(Actor::User(id), None)])?;
    token::delete_of_former(env, id)
}

/// Removes deleted actors from the gates of all features and returns them. With an incarnation, an actor also counts as
/// deleted if another incarnation has its id now. 2 reads, and 1 for each actor.
///
/// A writer calls this after it has stored a gate or deleted an actor. Each waits until others see its write. So of two
/// concurrent writers the later one finds the other's write.
pub fn close_gates_of_deleted(
    env: &Env,
    actors: impl IntoIterator<Item = (Actor, Option<Incarnation>)>,
) -> Result<BTreeSet<Actor>, StoreError> {
    store::read_barrier(env, &Key::Features)?;
    let mut deleted_actors = BTreeSet::new();
    for (actor, incarnation) in actors {
        let is_deleted = match existence(env, actor) {
            // Such an actor is not known to be deleted.
            Ok(Existence::Unknown) | Err(StoreError::Corrupt { .. }) => false,
            Ok(Existence::Deleted) => true,
            Ok(Existence::Present(present)) => incarnation.is_some_and(|incarnation| incarnation != present),
            Err(error) => return Err(error),
        };
        if is_deleted {
            deleted_actors.insert(actor);
        }
    }
    if !deleted_actors.is_empty() {
        feature::forget_actors(env, &deleted_actors)?;
    }
    Ok(deleted_actors)
}

/// Updates the catalog to the changes of other writers. A killed writer does not update it, and lists would stay
/// outdated until the next change. 1 read if no change is logged.
pub(crate) fn finish_interrupted(env: &Env) -> Result<(), StoreError> {
    match IntentLog::of_others(env).and_then(|others| others.commit(env)) {
        // The catalog has the readable part of a damaged store. The damage is reported elsewhere.
        Err(StoreError::Corrupt { .. }) => Ok(()),
        finished => finished,
    }
}

impl IntentLog {
    /// Updates the catalog to the present records, including the records in other writers' intents. Before that, it
    /// deletes groups and projects that writers put below groups and users during their deletion. It also deletes roles
    /// and invitations that were stored during or after the deletion.
    pub fn commit(self, env: &Env) -> Result<(), StoreError> {
        delete_dangling(env, self.late_children(env)?.into())?;
        loop {
            let dangling = self.update_catalog(env, DanglingPolicy::Refuse)?;
            if dangling.is_empty() {
                return Ok(());
            }
            match delete_dangling(env, dangling) {
                // Other writers' changes must not wait for the repair of a dependent that cannot be read.
                Err(StoreError::Corrupt { .. }) => return self.update_catalog(env, DanglingPolicy::Keep).map(drop),
                deleted => deleted?,
            }
        }
    }
}

/// Deletes these dependents if they still depend on deleted records: groups and projects directly below deleted
/// namespaces with everything below them, roles, and invitations.
pub(crate) fn delete_dangling(env: &Env, late: Dangling) -> Result<(), StoreError> {
    if late.is_empty() {
        return Ok(());
    }
    let deletion = IntentLog::begin(env, late.changes())?;
    remove_dangling(env, &late)?;
    let catalog = catalog::read(env)?;
    for id in late.orphans.deleted_projects() {
        if let Some(parent) = deleted(env, project::namespace_of(env, id)?)? {
            delete_project_in(env, &catalog, id, &parent)?;
        }
    }
    for id in late.orphans.deleted_groups() {
        if let Some(parent) = deleted(env, namespace::parent_of(env, id)?)? {
            delete_below(env, &catalog, id)?;
            delete_group_in(env, &catalog, id, &parent)?;
        }
    }
    deletion.commit(env)
}

/// Removes these roles and invitations if they still belong to deleted records.
pub(crate) fn remove_dangling(env: &Env, late: &Dangling) -> Result<(), StoreError> {
    let mut is_deleted = DeletedRecords::default();
    for (source, user_id) in &late.roles {
        if is_deleted.user(env, *user_id)? || is_deleted.source(env, *source)? {
            member::save(env, *user_id, &[(*source, None)].into())?;
        }
    }
    for (inviting, invited) in &late.invitations {
        if is_deleted.source(env, Source::Group(*invited))? {
            remove_share(env, *inviting, *invited)?;
        }
    }
    Ok(())
}

/// Removes the invitation of a group.
fn remove_share(env: &Env, inviting: Source, invited: u64) -> Result<(), StoreError> {
    match inviting {
        Source::Group(id) => namespace::remove_share(env, id, invited),
        Source::Project(id) => project::remove_share(env, id, invited),
    }
}

/// The namespace, if it is deleted.
fn deleted(env: &Env, namespace: Option<u64>) -> Result<Option<BTreeSet<u64>>, StoreError> {
    let Some(id) = namespace else { return Ok(None) };
    Ok((namespace::existence(env, id)? == Existence::Deleted).then(|| [id].into()))
}

/// Creates or replaces a group. Moving a group moves everything below it, which the catalog must already have.
pub fn save_group(env: &Env, new: NewGroup) -> Result<(), SaveError> {
    write_group(env, new)?.confirm(env)
}

/// Like [`save_group`], without the confirmation.
pub fn write_group(env: &Env, new: NewGroup) -> Result<Unconfirmed, SaveError> {
    let moves_below = new.parent_id.map_or(Ok(false), |parent_id| namespace::is_elsewhere(env, new.id, parent_id))?;
    let height = if moves_below { height(&*catalog::read(env)?, new.id) } else { 1 };
    namespace::write_subtree(env, new, height)
}

/// The levels of groups in a subtree.
fn height(catalog: &Catalog, id: u64) -> usize {
    let Some(group) = catalog.namespace(id) else { return 1 };
    let lowest = group.descendants().map(|below| below.lineage().count()).max().unwrap_or_default();
    (lowest + 1).saturating_sub(group.lineage().count())
}

/// Creates or replaces a user and the personal namespace. If the namespace gets another id, its projects move with it.
pub fn write_user(env: &Env, new: NewUser) -> Result<Unconfirmed, SaveError> {
    user::write_with(env, new, |former, present| {
        let catalog = catalog::read(env)?;
        let Some(former) = catalog.namespace(former) else { return Ok(()) };
        former.projects().try_for_each(|moved| project::relocate(env, moved.id(), former.id(), present))
    })
}

/// Deletes everything below a namespace, the deepest first, so that an interrupted deletion can be repeated.
fn delete_below(env: &Env, catalog: &Catalog, id: u64) -> Result<(), StoreError> {
    let Some(namespace) = catalog.namespace(id) else { return Ok(()) };
    let mut parents = BTreeSet::from([id]);
    let mut below = Vec::new();
    for group in namespace.descendants().filter(|group| group.id() != id) {
        if namespace::parent_of(env, group.id())?.is_some_and(|parent| parents.contains(&parent)) {
            parents.insert(group.id());
            below.push(group.id());
        }
    }
    for project in namespace.projects_below() {
        if project::namespace_of(env, project.id())?.is_some_and(|parent| parents.contains(&parent)) {
            delete_project_in(env, catalog, project.id(), &parents)?;
        }
    }
    below.iter().rev().try_for_each(|group| delete_group_in(env, catalog, *group, &parents))
}

/// Deletes a project with its namespace, unless another writer has moved it elsewhere meanwhile.
fn delete_project_in(env: &Env, catalog: &Catalog, id: u64, namespaces: &BTreeSet<u64>) -> Result<(), StoreError> {
    detach_project(env, catalog, id)?;
    project::delete_in(env, id, namespaces)?;
    close_gates_of_deleted(env, [(Actor::Project(id), None)]).map(drop)
}

/// Deletes a group with its parent, unless another writer has moved it elsewhere meanwhile.
fn delete_group_in(env: &Env, catalog: &Catalog, id: u64, parents: &BTreeSet<u64>) -> Result<(), StoreError> {
    detach_group(env, catalog, id)?;
    namespace::delete_group_in(env, id, parents)?;
    close_gates_of_deleted(env, [(Actor::Group(id), None)]).map(drop)
}

/// Removes the memberships and feature gates of a project before its deletion.
fn detach_project(env: &Env, catalog: &Catalog, id: u64) -> Result<(), StoreError> {
    remove_memberships(env, catalog, Source::Project(id))?;
    feature::forget_actor(env, Actor::Project(id))
}

/// Removes the memberships, feature gates and invitations of a group before its deletion.
fn detach_group(env: &Env, catalog: &Catalog, id: u64) -> Result<(), StoreError> {
    remove_memberships(env, catalog, Source::Group(id))?;
    feature::forget_actor(env, Actor::Group(id))?;
    let (groups, projects) = catalog.inviting(id);
    groups.iter().try_for_each(|inviting| namespace::remove_share(env, *inviting, id))?;
    projects.iter().try_for_each(|inviting| project::remove_share(env, *inviting, id))
}

fn remove_memberships(env: &Env, catalog: &Catalog, source: Source) -> Result<(), StoreError> {
    let mut users = Vec::new();
    catalog.members(env, &[source], |member| users.push(member.user_id))?;
    users.iter().try_for_each(|user_id| member::save(env, *user_id, &[(source, None)].into()))
}

#[cfg(test)]
mod tests;
