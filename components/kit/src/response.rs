//! A response as plain values.

use crate::body::Body;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde::Serialize;

/// The initial capacity of a header map. Most responses have fewer headers.
const HEADERS: usize = 12;

/// The default `Cache-Control`, as in the reference service. Most responses depend on the caller, but a shared cache
/// does not know `Private-Token`. Without this header it may send one caller's response to another (RFC 9111, 4.2.2).
const PRIVATE: HeaderValue = HeaderValue::from_static("max-age=0, private, must-revalidate");

/// A response.
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Body,
    /// The cause of an error, for the log only.
    pub cause: Option<String>,
    /// Whether the request's path contains a secret. Then the log omits the path.
    pub has_secret_path: bool,
}

impl Response {
    /// A response without a body. Shared caches do not store it.
    pub fn new(status: StatusCode) -> Self {
        let mut headers = HeaderMap::with_capacity(HEADERS);
        headers.insert(CACHE_CONTROL, PRIVATE);
        Response { status, headers, body: Body::Empty, cause: None, has_secret_path: false }
    }

    /// 200 with `body` as JSON.
    pub fn ok(body: &impl Serialize) -> Self {
        Response::json(StatusCode::OK, body)
    }

    /// `body` as JSON. A value without a JSON form, such as a map whose keys are no strings, becomes a 500.
    pub fn json(status: StatusCode, body: &impl Serialize) -> Self {
        let mut response = match serde_json::to_vec(body) {
            Ok(text) => Response { body: text.into(), ..Response::new(status) },
            Err(why) => Response {
                body: r#"{"message":"500 Internal Server Error"}"#.into(),
                cause: Some(why.to_string()),
                ..Response::new(StatusCode::INTERNAL_SERVER_ERROR)
            },
        };
        response.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    /// 204.
    pub fn no_content() -> Self {
        Response::new(StatusCode::NO_CONTENT)
    }

    /// Adds headers for this caller only. A response that shared caches may store stays unchanged.
    pub fn with_caller_headers(mut self, headers: HeaderMap) -> Self {
        let is_shared = |value: &HeaderValue| value.as_bytes().starts_with(b"public");
        if !self.headers.get(CACHE_CONTROL).is_some_and(is_shared) {
            self.headers.extend(headers);
        }
        self
    }

    /// Sets a header.
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sets a header from text. Text that is no valid header value is ignored.
    pub fn with_text(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_for_the_caller_are_not_in_answers_of_shared_caches() {
        let headers = HeaderMap::from_iter([(HeaderName::from_static("x-a"), HeaderValue::from_static("b"))]);
        let answer = |cache_control: &'static str| {
            let response = Response::no_content().with_header(CACHE_CONTROL, HeaderValue::from_static(cache_control));
            response.with_caller_headers(headers.clone()).headers.contains_key("x-a")
        };
        assert!(answer("no-store") && answer("private, no-cache"));
        assert!(!answer("public, no-cache") && !answer("public, max-age=31536000, immutable"));
        assert!(Response::no_content().with_caller_headers(headers.clone()).headers.contains_key("x-a"));
    }
}
