//! Responses of the admin listener.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;

pub type AdminResponse = Response<Full<Bytes>>;

/// A response that no cache may store.
pub fn body(status: StatusCode, media_type: &'static str, content: impl Into<Bytes>) -> AdminResponse {
    let mut response = Response::new(Full::new(content.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
