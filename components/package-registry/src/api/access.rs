//! Decides once per request, after its body was read ([`renew`]), which package it names and whether the caller may act
//! on it. Endpoints receive the decision as a value: [`Authorized`], or [`PublishGrant`] for a publication.

mod action;
mod denial;
mod lookup;
mod name_exists;
pub mod ownership;
mod policy;
mod projects_by_name;

pub use action::{Action, Download, Permission, Publish, Read, Unpublish};
pub use name_exists::any_name_exists;
pub use policy::check_scope;
pub use projects_by_name::projects_below;

use super::forward::{self, Resource};
use super::request::{RegistryRequest, caller_id};
use crate::merged::{Holder, MergedPackage};
use crate::name::PackageName;
use crate::package::Package;
use crate::publisher::Publisher;
use crate::route::Level;
use directory::access::Role;
use directory::caller::{self, AcceptedTokens};
use directory::namespace::Namespace;
use directory::project::Project;
use directory::record_cache;
use kit::Error;
use lookup::{Candidates, PackageLookup};
use std::marker::PhantomData;
use std::rc::Rc;

/// Authenticates the caller again, at the current time, for an endpoint that has read the body. The body may have taken
/// hours, and the caller may have lost rights meanwhile.
pub fn renew(request: RegistryRequest) -> Result<RegistryRequest, Error> {
    let env = record_cache::renew(&request.env)?;
    let caller = caller::authenticate(&env, &request.http, AcceptedTokens::Registry)?;
    policy::check_scope_of(&caller, &request.http.method)?;
    Ok(RegistryRequest { env, caller, ..request })
}

/// A package with a listed version, on which the caller may perform the action `P`.
pub struct Authorized<P> {
    pub name: PackageName,
    pub project: Rc<Project>,
    pub package: Rc<Package>,
    permission: PhantomData<P>,
}

/// All packages of a name at the request's level on which the caller may perform the action `P`.
pub struct AuthorizedMerge<P> {
    pub name: PackageName,
    pub merged: MergedPackage,
    permission: PhantomData<P>,
}

/// Looks a package up and checks the caller's rights. If several projects have the name, it is the first one's: the
/// owner's, unless the caller may not read it. `missing` makes the error for an absent package.
pub fn authorize<P: Permission>(
    request: &RegistryRequest,
    name: &str,
    missing: impl FnOnce() -> Error,
) -> Result<Authorized<P>, Error> {
    authorize_chosen(request, name, |merged| Ok(merged.first().clone()), missing)
}

/// Like [`authorize`], but `choose` selects one of several packages that the caller may read.
pub fn authorize_chosen<P: Permission>(
    request: &RegistryRequest,
    name: &str,
    choose: impl FnOnce(&MergedPackage) -> Result<Holder, Error>,
    missing: impl FnOnce() -> Error,
) -> Result<Authorized<P>, Error> {
    let found = lookup::package(request, name, P::ACTION)?;
    let (project, package) = match found.candidates {
        Candidates::One { project, package } => (project, package),
        Candidates::Readable { refusal: Some(refusal), .. } => return Err(refusal),
        Candidates::Readable { holders, .. } => {
            let chosen = MergedPackage::merge(holders).map(|merged| choose(&merged)).transpose()?;
            chosen.map(|holder| (holder.project, holder.package)).unzip()
        }
    };
    authorize_one(request, found.name, project, package, missing)
}

/// Like [`authorize`], for a read of `resource` in all packages of the name. If the package is absent here, the read
/// may be redirected to another registry.
pub fn authorize_or_forward<P: Permission>(
    request: &RegistryRequest,
    name: &str,
    resource: Resource,
    missing: impl FnOnce() -> Error,
) -> Result<AuthorizedMerge<P>, Error> {
    let found = lookup::package(request, name, P::ACTION)?;
    // Forwarding is decided before authorization, as in the reference service.
    // A name that was ever published here is not forwarded: others could publish its next version there.
    if found.is_absent() && !is_local(request, &found)? {
        forward::package(request, name, resource)?;
    }
    let (project, package) = match found.candidates {
        Candidates::One { project, package } => (project, package),
        Candidates::Readable { refusal: Some(refusal), .. } => return Err(refusal),
        Candidates::Readable { holders, .. } => match (found.name, MergedPackage::merge(holders)) {
            (Some(name), Some(merged)) => return Ok(AuthorizedMerge { name, merged, permission: PhantomData }),
            _ => return Err(denial::project_not_found(request, P::ACTION)),
        },
    };
    let Authorized { name, project, package, .. } = authorize_one::<P>(request, found.name, project, package, missing)?;
    let merged = MergedPackage::of(Holder { project, package, provides_latest: true });
    Ok(AuthorizedMerge { name, merged, permission: PhantomData })
}

/// Whether the name of an absent package is the request's own: it existed, or a namespace holds it.
fn is_local(request: &RegistryRequest, found: &PackageLookup) -> Result<bool, Error> {
    Ok(match (&found.name, &found.root) {
        _ if found.is_local => true,
        (Some(name), Some(root)) => ownership::is_held(&request.env, root, name)?,
        _ => false,
    })
}

