//! Publications to a group or to the instance, which are refused. The error says where to publish, because clients are
//! often configured with the address that they install from.

use super::access::{self, Read};
use super::error::{package_not_found, same_text};
use super::noop_update::NoopUpdate;
use super::request::RegistryRequest;
use http::StatusCode;
use http::header::{ALLOW, HeaderValue};
use kit::{Error, Response};

/// `PUT` of a package at group or instance level. A [`NoopUpdate`] is refused as in a project. Any other document is
/// 405. The error names the package's project, if the caller may read a package of this name.
pub async fn put(mut request: RegistryRequest, name: &str) -> Result<Response, Error> {
    match NoopUpdate::read_body(&mut request.http).await? {
        Some(update) => Err(update.refuse(&request, name)),
        None => Err(refusal(&request, name)?),
    }
}

/// `Err` if the store fails.
fn refusal(request: &RegistryRequest, name: &str) -> Result<Error, Error> {
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
