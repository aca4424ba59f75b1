//! Responses to git.

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use kit::{Body, Response};

/// 200 with a body of this media type, which no cache may use again.
pub fn git_response(media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(StatusCode::OK);
    response.body = body;
    response
        .with_header(CONTENT_TYPE, HeaderValue::from_static(media_type))
        .with_header(CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0, must-revalidate"))
}
