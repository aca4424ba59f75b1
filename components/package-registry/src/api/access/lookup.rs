//! Finds the project, group or package that a request names.

use super::action::Action;
use super::{denial, projects_by_name};
use crate::api::request::RegistryRequest;
use crate::name::PackageName;
use crate::package::Package;
use crate::route::Level;
use crate::store;
use directory::access;
use directory::namespace::{self, Namespace};
use directory::project::{self, Project, ProjectLookup};
use directory::record_cache;
use directory::redirect::Redirect;
use kit::Error;
use std::rc::Rc;

/// The result of a lookup. The caller's rights in the project are not checked yet.
pub struct PackageLookup {
    /// `None` if the name is invalid.
    pub name: Option<PackageName>,
    pub project: Option<Rc<Project>>,
    /// `None` also if every version is unpublished.
    pub package: Option<Rc<Package>>,
    /// Whether a package of this name exists, or existed until its last version was unpublished.
    pub is_local: bool,
}

/// Looks a package up at the request's level. At group level the caller must be able to read the group; a write needs
/// an authenticated caller.
pub fn package(request: &RegistryRequest, name: &str, action: Action) -> Result<PackageLookup, Error> {
    if action.is_write() {
        request.caller.require_authenticated()?;
    }
    let name = PackageName::parse(name);
    let found = match &request.level {
        Level::Project(id) => {
            let project = project(request, id, action)?;
            let package = match (&project, &name) {
                (Some(project), Some(name)) => store::package(&request.env, &project.key(), name)?,
                _ => None,
            };
            PackageLookup { name, is_local: package.is_some(), package, project }
        }
        Level::Group(id) => {
            let group = group(request, id, action)?;
            last_published(request, name, Some(group.id))?
        }
        // At instance level the scope must be the path of the top-level namespace.
        Level::Instance => {
            let scope = name.as_ref().and_then(PackageName::scope);
            let root = scope.map(|scope| namespace::child(&request.env, None, scope)).transpose()?.flatten();
            last_published(request, name, root)?
        }
    };
    Ok(PackageLookup { package: found.package.filter(|package| package.listed() > 0), ..found })
}

/// The most recently published package of this name, among the projects below the namespace `above`. Reads: the
/// projects by name; below `above`, the last project's package, or each if an earlier build wrote the list.
fn last_published(
    request: &RegistryRequest,
    name: Option<PackageName>,
    above: Option<u64>,
) -> Result<PackageLookup, Error> {
    let env = &request.env;
    let mut newest: Option<(Rc<Project>, Rc<Package>)> = None;
    let mut is_local = false;
    if let (Some(name), Some(above)) = (&name, above) {
        let by_name = projects_by_name::projects_with_name_below(env, name, above)?;
        for id in by_name.projects.iter().rev() {
            let Some(project) = project::by_id(env, *id)? else { continue };
            let Some(package) = store::package(env, &project.key(), name)? else { continue };
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
    }
    let (project, package) = newest.unzip();
    Ok(PackageLookup { name, project, package, is_local })
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
