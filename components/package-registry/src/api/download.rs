//! The file of a version.

use super::Call;
use super::access::{self, Purpose};
use super::metadata::{is_known, is_public};
use crate::store::{self, Upload};
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use kit::body::{Body, Broken};
use kit::{Env, Error, Response, path};

/// What the reference service sends; a relic of mail (RFC 2045 §6) without a meaning in HTTP.
const CONTENT_TRANSFER_ENCODING: HeaderName = HeaderName::from_static("content-transfer-encoding");

/// `GET <prefix>/:package_name/-/:file_name`. Reads: the package, an index for each segment until
/// the version is found, the upload, and its chunks one after the other.
pub fn file(call: &Call, name: &str, file: &str) -> Result<Response, Error> {
    let env = &call.env;
    let located = access::find(call, name, Purpose::Download)?.authorize(call, Purpose::Download, no_file())?;
    let version = located.name.version_of_file(file).ok_or_else(no_file)?;
    let entry = store::find_listed(env, &located.package, version)?.ok_or_else(no_file)?;
    let upload = store::upload(env, &entry.upload)?;

    let entity_tag = format!("\"{}\"", upload.integrity.sri());
    let response = if is_known(call, &entity_tag) {
        Response::new(StatusCode::NOT_MODIFIED)
    } else {
        let (size, file) = (upload.size, located.name.file(version));
        let mut response = Response::new(StatusCode::OK);
        if call.request.method != Method::HEAD {
            response.body = contents(env.clone(), entry.upload, upload)?;
        }
        let disposition = format!("attachment; filename=\"{file}\"; filename*=UTF-8''{}", path::encode(&file));
        response
            .with_header(CONTENT_LENGTH, size.into())
            .with_header(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))
            .with_header(CONTENT_TRANSFER_ENCODING, HeaderValue::from_static("binary"))
            .with_text(CONTENT_DISPOSITION, &disposition)
    };
    // A published file never changes: its version number is not used again.
    let caching = match is_public(&located.project) {
        true => "public, max-age=31536000, immutable",
        false => "private, max-age=31536000, immutable",
    };
    Ok(response.with_text(ETAG, &entity_tag).with_header(CACHE_CONTROL, HeaderValue::from_static(caching)))
}

/// The chunks of a file, verified one by one. The first is read before the head is sent, so that
/// a file of one chunk is whole or an error; a later one that is damaged breaks the body off.
fn contents(env: Env, id: String, upload: Upload) -> Result<Body, Error> {
    let first = store::chunk(&env, &id, &upload, 0)?;
    if upload.chunks() == 1 {
        return Ok(first.into());
    }
    let rest = (1..upload.chunks()).map(move |number| {
        store::chunk(&env, &id, &upload, number).map_err(|fault| Broken::Storage(fault.to_string()))
    });
    Ok(Body::pull(std::iter::once(Ok(first)).chain(rest)))
}

fn no_file() -> Error {
    Error::message(StatusCode::NOT_FOUND, "404 Not found")
}
