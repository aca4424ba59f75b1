//! Projects.

pub use crate::model::incarnation::Incarnation;
pub use crate::model::project::{
    Analytics, FeatureAccess, JobTokenScope, NewProject, Project, ProjectKey, ProjectLookup, ProtectedBranch,
};
pub use crate::store::Existence;

use crate::model::membership::Source;
use crate::model::user::User;
use crate::path::{self, Identifier, PathOwner, Unconfirmed};
use crate::save_error::{InvalidRecord, SaveError};
use crate::store::{self, Incarnated as _, Key, ProjectRecord};
use crate::{namespace, seal};
use kit::Env;
use kit::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};

/// The context that a project's analytics key is sealed for.
fn analytics_key_context(id: u64) -> String {
    format!("project/{id}/analytics_api_key")
}

impl Project {
    /// The key of the project's own engine. An error if it was sealed with a key that is not configured.
    pub fn analytics_key(&self, env: &Env) -> Result<Option<String>, StoreError> {
        let open = |stored| seal::open(env, &analytics_key_context(self.id), stored);
        self.analytics.key.as_deref().map(open).transpose()
    }
}

/// The project with this id. 1 read, and 1 for each namespace above it.
pub fn by_id(env: &Env, id: u64) -> Result<Option<Project>, StoreError> {
    let Some(record) = store::read::<ProjectRecord>(env, &Key::Project(id))? else {
        return Ok(None);
    };
    let namespace = namespace::by_id(env, record.namespace_id)?;
    Ok(namespace.map(|namespace| record.into_project(id, namespace)))
}

/// The project with this id (all digits) or full path, in any letter case. By path, 2 reads for each segment.
pub fn find(env: &Env, id_or_path: &str) -> Result<ProjectLookup, StoreError> {
    match Identifier::parse(id_or_path) {
        Identifier::Id(id) => Ok(by_id(env, id)?.map_or(ProjectLookup::Missing, ProjectLookup::Found)),
        Identifier::Path(path) => by_path(env, path),
        Identifier::Invalid => Ok(ProjectLookup::Missing),
    }
}

/// The project whose present or former path is `path`.
fn by_path(env: &Env, path: &str) -> Result<ProjectLookup, StoreError> {
    let Some((above, name)) = path.rsplit_once('/') else {
        return Ok(ProjectLookup::Missing);
    };
    let Some((namespace, is_former)) = namespace::by_present_or_former_path(env, above)? else {
        return Ok(ProjectLookup::Missing);
    };
    let Some((PathOwner::Project(id), incarnation)) = path::owner(env, Some(namespace.id), name)? else {
        return Ok(ProjectLookup::Missing);
    };
    let Some(record) = store::read::<ProjectRecord>(env, &Key::Project(id))? else {
        return Ok(ProjectLookup::Missing);
    };
    if record.namespace_id == namespace.id && record.path.eq_ignore_ascii_case(name) {
        let project = record.into_project(id, namespace);
        return Ok(if is_former { ProjectLookup::Moved(project) } else { ProjectLookup::Found(project) });
    }
    let owner = by_id(env, id)?.filter(|project| project.incarnation == incarnation);
    Ok(owner.map_or(ProjectLookup::Missing, ProjectLookup::Moved))
}

/// Creates or replaces a project. After a change of its path, its old path leads to it until another record claims that
/// path.
pub fn save(env: &Env, new: NewProject) -> Result<(), SaveError> {
    write(env, new)?.confirm(env)
}

/// Like [`save`], without the confirmation.
pub fn write(env: &Env, mut new: NewProject) -> Result<Unconfirmed, SaveError> {
    let (id, namespace_id, segment) = (new.id, new.namespace_id, new.path.clone());
    let check = move |env: &Env| match namespace::by_id(env, namespace_id)? {
        Some(_) => Ok(()),
        None => Err(SaveError::from(InvalidRecord::UnknownNamespace(namespace_id))),
    };
    check(env)?;
    path::claim(env, Some(namespace_id), &segment, PathOwner::Project(id), None)?;
    let sealed = |key: String| seal::seal(env, &analytics_key_context(id), &key);
    new.analytics.key = new.analytics.key.map(sealed).transpose()?;
    let accepted = job_token_incarnations(env, &new.job_tokens)?;
    let creator = new.creator_id.map(|creator| store::existence::<User>(env, &Key::User(creator))).transpose()?;
    let creator = creator.map(Existence::or_first).unwrap_or_default();
    let (key, record) = (Key::Project(id), ProjectRecord::from(new).accepting(accepted).created_by(creator));
    let put = store::put(env, &key, |before, incarnation| Ok(record.clone().of(incarnation, before)))?;
    // The namespace may have been deleted since the check. A later deletion finds the project
    // ([`crate::catalog::intent_log::IntentLog::commit`]).
    Ok(Unconfirmed::new(move |env| {
        let checked = if put.is_change() { check(env) } else { Ok(()) };
        checked
            .and_then(|()| path::confirm(env, Some(namespace_id), &segment, PathOwner::Project(id), put.incarnation()))
            .map_err(|error| put.undo(env, &Key::Project(id), error))
    }))
}

