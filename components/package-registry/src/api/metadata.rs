//! Metadata of a package, and of one version.

use super::access::{self, Authorized, Read};
use super::caching::{is_known, revalidated};
use super::error::package_not_found;
use super::forward::Resource;
use super::maintainers;
use super::request::RegistryRequest;
use crate::metadata::{self, Metadata, Representation};
use crate::negotiation::{self, ABBREVIATED};
use crate::route::{Level, NOT_A_PATH};
use crate::store::{self, MetadataForm};
use crate::{name, version_run};
use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, VARY};
use kit::store::StoreError;
use kit::{Env, Error, Response};

/// `GET <prefix>/:package_name`. Reads: the package, then a blob for each version run, and one more for the full form.
/// No blob is read if the client or the instance has the document.
pub fn package(request: &RegistryRequest, name: &str) -> Result<Response, Error> {
    if !name::is_file_path(name) {
        return Err(Error::validation(NOT_A_PATH));
    }
    let missing = || match request.level {
        Level::Project(_) => Error::pair(StatusCode::NOT_FOUND, "404 Packages Not Found", "Packages not found"),
        _ => package_not_found(),
    };
    let authorized = access::authorize_or_forward::<Read>(request, name, Resource::Metadata, missing)?;

    let abbreviated = negotiation::wants_abbreviated(request.http.header(ACCEPT));
    let maintainers = match abbreviated {
        true => None,
        false => Some(maintainers::list(&request.env, &request.caller, &authorized.project)?),
    };
    let representation = Representation {
        abbreviated,
        gzip: negotiation::wants_gzip(request.http.header(ACCEPT_ENCODING)),
        url: &request.url,
        maintainers: maintainers.as_ref().map_or("", |maintainers| maintainers.as_json()),
    };
    let entity_tag = representation.entity_tag(&authorized.package);
    let mut response = if is_known(request, &entity_tag) {
        Response::new(StatusCode::NOT_MODIFIED)
    } else {
        let document = document(&request.env, &authorized, representation, &entity_tag)?;
        let mut response = Response::new(StatusCode::OK);
        if metadata::is_compressed(&document) {
            response.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response.body = document.into();
        let media_type = if representation.abbreviated { ABBREVIATED } else { "application/json" };
        response.with_header(CONTENT_TYPE, HeaderValue::from_static(media_type))
    };
    response.headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    Ok(response.with_text(ETAG, &entity_tag).with_header(CACHE_CONTROL, revalidated(&authorized.project)))
}

/// The encoded document, rendered once for each revision of the package while the instance caches it.
fn document(
    env: &Env,
    authorized: &Authorized<Read>,
    representation: Representation,
    entity_tag: &str,
) -> Result<Bytes, StoreError> {
    let key = representation.cache_key(entity_tag);
    if let Some(document) = env.blobs.peek(&key) {
        return Ok(document);
    }
    let document = render(env, authorized, representation)?;
    let document = Bytes::from(if representation.gzip { metadata::compress(document) } else { document });
    env.blobs.put(&key, document.clone());
    Ok(document)
}

fn render(env: &Env, authorized: &Authorized<Read>, representation: Representation) -> Result<Vec<u8>, StoreError> {
    let Authorized { name, package, .. } = authorized;
    let detail = if representation.abbreviated { MetadataForm::Abbreviated } else { MetadataForm::Full };
    let blobs: Vec<_> = package
        .runs
        .iter()
        .filter(|run| run.listed > 0)
        .map(|run| store::form(env, run, detail))
        .collect::<Result<_, _>>()?;
    let package_level_fields = match (detail, &package.latest_upload) {
        (MetadataForm::Abbreviated, _) => None,
        (MetadataForm::Full, None) => Some(Bytes::new()),
        (MetadataForm::Full, Some(upload)) => Some(store::package_level_fields(env, upload)?),
    };
    let metadata = Metadata {
        name,
        package,
        forms: blobs.iter().filter_map(|blob| version_run::split(blob)).collect(),
        package_level_fields: package_level_fields.as_deref(),
        url: representation.url,
        maintainers: representation.maintainers,
    };
    Ok(metadata.render())
}

/// `GET <prefix>/:package_name/:version_or_tag`. Reads, unless cached: the package, an index for each version run until
/// the version is found, and one run.
pub fn version(request: &RegistryRequest, name: &str, version: &str) -> Result<Response, Error> {
    let resource = Resource::Version(version);
    let authorized = access::authorize_or_forward::<Read>(request, name, resource, package_not_found)?;
    let env = &request.env;
    let tags = authorized.package.dist_tags();
    // A version takes precedence over a tag of the same text, which old builds accepted.
    let version = match tags.get(version).copied() {
        Some(tagged) if store::run_with_version(env, &authorized.package, version)?.is_none() => tagged,
        _ => version,
    };
    if let Some(run) = store::run_with_version(env, &authorized.package, version)? {
        let record = store::record(env, run, version)?;
        let mut response = Response::new(StatusCode::OK);
        response.body = metadata::version(&record, &request.url).into();
        return Ok(response
            .with_header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .with_header(CACHE_CONTROL, revalidated(&authorized.project)));
    }
    let text = format!("version not found: {version}");
    Err(Error::pair(StatusCode::NOT_FOUND, "404 Package Not Found", text))
}
