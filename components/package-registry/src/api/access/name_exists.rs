//! Whether a package has one of many names, at a request's level.

use super::action::Action;
use super::{lookup, ownership, projects_by_name};
use crate::api::request::RegistryRequest;
use crate::name::PackageName;
use crate::route::Level;
use crate::store::{self, RootKey};
use directory::namespace::{self, Namespace};
use directory::project::{self, ProjectKey};
use kit::store::StoreError;
use kit::{Env, Error};
use std::collections::{BTreeMap, HashSet};

/// The most names, projects or packages that one request looks up one by one.
const MAX_LOOKUPS: usize = 4000;

/// The most names whose owners one request looks up.
const MAX_OWNERS: usize = 20_000;

/// How many listed packages a request may still look up. A listed package may be absent: its publication broke off, or
/// its project was deleted.
struct LookupBudget(usize);

impl LookupBudget {
    /// False if the budget is spent.
    fn take(&mut self) -> bool {
        self.0.checked_sub(1).inspect(|left| self.0 = *left).is_some()
    }
}

/// Whether [`super::authorize_or_forward`] would not forward one of these names. At the request's level, a package of
/// the name exists, or existed until its last version was unpublished. Also true if the answer needs more than
/// [`MAX_LOOKUPS`]. At group level the caller must be able to read the group.
///
/// Reads, at project level: the project's names. At group level: the projects with packages, and the catalog; then the
/// names of the group's projects or the projects by each name, whichever are fewer. At instance level: the projects by
/// each name whose scope is a top-level namespace. If names have owners, the top-level namespace is looked up in place
/// of the project or group, and the owner of each name.
pub fn any_name_exists(request: &RegistryRequest, names: &HashSet<PackageName>) -> Result<bool, Error> {
    let env = &request.env;
    let budget = &mut LookupBudget(MAX_LOOKUPS);
    let has_owners = ownership::has_owners(env);
    Ok(match &request.level {
        Level::Project(id) => match lookup::project(request, id, Action::Read)? {
            Some(project) if has_owners => is_any_held(env, project.root_namespace(), names, budget)?,
            Some(project) => exists_in_project(env, &project.key(), names, budget)?,
            None => false,
        },
        Level::Group(id) => {
            let group = lookup::group(request, id, Action::Read)?;
            match has_owners {
                true => is_any_held(env, group.root(), names, budget)?,
                false => exists_in_group(env, group.id, names, budget)?,
            }
        }
        Level::Instance => exists_in_instance(env, names, budget)?,
    })
}

/// Whether a top-level namespace holds one of the names: a project has it, or it is claimed or reserved.
fn is_any_held(
    env: &Env,
    root: &Namespace,
    names: &HashSet<PackageName>,
    budget: &mut LookupBudget,
) -> Result<bool, StoreError> {
    if names.len() > MAX_OWNERS || exists_in_group(env, root.id, names, budget)? {
        return Ok(true);
    }
    let root = RootKey::from(root);
    let reservations = store::reservations(env, &root)?;
    for name in names {
        let is_owned = store::name_owner(env, &root, name)?.is_some_and(|known| known.owner.is_some());
        if is_owned || reservations.has(name) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn exists_in_project(
    env: &Env,
    project: &ProjectKey,
    names: &HashSet<PackageName>,
    budget: &mut LookupBudget,
) -> Result<bool, StoreError> {
    for name in store::names(env, project)?.iter().filter(|name| names.contains(name)) {
        if !budget.take() || store::package(env, project, name)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn exists_in_group(
    env: &Env,
    group: u64,
    names: &HashSet<PackageName>,
    budget: &mut LookupBudget,
) -> Result<bool, StoreError> {
    let projects = projects_by_name::projects_below(env, &store::projects(env)?, group)?;
    if projects.len().min(names.len()) > MAX_LOOKUPS {
        return Ok(true);
    }
    if projects.len() > names.len() {
        return exists_below(env, names.iter().map(|name| (name, group)), budget);
    }
    for id in projects {
        let project = project::by_id(env, id)?;
        if let Some(project) = project
            && exists_in_project(env, &project.key(), names, budget)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn exists_in_instance(env: &Env, names: &HashSet<PackageName>, budget: &mut LookupBudget) -> Result<bool, StoreError> {
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
    exists_below(env, names.into_iter(), budget)
}

/// Whether a project has a package of one of the names, below the namespace that is paired with the name.
fn exists_below<'a>(
    env: &Env,
    names: impl Iterator<Item = (&'a PackageName, u64)>,
    budget: &mut LookupBudget,
) -> Result<bool, StoreError> {
    for (name, above) in names {
        for id in &projects_by_name::projects_with_name_below(env, name, above)?.projects {
            if !budget.take() {
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