/// The incarnations of the projects and groups whose jobs are accepted, except first incarnations. 1 read for each.
fn job_token_incarnations(env: &Env, accepted: &JobTokenScope) -> Result<BTreeMap<Source, Incarnation>, StoreError> {
    let projects = accepted.projects.iter().map(|id| Source::Project(*id));
    let mut incarnations = BTreeMap::new();
    for source in projects.chain(accepted.groups.iter().map(|id| Source::Group(*id))) {
        let incarnation = match source {
            Source::Project(id) => existence(env, id)?.or_first(),
            Source::Group(id) => namespace::existence(env, id)?.or_first(),
        };
        if !incarnation.is_first() {
            incarnations.insert(source, incarnation);
        }
    }
    Ok(incarnations)
}

/// Moves a project from one namespace to another. Refused if the path is taken there.
pub(crate) fn relocate(env: &Env, id: u64, from: u64, to: u64) -> Result<(), SaveError> {
    let key = Key::Project(id);
    let Some(record) = store::read::<ProjectRecord>(env, &key)?.filter(|record| record.namespace_id == from) else {
        return Ok(());
    };
    path::claim(env, Some(to), &record.path, PathOwner::Project(id), None)?;
    store::change(env, &key, |record: &mut ProjectRecord| {
        if record.namespace_id == from {
            record.namespace_id = to;
        }
    })?;
    path::confirm(env, Some(to), &record.path, PathOwner::Project(id), record.incarnation())
}

/// The id of a project's namespace. 1 read.
pub(crate) fn namespace_of(env: &Env, id: u64) -> Result<Option<u64>, StoreError> {
    Ok(store::read::<ProjectRecord>(env, &Key::Project(id))?.map(|record| record.namespace_id))
}

/// Whether a project with this id exists or existed. 1 read.
pub fn existence(env: &Env, id: u64) -> Result<Existence, StoreError> {
    store::existence::<ProjectRecord>(env, &Key::Project(id))
}

/// The incarnation that the project's issues name; the first one without a record. 1 read.
pub fn issues_incarnation(env: &Env, id: u64) -> Result<Incarnation, StoreError> {
    let record = store::read::<ProjectRecord>(env, &Key::Project(id))?;
    Ok(record.map(|record| record.issues_incarnation).unwrap_or_default())
}

/// Whether a project with this id exists or existed, with the incarnation that its repository names. 1 read.
pub fn repository_existence(env: &Env, id: u64) -> Result<Existence, StoreError> {
    let key = Key::Project(id);
    Ok(match store::read::<ProjectRecord>(env, &key)? {
        Some(record) => Existence::Present(record.repository_incarnation),
        None => store::existence::<ProjectRecord>(env, &key)?,
    })
}

/// Deletes the record of a project. [`crate::dependents`] deletes its dependents.
pub fn delete(env: &Env, id: u64) -> Result<(), StoreError> {
    store::write::<ProjectRecord>(env, &Key::Project(id), None)
}

/// Deletes the record of a project with its namespace, unless another writer has moved the project elsewhere meanwhile.
pub(crate) fn delete_in(env: &Env, id: u64, namespaces: &BTreeSet<u64>) -> Result<(), StoreError> {
    store::delete_if(env, &Key::Project(id), |record: &ProjectRecord| namespaces.contains(&record.namespace_id))
}

/// Removes the invitation of a group from a project.
pub(crate) fn remove_share(env: &Env, id: u64, invited: u64) -> Result<(), StoreError> {
    store::change(env, &Key::Project(id), |record: &mut ProjectRecord| {
        record.shares.retain(|share| share.group_id != invited);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;

    #[test]
    fn a_protected_branch_asks_for_more_and_the_most_permissive_protection_counts() {
        let env = crate::testing::forge();
        let mut project = by_id(&env, 100).unwrap().unwrap();
        let may_push = |project: &Project, role, branch| project.may_push(role, branch, Some("main"));
        assert!(may_push(&project, Role::Developer, "topic") && !may_push(&project, Role::Reporter, "topic"));
        assert!(!may_push(&project, Role::Developer, "main") && may_push(&project, Role::Maintainer, "main"));
        assert!(project.may_push(Role::Developer, "main", None), "the repository has no default branch");
        project.protected_branches = Some(vec![]);
        assert!(may_push(&project, Role::Developer, "main"), "its protection was removed");
        let protect = |name: &str, push| ProtectedBranch { name: name.into(), push };
        let mut protected = vec![protect("main", Some(Role::Maintainer)), protect("frozen", None)];
        project.protected_branches = Some(protected.clone());
        assert!(!may_push(&project, Role::Developer, "main") && may_push(&project, Role::Maintainer, "main"));
        assert!(!may_push(&project, Role::Owner, "frozen") && may_push(&project, Role::Developer, "topic"));
        protected.push(protect("*", Some(Role::Developer)));
        project.protected_branches = Some(protected);
        assert!(may_push(&project, Role::Developer, "main"));
        project.repository = FeatureAccess::Disabled;
        assert!(!may_push(&project, Role::Owner, "topic"));
        project.repository = FeatureAccess::Private;
        assert!(may_push(&project, Role::Developer, "topic"));
        project.archived = true;
        assert!(!may_push(&project, Role::Owner, "topic"));
    }
}
