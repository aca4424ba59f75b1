//! Responses to git.

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use kit::{Body, Error, Response};

/// 200 with a body of this media type, which a cache may not use again.
pub fn git_response(media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(StatusCode::OK);
    response.body = body;
    response
        .with_header(CONTENT_TYPE, HeaderValue::from_static(media_type))
        .with_header(CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0, must-revalidate"))
}

/// Why a request is refused, as git prints it.
pub fn refusal_text(error: &Error) -> String {
    let body = error.to_json();
    let words = ["message", "error_description", "error"].iter().find_map(|key| body.get(key)?.as_str());
    let text = match error.status {
        StatusCode::NOT_FOUND => {
            "The project you were looking for could not be found or you don't have permission to view it."
        }
        _ => words.unwrap_or("403 Forbidden"),
    };
    text.to_owned()
}
