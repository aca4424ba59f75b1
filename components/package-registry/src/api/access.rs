//! Which package a request means, and whether the caller may do that to it.

use super::{Call, refused};
use crate::name::PackageName;
use crate::package::Package;
use crate::route::{self, Level};
use crate::store;
use directory::access::{self, Role};
use directory::caller::{self, Caller};
use directory::namespace::{self, Namespace, Visibility};
use directory::project::{self, FeatureAccess, Project, ProjectLookup};
use directory::protection;
use directory::setting;
use http::header::LOCATION;
use http::{HeaderValue, Method, StatusCode};
use kit::Error;
use kit::store::StoreError;

/// What a request wants to do with a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Metadata and tags.
    Read,
    /// The file. Differs only in that an anonymous caller is told nothing.
    Download,
    /// A new version, or a tag for one.
    Publish,
    /// Taking something away, and deprecating.
    Destroy,
}

impl Purpose {
    fn is_write(self) -> bool {
        matches!(self, Purpose::Publish | Purpose::Destroy)
    }
}

/// A package that a request means, before the caller's rights are looked at.
pub struct Found {
    pub name: Option<PackageName>,
    pub project: Option<Project>,
    /// Only if it lists a version.
    pub package: Option<Package>,
}

/// A package that exists, in a project where the caller may do what they want to.
pub struct Located {
    pub name: PackageName,
    pub project: Project,
    pub package: Package,
}

impl Found {
    /// Checks the caller's rights. `missing` is the error if there is no such package.
    pub fn authorize(self, call: &Call, purpose: Purpose, missing: Error) -> Result<Located, Error> {
        let Some(project) = self.project else {
            return Err(no_project(call, purpose));
        };
        authorize(call, &project, purpose)?;
        match (self.name, self.package) {
            (Some(name), Some(package)) => Ok(Located { name, project, package }),
            _ => Err(missing),
        }
    }
}

/// Looks a package up at the request's level. The project is not authorised yet; a group is.
pub fn find(call: &Call, name: &str, purpose: Purpose) -> Result<Found, Error> {
    if purpose.is_write() {
        call.caller.known_or_401()?;
    }
    // A name that no package can have is looked up like one that no package has.
    let name = PackageName::parse(name);
    let found = match &call.level {
        Level::Project(id) => {
            let project = project(call, id, purpose)?;
            let package = match (&project, &name) {
                (Some(project), Some(name)) => store::package(&call.env, project.id, name)?,
                _ => None,
            };
            Found { name, package, project }
        }
        Level::Group(id) => {
            let group = group(call, id, purpose)?;
            newest(call, name, |project| project.namespace.lineage().any(|above| above.id == group.id))?
        }
        // Only the path of a top-level namespace, as a scope, tells where to look.
        Level::Instance => {
            let scope = name.as_ref().and_then(PackageName::scope).map(str::to_owned);
            newest(call, name, |project| {
                scope.as_ref().is_some_and(|scope| scope.eq_ignore_ascii_case(&project.root_namespace().path))
            })?
        }
    };
    Ok(Found { package: found.package.filter(|package| package.listed() > 0), ..found })
}

/// Of the packages of this name in the projects that `is_meant` tells, the one that was published
/// to last.
fn newest(call: &Call, name: Option<PackageName>, is_meant: impl Fn(&Project) -> bool) -> Result<Found, Error> {
    let mut newest: Option<(Project, Package)> = None;
    if let Some(name) = &name {
        for id in store::projects_with_name(&call.env, name)? {
            let Some(project) = project::by_id(&call.env, id)?.filter(|project| is_meant(project)) else { continue };
            let Some(package) = store::package(&call.env, id, name)?.filter(|package| package.listed() > 0) else {
                continue;
            };
            if newest.as_ref().is_none_or(|(_, newest)| newest.published <= package.published) {
                newest = Some((project, package));
            }
        }
    }
    let (project, package) = newest.unzip();
    Ok(Found { name, project, package })
}

/// The group that a request names, which the caller may read.
pub fn group(call: &Call, id: &str, purpose: Purpose) -> Result<Namespace, Error> {
    match namespace::find_group(&call.env, id)? {
        Some(group) if access::may_read_group(&call.env, &call.caller, &group)? => Ok(group),
        _ => Err(no_group(call, purpose)),
    }
}

