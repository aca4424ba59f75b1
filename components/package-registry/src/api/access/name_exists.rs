//! Whether one of many names is that of a package at a request's level.

use super::action::Action;
use super::{holders, lookup};
use crate::api::request::RegistryRequest;
use crate::name::PackageName;
use crate::route::Level;
use crate::store;
use directory::namespace;
use directory::project::{self, ProjectKey};
use kit::store::StoreError;
use kit::{Env, Error};
use std::collections::{BTreeMap, HashSet};

/// The most names, projects or packages of one request that are looked up one by one.
const MAX_LOOKUPS: usize = 4000;

/// How many packages of lists a request may still look up. A listed package may not exist: its publication broke off,
/// or its project was deleted.
struct Lookups(usize);

impl Lookups {
    /// False if too many were looked up.
    fn count(&mut self) -> bool {
        self.0.checked_sub(1).inspect(|left| self.0 = *left).is_some()
    }
}

/// Whether there is a package of one of these names at the request's level, or was until its last version was
/// unpublished: a name that [`super::authorize_or_forward`] does not forward. True as well if that would take more than
/// [`MAX_LOOKUPS`]. At group level the caller must be able to read the group.
///
/// Reads: at project level the names of the project. At group level the projects that have packages, the catalog, and
/// then the names of those in the group or the projects with each name, whichever are fewer. At instance level, for
/// each name whose scope is a top-level namespace, the projects with it.
pub fn has_any(request: &RegistryRequest, names: &HashSet<PackageName>) -> Result<bool, Error> {
    let env = &request.env;
    let lookups = &mut Lookups(MAX_LOOKUPS);
    Ok(match &request.level {
        Level::Project(id) => match lookup::project(request, id, Action::Read)? {
            Some(project) => project_has_any(env, &project.key(), names, lookups)?,
            None => false,
        },
        Level::Group(id) => {
            let group = lookup::group(request, id, Action::Read)?;
            group_has_any(env, group.id, names, lookups)?
        }
        Level::Instance => instance_has_any(env, names, lookups)?,
    })
}

fn project_has_any(
    env: &Env,
    project: &ProjectKey,
    names: &HashSet<PackageName>,
    lookups: &mut Lookups,
) -> Result<bool, StoreError> {
    for name in store::names(env, project)?.iter().filter(|name| names.contains(name)) {
        if !lookups.count() || store::package(env, project, name)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn group_has_any(
    env: &Env,
    group: u64,
    names: &HashSet<PackageName>,
    lookups: &mut Lookups,
) -> Result<bool, StoreError> {
    let projects = holders::projects_below(env, &store::projects(env)?, group)?;
    if projects.len().min(names.len()) > MAX_LOOKUPS {
        return Ok(true);
    }
    if projects.len() > names.len() {
        return any_below(env, names.iter().map(|name| (name, group)), lookups);
    }
    for id in projects {
        let project = project::by_id(env, id)?;
        if let Some(project) = project
            && project_has_any(env, &project.key(), names, lookups)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn instance_has_any(env: &Env, names: &HashSet<PackageName>, lookups: &mut Lookups) -> Result<bool, StoreError> {
    let mut roots: BTreeMap<&str, Option<u64>> = BTreeMap::new();
    for scope in names.iter().filter_map(PackageName::scope) {
        if !roots.contains_key(scope) {
            roots.insert(scope, namespace::child(env, None, scope)?);
        }
    }
    let root = |name: &PackageName| roots.get(name.scope()?).copied().flatten();
    let names: Vec<_> = names.iter().filter_map(|name| Some((name, root(name)?))).collect();
    if names.len() > MAX_LOOKUPS {
        return Ok(true);
    }
    any_below(env, names.into_iter(), lookups)
}

/// Whether a project below the namespace beside a name has a package of that name.
fn any_below<'a>(
    env: &Env,
    names: impl Iterator<Item = (&'a PackageName, u64)>,
    lookups: &mut Lookups,
) -> Result<bool, StoreError> {
    for (name, above) in names {
        for id in &holders::projects_with_name_below(env, name, above)?.projects {
            if !lookups.count() {
                return Ok(true);
            }
            let project = project::by_id(env, *id)?;
            if let Some(project) = project
                && store::package(env, &project.key(), name)?.is_some()
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
