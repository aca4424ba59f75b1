//! The lists of `npm access list`, `npm org ls`, `npm team ls` and `npm hook ls`. An organization is the group with its
//! path.

use super::access::{self, Read};
use super::error::package_not_found;
use super::list::MAX_PACKAGES;
use super::maintainers;
use super::request::RegistryRequest;
use super::scope::{self, Scope};
use crate::route::Level;
use crate::store;
use directory::access::Role;
use directory::namespace::Visibility;
use kit::{Error, Response};
use serde_json::{Map, Value, json};

const WRITE: &str = "write";

/// `GET <prefix>/-/package/:package_name/collaborators`: the members of the package's project from Reporter on, or the
/// one that the parameter `user` names.
pub fn collaborators(request: &RegistryRequest, name: &str) -> Result<Response, Error> {
    let project = access::authorize::<Read>(request, name, package_not_found)?.project;
    let params = request.http.params();
    let wanted = params.text("user");
    let members = maintainers::members(&request.env, &request.caller, &project)?;
    let shown = members.into_iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name)));
    let permission = |role: Role| if role >= Role::Developer { WRITE } else { "read" };
    Ok(Response::ok(&shown.map(|(name, role)| (name, permission(role).into())).collect::<Map<_, _>>()))
}

/// `GET <prefix>/-/org/:group/package`: the packages of the group that the caller may read. Reads: as a list.
pub fn packages(request: RegistryRequest, group: &str) -> Result<Response, Error> {
    let request = RegistryRequest { level: Level::Group(path(group).to_owned()), ..request };
    let Scope { projects, is_truncated } = scope::projects(&request)?;
    let (mut rows, mut read): (Map<String, Value>, usize) = (Map::new(), 0);
    for project in projects {
        let permission = if access::may_publish(&request, &project)? { WRITE } else { "read" };
        for name in store::names(&request.env, &project.key())? {
            read += 1;
            if is_truncated || read > MAX_PACKAGES {
                let text = format!("the group has more than {MAX_PACKAGES} packages: ask for /groups/:id/packages");
                return Err(Error::validation(text));
            }
            let package = store::package(&request.env, &project.key(), &name)?;
            let is_writable = rows.get(name.as_str()).is_some_and(|known| *known == WRITE);
            if !is_writable && package.is_some_and(|package| package.listed() > 0) {
                rows.insert(name.as_str().to_owned(), permission.into());
            }
        }
    }
    Ok(Response::ok(&rows))
}

/// `GET <prefix>/-/org/:group/user`: the members of the group and of the groups above, in npm's words.
pub fn users(request: &RegistryRequest, group: &str) -> Result<Response, Error> {
    let group = access::readable_group(request, path(group))?;
    let is_private = group.visibility == Visibility::Private;
    if is_private && directory::access::namespace_role(&request.env, &request.caller, &group)? == Role::None {
        return Err(Error::forbidden());
    }
    let role = |role: Role| match role {
        Role::Owner => "owner",
        Role::Maintainer => "admin",
        _ => "developer",
    };
    let members = maintainers::of_group(&request.env, &request.caller, &group)?;
    Ok(Response::ok(&members.into_iter().map(|(name, of)| (name, role(of).into())).collect::<Map<_, _>>()))
}

/// `GET <prefix>/-/org/:group/team`: no group has teams.
pub fn teams(request: &RegistryRequest, group: &str) -> Result<Response, Error> {
    access::readable_group(request, path(group))?;
    Ok(Response::ok(&Vec::<Value>::new()))
}

/// `GET <prefix>/-/npm/v1/hooks`: there are none.
pub fn hooks(request: &RegistryRequest) -> Result<Response, Error> {
    request.caller.require_authenticated()?;
    Ok(Response::ok(&json!({"objects": Vec::<Value>::new(), "urls": {}})))
}

/// Clients write the name of an organization with or without `@`.
fn path(group: &str) -> &str {
    group.strip_prefix('@').unwrap_or(group)
}
