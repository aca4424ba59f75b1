//! The listings that searches and the other levels read: which projects have packages, and which
//! packages.

use super::key::Key;
use super::record::{PackageNamesRecord, ProjectsRecord};
use crate::name::PackageName;
use directory::project::ProjectKey;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;

/// The projects that may have packages, in the order in which they got their first one.
pub fn projects(env: &Env) -> Result<Vec<u64>, StoreError> {
    members(env, &Key::Projects)
}

/// The projects that may have a package of this name, in the order in which they got it. A publication
/// that was not completed leaves a project that has none.
pub fn projects_with_name(env: &Env, name: &PackageName) -> Result<Vec<u64>, StoreError> {
    members(env, &Key::ProjectsWithName(name))
}

/// The packages that a project may have, sorted. A publication that was not completed leaves a name
/// without a package.
pub fn names(env: &Env, project: &ProjectKey) -> Result<Vec<PackageName>, StoreError> {
    let record =
        root::read::<PackageNamesRecord>(&*env.store, &Key::ProjectPackages(project).to_string())?.unwrap_or_default();
    Ok(record.packages.iter().filter_map(|name| PackageName::parse(name)).collect())
}

/// Lists a package before it is written.
pub fn add_project_with_name(env: &Env, name: &PackageName, project: &ProjectKey) -> Result<(), StoreError> {
    add(env, &Key::Projects, project)?;
    let key = Key::ProjectPackages(project).to_string();
    root::update(env, &key, |record: Option<PackageNamesRecord>| -> Result<_, StoreError> {
        let mut record = record.unwrap_or_default();
        let is_new = record.packages.insert(name.as_str().to_owned());
        Ok(if is_new { Decision::Write(record, ()) } else { Decision::Done(()) })
    })?;
    add(env, &Key::ProjectsWithName(name), project)
}

/// Removes a package of a deleted project from the listings. A later project with the same id stays in them.
pub fn remove_project_with_name(env: &Env, name: &PackageName, project: &ProjectKey) -> Result<(), StoreError> {
    remove(env, &Key::ProjectsWithName(name), project)?;
    let key = Key::ProjectPackages(project).to_string();
    let is_empty = root::update(env, &key, |record: Option<PackageNamesRecord>| -> Result<_, StoreError> {
        let Some(mut record) = record else { return Ok(Decision::Done(true)) };
        let was_there = record.packages.remove(name.as_str());
        let is_empty = record.packages.is_empty();
        Ok(if was_there { Decision::Write(record, is_empty) } else { Decision::Done(is_empty) })
    })?;
    if is_empty {
        remove(env, &Key::Projects, project)?;
    }
    Ok(())
}

/// Whether a search and the other levels find a project's package.
pub fn is_listed(env: &Env, project: &ProjectKey, name: &PackageName) -> Result<bool, StoreError> {
    Ok(projects(env)?.contains(&project.id)
        && names(env, project)?.contains(name)
        && projects_with_name(env, name)?.contains(&project.id))
}

fn members(env: &Env, key: &Key) -> Result<Vec<u64>, StoreError> {
    let record = root::read::<ProjectsRecord>(&*env.store, &key.to_string())?;
    Ok(record.map(|record| record.projects).unwrap_or_default())
}

fn add(env: &Env, key: &Key, project: &ProjectKey) -> Result<(), StoreError> {
    root::update(env, &key.to_string(), |record: Option<ProjectsRecord>| {
        let mut record = record.unwrap_or_default();
        Ok(if record.add(project) { Decision::Write(record, ()) } else { Decision::Done(()) })
    })
}

fn remove(env: &Env, key: &Key, project: &ProjectKey) -> Result<(), StoreError> {
    root::update(env, &key.to_string(), |record: Option<ProjectsRecord>| {
        let mut record = record.unwrap_or_default();
        Ok(if record.remove(project) { Decision::Write(record, ()) } else { Decision::Done(()) })
    })
}
