//! What another registry is asked instead, if the operator has named one. Clients are sent there;
//! nothing is fetched for them.

use super::request::RegistryRequest;
use http::StatusCode;
use http::header::LOCATION;
use kit::{Env, Response};
use serde_json::json;

/// The variable with the address of the other registry.
pub const FORWARD_URL: &str = "registry_forward_url";

/// 302 to a package that is not here; `None` if it is 404.
pub fn package(env: &Env, name: &str) -> Option<Response> {
    redirect(env, StatusCode::FOUND, name)
}

/// What is known to be wrong with the packages that the client names. Here nothing is; the other
/// registry is asked with the same method and body, hence 307.
pub fn audit(request: &RegistryRequest, report: &str) -> Response {
    let path = format!("-/npm/v1/security/{report}");
    redirect(&request.env, StatusCode::TEMPORARY_REDIRECT, &path).unwrap_or_else(|| Response::ok(&json!({})))
}

fn redirect(env: &Env, status: StatusCode, path: &str) -> Option<Response> {
    let registry = env.variables.get(FORWARD_URL)?;
    Some(Response::new(status).with_text(LOCATION, &format!("{}/{path}", registry.trim_end_matches('/'))))
}
