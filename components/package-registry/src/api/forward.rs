//! Redirects to another registry, if the operator has named one. Nothing is fetched on behalf of
//! clients.

use super::request::RegistryRequest;
use http::StatusCode;
use http::header::LOCATION;
use kit::{Env, Response};
use serde_json::json;

/// The variable with the address of the other registry.
pub const FORWARD_URL: &str = "registry_forward_url";

/// 302 for a package that this registry does not have; `None` without another registry.
pub fn package(env: &Env, name: &str) -> Option<Response> {
    redirect(env, StatusCode::FOUND, name)
}

/// Advisories about the packages in the body: none, or 307 to the other registry, which keeps the method
/// and the body.
pub fn audit(request: &RegistryRequest, report: &str) -> Response {
    let path = format!("-/npm/v1/security/{report}");
    redirect(&request.env, StatusCode::TEMPORARY_REDIRECT, &path).unwrap_or_else(|| Response::ok(&json!({})))
}

fn redirect(env: &Env, status: StatusCode, path: &str) -> Option<Response> {
    let registry = env.variables.get(FORWARD_URL)?;
    Some(Response::new(status).with_text(LOCATION, &format!("{}/{path}", registry.trim_end_matches('/'))))
}
