//! A response as plain values.

use crate::body::Body;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde::Serialize;

pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Body,
    /// Why the answer is an error; for the log only.
    pub cause: Option<String>,
}

impl Response {
    /// A response without a body and without headers.
    pub fn new(status: StatusCode) -> Self {
        Response { status, headers: HeaderMap::new(), body: Body::Empty, cause: None }
    }

    /// 200 with `body` as JSON.
    pub fn ok(body: &impl Serialize) -> Self {
        Response::json(StatusCode::OK, body)
    }

    /// `body` as JSON. A value that cannot be written as JSON (a map with keys that are no
    /// strings) becomes a 500.
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

    pub fn no_content() -> Self {
        Response::new(StatusCode::NO_CONTENT)
    }

    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Adds a header whose value is made of text; a value that no header can carry is left out.
    pub fn with_text(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }
}
