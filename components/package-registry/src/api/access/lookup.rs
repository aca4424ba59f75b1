//! Finds the project, group or package that a request names.

use super::action::Action;
use super::{denial, holders};
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
    /// `None` if no package can have the name.
    pub name: Option<PackageName>,
    pub project: Option<Rc<Project>>,
    /// `None` also if every version is unpublished.
    pub package: Option<Rc<Package>>,
    /// Whether there is a package of this name, or was until its last version was unpublished.
    pub is_local: bool,
}

/// Looks a package up at the request's level. At group level the caller must be able to read the group;
/// a write needs a caller who is not anonymous.
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

/// The package of this name that was published to last, among the projects below the namespace `above`.
/// Reads: the projects with this name, and of those below `above` the last, or each if an earlier build
/// listed them.
fn last_published(
    request: &RegistryRequest,
    name: Option<PackageName>,
    above: Option<u64>,
) -> Result<PackageLookup, Error> {
    let env = &request.env;
    let mut newest: Option<(Rc<Project>, Rc<Package>)> = None;
    let mut is_local = false;
    if let (Some(name), Some(above)) = (&name, above) {
        let holders = holders::projects_with_name_below(env, name, above)?;
        for id in holders.projects.iter().rev() {
            let Some(project) = project::by_id(env, *id)? else { continue };
            let Some(package) = store::package(env, &project.key(), name)? else { continue };
            is_local = true;
            if package.listed() == 0 {
                continue;
            }
            if newest.as_ref().is_none_or(|(_, newest)| newest.published < package.published) {
                newest = Some((Rc::new(project), package));
            }
            if holders.by_publication {
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

/// The project with this id or path. A former path is read as the present one is: some clients have no token for the
/// address that they would be redirected to. The error is 405 for a write to a former path.
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
