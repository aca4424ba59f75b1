//! Whether a package is public. npm asks before it publishes with provenance. Without further options, it does so only
//! for public packages. pnpm asks for another form of the answer (`pnpm access get status`).

use super::access::{self, Read};
use super::caching;
use super::error::package_not_found;
use super::forward::Resource;
use super::request::RegistryRequest;
use crate::route::Level;
use kit::{Error, Response};
use serde_json::json;

/// `GET <prefix>/-/package/:package_name/visibility`. At project level it is the project's visibility, even before the
/// first version is published. At the other levels, the package is read.
pub fn get(request: &RegistryRequest, name: &str) -> Result<Response, Error> {
    Ok(Response::ok(&json!({"public": is_public(request, name, Resource::Visibility)?})))
}

/// `GET <prefix>/-/package/:package_name/access`, likewise. Publishing never asks for a second factor.
pub fn access_status(request: &RegistryRequest, name: &str) -> Result<Response, Error> {
    let access = if is_public(request, name, Resource::AccessStatus)? { "public" } else { "restricted" };
    Ok(Response::ok(&json!({"access": access, "publish_requires_tfa": false})))
}

fn is_public(request: &RegistryRequest, name: &str, resource: Resource) -> Result<bool, Error> {
    let project = match request.level {
        Level::Project(_) => access::readable_project(request)?,
        Level::Group(_) | Level::Instance => {
            let found = access::authorize_or_forward::<Read>(request, name, resource, package_not_found)?;
            return Ok(caching::is_public(&found.merged.first().project));
        }
    };
    Ok(caching::is_public(&project))
}