/// Checks the caller's rights to one project's package for the action `P`. `missing` makes the error for an absent
/// package.
fn authorize_one<P: Permission>(
    request: &RegistryRequest,
    name: Option<PackageName>,
    project: Option<Rc<Project>>,
    package: Option<Rc<Package>>,
    missing: impl FnOnce() -> Error,
) -> Result<Authorized<P>, Error> {
    let project = project.ok_or_else(|| denial::project_not_found(request, P::ACTION))?;
    let role = policy::check(request, &project, P::ACTION)?;
    if let Some(name) = name.as_ref().filter(|_| P::ACTION.is_write()) {
        policy::check_protection(&request.env, &request.caller, &project, role, name.as_str(), P::ACTION)?;
    }
    match (name, package) {
        (Some(name), Some(package)) => Ok(Authorized { name, project, package, permission: PhantomData }),
        _ => Err(missing()),
    }
}

/// The project of a request at project level, in which the caller may read packages.
pub fn readable_project(request: &RegistryRequest) -> Result<Rc<Project>, Error> {
    Ok(project(request, Action::Read)?.0)
}

/// 301 if the request names its project by a former path. Only for endpoints that package managers do not read.
pub fn redirect_moved(request: &RegistryRequest) -> Result<(), Error> {
    lookup::redirect_moved(request, Action::Read)
}

/// 405 if the request names its project by a former path and would change it.
pub fn refuse_moved(request: &RegistryRequest) -> Result<(), Error> {
    lookup::redirect_moved(request, Action::Unpublish)
}

/// The group with this id or path, in which the caller may look for packages.
pub fn readable_group(request: &RegistryRequest, id: &str) -> Result<Namespace, Error> {
    lookup::group(request, id, Action::Read)
}

/// The project of a request at project level, in which the caller may unpublish packages.
pub fn maintained_project(request: &RegistryRequest) -> Result<Rc<Project>, Error> {
    Ok(project(request, Action::Unpublish)?.0)
}

/// Whether the caller may read the packages of this project.
pub fn may_read(request: &RegistryRequest, project: &Project) -> Result<bool, Error> {
    may(request, project, Action::Read)
}

/// Whether the caller may publish packages of this project that no rule protects.
pub fn may_publish(request: &RegistryRequest, project: &Project) -> Result<bool, Error> {
    may(request, project, Action::Publish)
}

/// Whether the caller may unpublish packages of this project that no rule protects.
pub fn may_unpublish(request: &RegistryRequest, project: &Project) -> Result<bool, Error> {
    may(request, project, Action::Unpublish)
}

fn may(request: &RegistryRequest, project: &Project, action: Action) -> Result<bool, Error> {
    match policy::check(request, project, action) {
        Ok(_) => Ok(true),
        Err(error) if error.status.is_server_error() => Err(error),
        Err(_) => Ok(false),
    }
}

/// The request's project, if the caller may perform `action` in it; and the caller's role, if the decision needed it.
fn project(request: &RegistryRequest, action: Action) -> Result<(Rc<Project>, Option<Role>), Error> {
    let project = match &request.level {
        Level::Project(id) => lookup::project(request, id, action)?,
        Level::Group(_) | Level::Instance => None,
    };
    let project = project.ok_or_else(|| denial::project_not_found(request, action))?;
    let role = policy::check(request, &project, action)?;
    Ok((project, role))
}

/// The caller may publish to this project. [`ProjectGrant::authorize_name`] decides for which names, because the
/// package's name comes with the body.
pub struct ProjectGrant<'a> {
    request: &'a RegistryRequest,
    project: Rc<Project>,
    role: Option<Role>,
}

/// The caller may publish a package of the checked name to this project.
pub struct PublishGrant {
    pub project: Rc<Project>,
    /// The caller, as it is stored with the upload.
    pub publisher: Publisher,
    /// The caller's user id; a deploy token has none.
    pub creator: Option<u64>,
    /// The caller's username; a deploy token has none.
    pub username: Option<String>,
}

/// Checks that the caller may publish to the request's project. Only the grant of a request that was renewed after its
/// body counts. Before the body, the check saves reading a body that would be refused.
pub fn authorize_publish(request: &RegistryRequest) -> Result<ProjectGrant<'_>, Error> {
    let (project, role) = project(request, Action::Publish)?;
    Ok(ProjectGrant { request, project, role })
}

impl ProjectGrant<'_> {
    /// Checks the protection rules for a package of this name. Reads the settings.
    pub fn authorize_name(self, name: &str) -> Result<PublishGrant, Error> {
        let RegistryRequest { env, caller, .. } = self.request;
        policy::check_protection(env, caller, &self.project, self.role, name, Action::Publish)?;
        let user = caller.user();
        Ok(PublishGrant {
            project: self.project,
            publisher: Publisher::of(caller, caller_id(caller)),
            creator: user.map(|user| user.id),
            username: user.map(|user| user.username.clone()),
        })
    }
}
