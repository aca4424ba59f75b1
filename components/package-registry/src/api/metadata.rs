//! Metadata of a package, and of one version.

use super::access::{self, Located, Purpose};
use super::{Call, forward, no_package};
use crate::metadata::{self, Metadata, Representation};
use crate::negotiation::{self, ABBREVIATED};
use crate::route::{Level, NOT_A_PATH};
use crate::store::{self, MetadataForm};
use crate::{name, segment};
use bytes::Bytes;
use directory::namespace::Visibility;
use directory::project::{FeatureAccess, Project};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use kit::store::StoreError;
use kit::{Env, Error, Response};

/// `GET <prefix>/:package_name`. Reads: the package, then a blob for each segment and one more
/// for the full form; none of the blobs if the client or this instance has the document already.
pub fn package(call: &Call, name: &str) -> Result<Response, Error> {
    if !name::is_file_path(name) {
        return Err(Error::validation(NOT_A_PATH));
    }
    let found = access::find(call, name, Purpose::Read)?;
    // Whoever asks: whether we have a package is not known to the other registry either.
    if found.package.is_none()
        && let Some(elsewhere) = forward::package(&call.env, name)
    {
        return Ok(elsewhere);
    }
    let missing = match call.level {
        Level::Project(_) => Error::pair(StatusCode::NOT_FOUND, "404 Packages Not Found", "Packages not found"),
        _ => no_package(),
    };
    let located = found.authorize(call, Purpose::Read, missing)?;

    let representation = Representation {
        abbreviated: negotiation::wants_abbreviated(call.request.header("accept")),
        gzip: negotiation::wants_gzip(call.request.header("accept-encoding")),
        url: &call.url,
    };
    let entity_tag = representation.entity_tag(&located.package);
    let mut response = if is_known(call, &entity_tag) {
        Response::new(StatusCode::NOT_MODIFIED)
    } else {
        let document = document(&call.env, &located, representation, &entity_tag)?;
        let mut response = Response::new(StatusCode::OK);
        if metadata::is_compressed(&document) {
            response.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response.body = document.into();
        let media_type = if representation.abbreviated { ABBREVIATED } else { "application/json" };
        response.with_header(CONTENT_TYPE, HeaderValue::from_static(media_type))
    };
    response.headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    Ok(response.with_text(ETAG, &entity_tag).with_header(CACHE_CONTROL, revalidated(&located.project)))
}

/// The document as it goes out, made once for each state of the package as long as this instance
/// remembers it.
fn document(
    env: &Env,
    located: &Located,
    representation: Representation,
    entity_tag: &str,
) -> Result<Bytes, StoreError> {
    let key = representation.cache_key(entity_tag);
    if let Some(document) = env.blobs.peek(&key) {
        return Ok(document);
    }
    let document = render(env, located, representation)?;
    let document = Bytes::from(if representation.gzip { metadata::compress(document) } else { document });
    env.blobs.put(&key, document.clone());
    Ok(document)
}

fn render(env: &Env, located: &Located, representation: Representation) -> Result<Vec<u8>, StoreError> {
    let Located { name, package, .. } = located;
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
pub fn version(call: &Call, name: &str, version: &str) -> Result<Response, Error> {
    let located = access::find(call, name, Purpose::Read)?.authorize(call, Purpose::Read, no_package())?;
    let env = &call.env;
    let tags = located.package.dist_tags();
    let version = tags.get(version).copied().unwrap_or(version);
    for part in located.package.segments.iter().rev() {
        let form = store::form(env, &part.id, MetadataForm::Full)?;
        let versions = segment::split(&form).map(|(versions, _)| versions).unwrap_or_default();
        if let Some(record) = segment::record_of(versions, version) {
            let mut response = Response::new(StatusCode::OK);
            response.body = metadata::version(record, &call.url).into();
            return Ok(response
                .with_header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
                .with_header(CACHE_CONTROL, revalidated(&located.project)));
        }
    }
    let text = format!("version not found: {version}");
    Err(Error::pair(StatusCode::NOT_FOUND, "404 Package Not Found", text))
}

/// Whether the client has the representation with this entity tag.
pub fn is_known(call: &Call, entity_tag: &str) -> bool {
    let values = call.request.headers.get_all(IF_NONE_MATCH);
    negotiation::is_known(values.iter().filter_map(|value| value.to_str().ok()), entity_tag)
}

/// Caches ask again every time, so that a new version is seen at once.
fn revalidated(project: &Project) -> HeaderValue {
    HeaderValue::from_static(if is_public(project) { "public, no-cache" } else { "private, no-cache" })
}

/// Whether anybody may read the project's packages, so that a shared cache may keep them.
pub fn is_public(project: &Project) -> bool {
    match project.registry {
        FeatureAccess::Public => true,
        FeatureAccess::Enabled => project.visibility == Visibility::Public,
        FeatureAccess::Private | FeatureAccess::Disabled => false,
    }
}
