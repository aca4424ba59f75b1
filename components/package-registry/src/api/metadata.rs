//! Metadata of a package, and of one version.

use super::access::{self, Action, Authorized, Read};
use super::caching::{is_known, revalidated};
use super::error::package_not_found;
use super::forward;
use super::request::RegistryRequest;
use crate::metadata::{self, Metadata, Representation};
use crate::negotiation::{self, ABBREVIATED};
use crate::route::{Level, NOT_A_PATH};
use crate::store::{self, MetadataForm};
use crate::version::Version;
use crate::{name, segment};
use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, VARY};
use kit::store::StoreError;
use kit::{Env, Error, Response};

/// `GET <prefix>/:package_name`. Reads: the package, then a blob for each segment and one more
/// for the full form; none of the blobs if the client or this instance has the document already.
pub fn package(request: &RegistryRequest, name: &str) -> Result<Response, Error> {
    if !name::is_file_path(name) {
        return Err(Error::validation(NOT_A_PATH));
    }
    let found = access::find(request, name, Action::Read)?;
    // Forwarding is decided before authorization, as in the reference service.
    if found.package.is_none()
        && let Some(elsewhere) = forward::package(&request.env, name)
    {
        return Ok(elsewhere);
    }
    let missing = match request.level {
        Level::Project(_) => Error::pair(StatusCode::NOT_FOUND, "404 Packages Not Found", "Packages not found"),
        _ => package_not_found(),
    };
    let authorized = access::authorize_found::<Read>(request, found, missing)?;

    let representation = Representation {
        abbreviated: negotiation::wants_abbreviated(request.http.header("accept")),
        gzip: negotiation::wants_gzip(request.http.header("accept-encoding")),
        url: &request.url,
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
        .segments
        .iter()
        .filter(|segment| segment.listed > 0)
        .map(|segment| store::form(env, &segment.id, detail))
        .collect::<Result<_, _>>()?;
    let latest_fields = match (detail, &package.latest_upload) {
        (MetadataForm::Abbreviated, _) => None,
        (MetadataForm::Full, None) => Some(Bytes::new()),
        (MetadataForm::Full, Some(upload)) => Some(store::latest_fields(env, upload)?),
    };
    let metadata = Metadata {
        name,
        package,
        forms: blobs.iter().filter_map(|blob| segment::split(blob)).collect(),
        latest_fields: latest_fields.as_deref(),
        url: representation.url,
    };
    Ok(metadata.render())
}

/// `GET <prefix>/:package_name/:version_or_tag`.
pub fn version(request: &RegistryRequest, name: &str, version: &str) -> Result<Response, Error> {
    let authorized = access::authorize::<Read>(request, name, package_not_found())?;
    let env = &request.env;
    // A version wins over a tag that is called like it, which old builds let be set.
    let is_version =
        Version::parse(version).is_some() && store::find_listed(env, &authorized.package, version)?.is_some();
    let tags = authorized.package.dist_tags();
    let version = tags.get(version).filter(|_| !is_version).copied().unwrap_or(version);
    for part in authorized.package.segments.iter().rev() {
        let form = store::form(env, &part.id, MetadataForm::Full)?;
        let versions = segment::split(&form).map(|(versions, _)| versions).unwrap_or_default();
        if let Some(record) = segment::record_of(versions, version) {
            let mut response = Response::new(StatusCode::OK);
            response.body = metadata::version(record, &request.url).into();
            return Ok(response
                .with_header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
                .with_header(CACHE_CONTROL, revalidated(&authorized.project)));
        }
    }
    let text = format!("version not found: {version}");
    Err(Error::pair(StatusCode::NOT_FOUND, "404 Package Not Found", text))
}
