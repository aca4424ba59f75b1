//! The file of a version, whole or in part.

use super::access::{self, Download};
use super::caching::{is_known, of_file};
use super::error::same_text;
use super::forward::Resource;
use super::request::RegistryRequest;
use crate::byte_range::{self, ByteRange};
use crate::store::{self, CHUNK, Upload};
use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName,
    HeaderValue, IF_RANGE, RANGE,
};
use http::{Method, StatusCode};
use kit::body::{Body, BodyError};
use kit::store::StoreError;
use kit::{Env, Error, Response, path};
use std::ops::Range;
use std::rc::Rc;

/// The reference service sends it; it is a mail header (RFC 2045 §6) without a meaning in HTTP.
const CONTENT_TRANSFER_ENCODING: HeaderName = HeaderName::from_static("content-transfer-encoding");

/// `GET <prefix>/:package_name/-/:file_name`. Reads, unless cached: the package, an index for each version run until
/// the version is found, the upload, and its chunks in order.
pub fn file(request: &RegistryRequest, name: &str, file: &str) -> Result<Response, Error> {
    let env = &request.env;
    let authorized = access::authorize_or_forward::<Download>(request, name, Resource::File(file), file_not_found)?;
    let version = authorized.name.version_of_file(file).ok_or_else(file_not_found)?;
    let found = authorized.merged.find(|package| store::find_listed(env, package, version))?;
    let (holder, entry) = found.ok_or_else(file_not_found)?;
    let upload = store::shared_upload(env, &entry.upload)?;

    let entity_tag = format!("\"{}\"", upload.integrity.sri());
    let with_headers = |response: Response| {
        response
            .with_text(ETAG, &entity_tag)
            .with_header(CACHE_CONTROL, of_file(&request.level, &holder.project))
            .with_header(ACCEPT_RANGES, HeaderValue::from_static("bytes"))
    };
    if is_known(request, &entity_tag) {
        return Ok(with_headers(Response::new(StatusCode::NOT_MODIFIED)));
    }

    let size = upload.size;
    let is_head = request.http.method == Method::HEAD;
    let range = request.http.header(RANGE).filter(|_| !is_head);
    let (part, mut response) = match byte_range::requested(range, request.http.header(IF_RANGE), &entity_tag, size) {
        ByteRange::Whole => (0..size, Response::new(StatusCode::OK)),
        ByteRange::Part(part) => {
            let text = format!("bytes {}-{}/{size}", part.start, part.end - 1);
            (part, Response::new(StatusCode::PARTIAL_CONTENT).with_text(CONTENT_RANGE, &text))
        }
        ByteRange::Unsatisfiable => {
            let text = format!("the file has {size} bytes, which the range does not touch");
            let error = same_text(StatusCode::RANGE_NOT_SATISFIABLE, text);
            let value = HeaderValue::from_str(&format!("bytes */{size}"));
            return Err(value.into_iter().fold(error, |error, value| error.with_header(CONTENT_RANGE, value)));
        }
    };
    response.headers.insert(CONTENT_LENGTH, (part.end - part.start).into());
    if !is_head {
        response.body = contents(env.clone(), entry.upload, upload, part)?;
    }
    let file = authorized.name.file(version);
    let disposition = format!("attachment; filename=\"{file}\"; filename*=UTF-8''{}", path::encode(&file));
    Ok(with_headers(response)
        .with_header(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))
        .with_header(CONTENT_TRANSFER_ENCODING, HeaderValue::from_static("binary"))
        .with_text(CONTENT_DISPOSITION, &disposition))
}

/// The bytes of `part`. Each chunk is verified. The first chunk is read before the response begins, so damage in it is
/// an error response. Damage in a later chunk aborts the body.
fn contents(env: Env, id: String, upload: Rc<Upload>, part: Range<u64>) -> Result<Body, Error> {
    let chunk = CHUNK as u64;
    let mut numbers = part.start / chunk..part.end.div_ceil(chunk);
    let read = move |number: u64| -> Result<Bytes, StoreError> {
        let bytes = store::chunk(&env, &id, &upload, usize::try_from(number).unwrap_or(usize::MAX))?;
        let offset =
            |at: u64| usize::try_from(at.saturating_sub(number * chunk)).unwrap_or(usize::MAX).min(bytes.len());
        Ok(bytes.slice(offset(part.start)..offset(part.end)))
    };
    let first = match numbers.next() {
        Some(number) => read(number)?,
        None => return Ok(Body::Empty),
    };
    if numbers.is_empty() {
        return Ok(first.into());
    }
    let rest = numbers.map(move |number| read(number).map_err(|error| BodyError::Storage(error.to_string())));
    Ok(Body::pull(std::iter::once(Ok(first)).chain(rest)))
}

fn file_not_found() -> Error {
    Error::message(StatusCode::NOT_FOUND, "404 Not found")
}
