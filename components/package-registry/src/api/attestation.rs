//! Attestations of a version.

use super::access::{self, Read};
use super::caching;
use super::error::package_not_found;
use super::forward::Resource;
use super::request::RegistryRequest;
use crate::store;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use kit::{Error, Response};

/// `GET <prefix>/-/npm/v1/attestations/:package_name@:version`. Reads: the package, an index for each version run until
/// the version is found, and the attestations.
pub fn list(request: &RegistryRequest, name: &str, version: &str) -> Result<Response, Error> {
    let authorized =
        access::authorize_or_forward::<Read>(request, name, Resource::Attestations(version), package_not_found)?;
    let missing = || Error::pair(StatusCode::NOT_FOUND, "404 Attestations Not Found", "Attestations not found");
    let found = authorized.merged.find(|package| store::find_listed(&request.env, package, version))?;
    let (holder, entry) = found.ok_or_else(missing)?;
    let document = store::attestations(&request.env, &entry.upload)?.ok_or_else(missing)?;
    let mut response = Response::new(StatusCode::OK);
    response.body = document.into();
    Ok(response
        .with_header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .with_header(CACHE_CONTROL, caching::of_file(&request.level, &holder.project)))
}
