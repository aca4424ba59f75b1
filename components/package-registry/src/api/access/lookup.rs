//! Finds the project, group or packages that a request names.

use super::action::Action;
use super::{denial, ownership, policy, projects_by_name};
use crate::api::request::RegistryRequest;
use crate::merged::Holder;
use crate::name::PackageName;
use crate::name_owner::{MAX_FURTHER, NameOwner};
use crate::package::Package;
use crate::route::Level;
use crate::store;
use directory::access;
use directory::namespace::{self, Namespace};
use directory::project::{self, Project, ProjectKey, ProjectLookup};
use directory::record_cache;
use directory::redirect::Redirect;
use kit::store::StoreError;
use kit::{Env, Error};
use std::collections::HashSet;
use std::rc::Rc;

/// The most packages that one answer merges: the owner's, and those of the first projects that may publish the name.
const MAX_MERGED: usize = MAX_FURTHER + 1;

/// The result of a lookup.
pub struct PackageLookup {
    /// `None` if the name is invalid.
    pub name: Option<PackageName>,
    pub candidates: Candidates,
    /// Whether a package of this name exists, or existed until its last version was unpublished.
    pub is_local: bool,
    /// The top-level namespace whose names are not forwarded, if names have owners.
    pub root: Option<Namespace>,
}

/// The packages that a name means at the request's level.
pub enum Candidates {
    /// At project level, or if names are shared. The caller's rights in the project are not checked yet.
    One {
        project: Option<Rc<Project>>,
        /// `None` also if every version is unpublished.
        package: Option<Rc<Package>>,
    },
    /// At the other levels if names have owners: the packages that the caller may read.
    Readable {
        holders: Vec<Holder>,
        /// The refusal, if there are packages and the caller may read none of them.
        refusal: Option<Error>,
    },
}

impl PackageLookup {
    fn absent(name: Option<PackageName>) -> Self {
        let candidates = Candidates::One { project: None, package: None };
        PackageLookup { name, candidates, is_local: false, root: None }
    }

    /// Whether no project has a package with a listed version.
    pub fn is_absent(&self) -> bool {
        match &self.candidates {
            Candidates::One { package, .. } => package.is_none(),
            Candidates::Readable { holders, refusal } => holders.is_empty() && refusal.is_none(),
        }
    }
}

/// Looks a package up at the request's level. At group level the caller must be able to read the group; a write needs
/// an authenticated caller.
pub fn package(request: &RegistryRequest, name: &str, action: Action) -> Result<PackageLookup, Error> {
    let env = &request.env;
    if action.is_write() {
        request.caller.require_authenticated()?;
    }
    let name = PackageName::parse(name);
    let above = match &request.level {
        Level::Project(id) => {
            let project = project(request, id, action)?;
            let package = match (&project, &name) {
                (Some(project), Some(name)) => store::package(env, &project.key(), name)?,
                _ => None,
            };
            let is_local = package.is_some();
            let package = package.filter(|package| package.listed() > 0);
            let is_owned = package.is_none() && ownership::has_owners(env);
            let root = project.as_ref().filter(|_| is_owned).map(|project| project.root_namespace().clone());
            return Ok(PackageLookup { name, candidates: Candidates::One { project, package }, is_local, root });
        }
        Level::Group(id) => Some(group(request, id, action)?),
        // At instance level the scope must be the path of the top-level namespace.
        Level::Instance => {
            let scope = name.as_ref().and_then(PackageName::scope);
            let root = scope.map(|scope| namespace::child(env, None, scope)).transpose()?.flatten();
            root.map(|root| namespace::by_id(env, root)).transpose()?.flatten()
        }
    };
    match (name, above) {
        (Some(name), Some(above)) if ownership::has_owners(env) => readable(request, name, &above, action),
        (Some(name), Some(above)) => last_published(request, name, above.id),
        (name, _) => Ok(PackageLookup::absent(name)),
    }
}

