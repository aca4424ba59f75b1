//! Publications to a group or to the instance. The error says where to publish, because clients are often
//! configured with the address that they install from.

use super::access::{self, Read};
use super::error::{package_not_found, same_text};
use super::request::RegistryRequest;
use http::StatusCode;
use http::header::{ALLOW, HeaderValue};
use kit::Error;

/// `PUT` of a package at group or instance level: 405, which names the project of the package if the caller
/// may read one of this name. `Err` if the storage fails.
pub fn publish(request: &RegistryRequest, name: &str) -> Result<Error, Error> {
    let project = match access::authorize::<Read>(request, name, package_not_found) {
        Ok(found) => found.project.id.to_string(),
        Err(error) if error.status.is_server_error() => return Err(error),
        Err(_) => ":id".to_owned(),
    };
    let base = request.env.external_url(&request.http);
    let hint = if project == ":id" { ", with the project's id or its path (acme%2Fweb) for :id" } else { "" };
    let text = format!(
        "Packages are published to a project: set the registry to {base}/api/v4/projects/{project}/packages/npm/{hint}"
    );
    Ok(same_text(StatusCode::METHOD_NOT_ALLOWED, text).with_header(ALLOW, HeaderValue::from_static("GET, HEAD")))
}
