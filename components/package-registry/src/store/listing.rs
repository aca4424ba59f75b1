//! The listings that searches and the other levels read: which projects have packages, and which
//! packages.

use super::key::Key;
use super::record::{PackageNamesRecord, ProjectsRecord};
use crate::name::PackageName;
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
pub fn names(env: &Env, project: u64) -> Result<Vec<PackageName>, StoreError> {
    let record =
        root::read::<PackageNamesRecord>(&*env.store, &Key::ProjectPackages(project).to_string())?.unwrap_or_default();
    Ok(record.packages.iter().filter_map(|name| PackageName::parse(name)).collect())
}

/// Lists a package before it is written.
pub fn add_project_with_name(env: &Env, name: &PackageName, project: u64) -> Result<(), StoreError> {
    add(env, &Key::Projects, project)?;
    let key = Key::ProjectPackages(project).to_string();
    root::update(env, &key, |record: Option<PackageNamesRecord>| -> Result<_, StoreError> {
        let mut record = record.unwrap_or_default();
        let is_new = record.packages.insert(name.as_str().to_owned());
        Ok(if is_new { Decision::Write(record, ()) } else { Decision::Done(()) })
    })?;
    add(env, &Key::ProjectsWithName(name), project)
}

/// Whether a search and the other levels find a project's package.
pub fn is_listed(env: &Env, project: u64, name: &PackageName) -> Result<bool, StoreError> {
    Ok(projects(env)?.contains(&project)
        && names(env, project)?.contains(name)
        && projects_with_name(env, name)?.contains(&project))
}

fn members(env: &Env, key: &Key) -> Result<Vec<u64>, StoreError> {
    let record = root::read::<ProjectsRecord>(&*env.store, &key.to_string())?;
    Ok(record.map(|record| record.projects).unwrap_or_default())
}

fn add(env: &Env, key: &Key, project: u64) -> Result<(), StoreError> {
    root::update(env, &key.to_string(), |record: Option<ProjectsRecord>| {
        let mut record = record.unwrap_or_default();
        if record.projects.contains(&project) {
            return Ok(Decision::Done(()));
        }
        record.projects.push(project);
        Ok(Decision::Write(record, ()))
    })
}