/// The packages of this name below the namespace `above` that the caller may read, of the projects that may publish the
/// name. The owner's is the first. Reads: the name's record, and each project's package.
fn readable(
    request: &RegistryRequest,
    name: PackageName,
    above: &Namespace,
    action: Action,
) -> Result<PackageLookup, Error> {
    let env = &request.env;
    let (root, action) = (above.root(), if action.is_write() { Action::Read } else { action });
    let (mut holders, mut refusal, mut is_owner_readable) = (Vec::new(), None, false);
    if let Some(known) = ownership::find(env, root, &name)? {
        for publisher in publishers(env, &known, above)? {
            let present = ownership::present(env, root, publisher)?;
            let is_below = |project: &Rc<Project>| project.namespace.lineage().any(|found| found.id == above.id);
            let Some(project) = present.filter(is_below) else { continue };
            let package = store::package(env, publisher, &name)?.filter(|package| package.listed() > 0);
            let Some(package) = package else { continue };
            match policy::check(request, &project, action) {
                Ok(_) => {
                    let is_owner = known.is_owner(publisher);
                    is_owner_readable |= is_owner;
                    // Projects of before names had owners provide `latest` where the owner cannot, as they did.
                    let provides_latest = is_owner || (known.is_unconfirmed(publisher) && !is_owner_readable);
                    holders.push(Holder { project, package, provides_latest });
                }
                Err(error) if error.status.is_server_error() => return Err(error),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
    }
    let refusal = refusal.filter(|_| holders.is_empty()).map(|error| denial::name_unreadable(request, error, action));
    let candidates = Candidates::Readable { holders, refusal };
    Ok(PackageLookup { name: Some(name), candidates, is_local: false, root: Some(root.clone()) })
}

/// The projects that may publish a name, the owner first: at most [`MAX_MERGED`]. Of more, which only stores of earlier
/// builds have, those below `above`.
fn publishers<'a>(env: &Env, known: &'a NameOwner, above: &Namespace) -> Result<Vec<&'a ProjectKey>, StoreError> {
    let mut publishers: Vec<_> = known.publishers(ownership::is_strict(env)).collect();
    if publishers.len() > MAX_MERGED {
        let ids: Vec<u64> = publishers.iter().map(|publisher| publisher.id).collect();
        let below: HashSet<u64> = projects_by_name::projects_below(env, &ids, above.id)?.into_iter().collect();
        publishers.retain(|publisher| below.contains(&publisher.id));
        publishers.truncate(MAX_MERGED);
    }
    Ok(publishers)
}

/// The most recently published package of this name, among the projects below the namespace `above`. Reads: the
/// projects by name; below `above`, the last project's package, or each if an earlier build wrote the list.
fn last_published(request: &RegistryRequest, name: PackageName, above: u64) -> Result<PackageLookup, Error> {
    let env = &request.env;
    let mut newest: Option<(Rc<Project>, Rc<Package>)> = None;
    let mut is_local = false;
    let by_name = projects_by_name::projects_with_name_below(env, &name, above)?;
    for id in by_name.projects.iter().rev() {
        let Some(project) = project::by_id(env, *id)? else { continue };
        let Some(package) = store::package(env, &project.key(), &name)? else { continue };
        is_local = true;
        if package.listed() == 0 {
            continue;
        }
        if newest.as_ref().is_none_or(|(_, newest)| newest.published < package.published) {
            newest = Some((Rc::new(project), package));
        }
        if by_name.by_publication {
            break;
        }
    }
    let (project, package) = newest.unzip();
    Ok(PackageLookup { name: Some(name), candidates: Candidates::One { project, package }, is_local, root: None })
}

/// The group with this id or path, which the caller must be able to read.
pub fn group(request: &RegistryRequest, id: &str, action: Action) -> Result<Namespace, Error> {
    match namespace::find_group(&request.env, id)? {
        Some(group) if access::may_read_group(&request.env, &request.caller, &group)? => Ok(group),
        _ => Err(denial::group_not_found(request, action)),
    }
}

/// The project with this id or path. A read by a former path is answered and not redirected: some clients have no token
/// for the new address. A write to a former path is 405.
pub fn project(request: &RegistryRequest, id: &str, action: Action) -> Result<Option<Rc<Project>>, Error> {
    match record_cache::find_project(&request.env, id)? {
        ProjectLookup::Found(project) => Ok(Some(project)),
        ProjectLookup::Missing => Ok(None),
        ProjectLookup::Moved(project) if action.is_write() => Err(moved(request, &project, action)?),
        ProjectLookup::Moved(project) => Ok(Some(project)),
    }
}

/// 301, or 405 for a write, if the request names its project by a former path.
pub fn redirect_moved(request: &RegistryRequest, action: Action) -> Result<(), Error> {
    if let Level::Project(id) = &request.level
        && let ProjectLookup::Moved(project) = record_cache::find_project(&request.env, id)?
    {
        return Err(moved(request, &project, action)?);
    }
    Ok(())
}

fn moved(request: &RegistryRequest, project: &Project, action: Action) -> Result<Error, Error> {
    if !access::may_read_project(&request.env, &request.caller, project)? {
        return Ok(denial::project_not_found(request, action));
    }
    let base_url = request.env.external_url(&request.http);
    let redirect = Redirect::to_project(project.id, &base_url, &request.http.path, &request.http.query);
    Ok(redirect.into_error(&request.http.method))
}