/// The project that a request names; an error if it moved away.
pub fn project(call: &Call, id: &str, purpose: Purpose) -> Result<Option<Project>, Error> {
    let project = match project::find(&call.env, id)? {
        ProjectLookup::Found(project) => return Ok(Some(project)),
        ProjectLookup::Missing => return Ok(None),
        ProjectLookup::Moved(project) => project,
    };
    if !access::may_read_project(&call.env, &call.caller, &project)? {
        return Err(no_project(call, purpose));
    }
    if !matches!(call.request.method, Method::GET | Method::HEAD) {
        let text = "Non GET methods are not allowed for moved projects";
        return Err(Error::message(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    let path = route::in_project(project.id, &call.request.path);
    let url = format!("{}{path}", call.env.external_url(&call.request));
    let text = format!("This resource has been moved permanently to {url}");
    let url = if call.request.query.is_empty() { url } else { format!("{url}?{}", call.request.query) };
    let moved = Error::message(StatusCode::MOVED_PERMANENTLY, text);
    Err(match HeaderValue::from_str(&url) {
        Ok(location) => moved.with_header(LOCATION, location),
        Err(_) => moved,
    })
}

/// Scopes of deploy tokens that allow reading and writing packages.
const DEPLOY_READ: &[&str] = &["read_package_registry", "write_package_registry"];
const DEPLOY_WRITE: &[&str] = &["write_package_registry"];

/// Whether the caller may do that to packages of this project.
pub fn authorize(call: &Call, project: &Project, purpose: Purpose) -> Result<(), Error> {
    let Call { env, caller, .. } = call;
    match caller {
        Caller::DeployToken(_) if purpose.is_write() => caller.require_scope(DEPLOY_WRITE)?,
        Caller::DeployToken(_) => caller.require_scope(DEPLOY_READ)?,
        _ => caller.require_scope(caller::api_scopes(&call.request.method))?,
    }
    let is_open = project.registry == FeatureAccess::Public && !purpose.is_write();
    if is_open {
        return Ok(());
    }
    if !access::may_read_project(env, caller, project)? {
        return Err(invisible(call, project, purpose));
    }
    if project.registry == FeatureAccess::Disabled {
        return Err(Error::forbidden());
    }
    if let Caller::DeployToken(token) = caller
        && token.covers(project)
    {
        return if purpose.is_write() && project.archived { Err(Error::forbidden()) } else { Ok(()) };
    }
    let minimum = match purpose {
        Purpose::Publish => Role::Developer,
        Purpose::Destroy => Role::Maintainer,
        // Guests see that a private project is there, but not what it packages.
        Purpose::Read | Purpose::Download if project.visibility == Visibility::Private => Role::Reporter,
        Purpose::Read | Purpose::Download if project.registry == FeatureAccess::Private => Role::Guest,
        Purpose::Read | Purpose::Download => return Ok(()),
    };
    if purpose.is_write() && project.archived || access::project_role(env, caller, project)? < minimum {
        return Err(match caller {
            Caller::Anonymous => invisible(call, project, purpose),
            _ => job_refusal(call, project).unwrap_or_else(Error::forbidden),
        });
    }
    Ok(())
}

/// Whether the caller may publish a package of this name to a project that they may publish to.
/// Reads the settings.
pub fn authorize_name(call: &Call, project: &Project, name: &str) -> Result<(), Error> {
    let Call { env, caller, .. } = call;
    let settings = setting::read(env)?;
    let rules = protection::parse_rules(settings.all().get(protection::SETTING))
        .map_err(|why| StoreError::corrupt(&format!("the setting `{}`", protection::SETTING), why))?;
    let Some(minimum) = protection::required_access(&rules, project.id, name) else { return Ok(()) };
    let role = match caller {
        Caller::DeployToken(_) | Caller::Anonymous => None,
        Caller::User(_) | Caller::Job(_) => Some(access::project_role(env, caller, project)?),
    };
    if minimum.allows(role, caller.is_admin()) {
        return Ok(());
    }
    Err(refused(StatusCode::FORBIDDEN, "Package protected."))
}

/// The answer for a project that the caller cannot see, which is that for one that is not there.
pub fn no_project(call: &Call, purpose: Purpose) -> Error {
    let asks_for_credentials = match purpose {
        Purpose::Read => matches!(call.level, Level::Project(_)),
        Purpose::Download => false,
        Purpose::Publish | Purpose::Destroy => true,
    };
    if call.caller.is_anonymous() && asks_for_credentials {
        return Error::unauthorized();
    }
    Error::pair(StatusCode::NOT_FOUND, "404 Project Not Found", "Project not found")
}

fn no_group(call: &Call, purpose: Purpose) -> Error {
    if call.caller.is_anonymous() && purpose != Purpose::Download {
        return Error::unauthorized();
    }
    Error::pair(StatusCode::NOT_FOUND, "404 Group Not Found", "Group not found")
}

fn invisible(call: &Call, project: &Project, purpose: Purpose) -> Error {
    job_refusal(call, project).unwrap_or_else(|| match (&call.caller, purpose) {
        // The package was found in this project, so the project is there: a caller without
        // credentials is asked for them at every level.
        (Caller::Anonymous, Purpose::Read) => Error::unauthorized(),
        _ => no_project(call, purpose),
    })
}

/// Why a job may not, if it is because the project does not accept it.
fn job_refusal(call: &Call, project: &Project) -> Option<Error> {
    let Caller::Job(job) = &call.caller else { return None };
    access::refuses_job(&call.caller, project).then(|| {
        let from = job.project.full_path();
        let id = project.id;
        let text =
            format!("403 Forbidden - Authentication by CI/CD job token not allowed from {from} to project #{id}.");
        Error::message(StatusCode::FORBIDDEN, text)
    })
}
