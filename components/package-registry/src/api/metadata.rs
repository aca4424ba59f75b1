//! Metadata of a package, and of one version.

use super::access::{self, AuthorizedMerge, Read};
use super::caching::{is_known, revalidated};
use super::error::package_not_found;
use super::forward::Resource;
use super::maintainers;
use super::request::RegistryRequest;
use crate::merged::{Holder, MergedPackage};
use crate::metadata::{self, FormLines, Metadata, Representation};
use crate::negotiation::{self, ABBREVIATED};
use crate::route::{Level, NOT_A_PATH};
use crate::store::{self, MetadataForm};
use crate::{name, version_run};
use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, VARY};
use kit::store::StoreError;
use kit::{Env, Error, Response};
use std::collections::HashSet;

/// `GET <prefix>/:package_name`. Reads: the packages, then a blob for each version run, and one more for the full form.
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
        false => Some(maintainers::list(&request.env, &request.caller, &authorized.merged.first().project)?),
    };
    let representation = Representation {
        abbreviated,
        gzip: negotiation::wants_gzip(request.http.header(ACCEPT_ENCODING)),
        url: &request.url,
        maintainers: maintainers.as_ref().map_or("", |maintainers| maintainers.as_json()),
    };
    let entity_tag = representation.entity_tag(&authorized.merged);
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
    Ok(response.with_text(ETAG, &entity_tag).with_header(CACHE_CONTROL, revalidated(authorized.merged.projects())))
}

/// The encoded document, rendered once for each revision of the package while the instance caches it.
fn document(
    env: &Env,
    authorized: &AuthorizedMerge<Read>,
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

fn render(
    env: &Env,
    authorized: &AuthorizedMerge<Read>,
    representation: Representation,
) -> Result<Vec<u8>, StoreError> {
    let AuthorizedMerge { name, merged, .. } = authorized;
    let detail = if representation.abbreviated { MetadataForm::Abbreviated } else { MetadataForm::Full };
    let of_holder = |holder: &Holder| -> Result<Vec<Bytes>, StoreError> {
        let runs = holder.package.runs.iter().filter(|run| run.listed > 0);
        runs.map(|run| store::form(env, run, detail)).collect()
    };
    let blobs: Vec<Vec<Bytes>> = merged.iter().map(of_holder).collect::<Result<_, _>>()?;
    let package_level_fields = match (detail, merged.latest_upload()) {
        (MetadataForm::Abbreviated, _) => None,
        (MetadataForm::Full, None) => Some(Bytes::new()),
        (MetadataForm::Full, Some(upload)) => Some(store::package_level_fields(env, upload)?),
    };
    let metadata = Metadata {
        name,
        merged,
        forms: forms(merged, &blobs),
        package_level_fields: package_level_fields.as_deref(),
        url: representation.url,
        maintainers: representation.maintainers,
    };
    Ok(metadata.render())
}

/// The forms of all packages. A version of an earlier package hides that of a later one.
fn forms<'a>(merged: &MergedPackage, blobs: &'a [Vec<Bytes>]) -> Vec<FormLines<'a>> {
    let (mut seen, mut forms) = (HashSet::new(), Vec::new());
    for blobs in blobs {
        let mut own = HashSet::new();
        for (versions, times) in blobs.iter().filter_map(|blob| version_run::split(blob)) {
            if merged.has_several() {
                own.extend(version_run::versions_of(versions).map(<[u8]>::to_vec));
            }
            forms.push((version_run::without(versions, &seen), version_run::without(times, &seen)));
        }
        seen.extend(own);
    }
    forms
}

/// `GET <prefix>/:package_name/:version_or_tag`. Reads, unless cached: the package, an index for each version run until
/// the version is found, and one run.
pub fn version(request: &RegistryRequest, name: &str, version: &str) -> Result<Response, Error> {
    let resource = Resource::Version(version);
    let authorized = access::authorize_or_forward::<Read>(request, name, resource, package_not_found)?;
    let env = &request.env;
    let tags = authorized.merged.tags();
    // A version takes precedence over a tag of the same text, which old builds accepted.
    let version = match tags.get(version).copied() {
        Some(tagged) if authorized.merged.find(|package| store::run_with_version(env, package, version))?.is_none() => {
            tagged
        }
        _ => version,
    };
    if let Some((holder, run)) = authorized.merged.find(|package| store::run_with_version(env, package, version))? {
        let record = store::record(env, run, version)?;
        let mut response = Response::new(StatusCode::OK);
        response.body = metadata::version(&record, &request.url).into();
        return Ok(response
            .with_header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .with_header(CACHE_CONTROL, revalidated([&*holder.project].into_iter())));
    }
    let text = format!("version not found: {version}");
    Err(Error::pair(StatusCode::NOT_FOUND, "404 Package Not Found", text))
}
