//! The owners of a package, for `pnpm owner`. npm reads the owners in metadata, and sends a changed list back
//! ([`super::noop_update`]).

use super::access::{self, Read};
use super::error::package_not_found;
use super::forward::Resource;
use super::maintainers;
use super::request::RegistryRequest;
use kit::{Error, Response};
use serde_json::{Value, json};

/// `GET <prefix>/-/package/:package_name/owners`: the maintainers that metadata lists. Reads: the package, and the
/// maintainers that are not cached.
pub fn list(request: &RegistryRequest, name: &str) -> Result<Response, Error> {
    let found = access::authorize_or_forward::<Read>(request, name, Resource::Owners, package_not_found)?;
    let maintainers = maintainers::list(&request.env, &request.caller, &found.merged.first().project)?;
    let owner = |username: &String| json!({"username": username, "email": ""});
    Ok(Response::ok(&maintainers.usernames.iter().map(owner).collect::<Vec<Value>>()))
}
