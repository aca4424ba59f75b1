//! Error responses: statuses and bodies, as in the reference service.
//!
//! An error of an endpoint has the key `message`. An error of parameter validation or routing has the key `error`. The
//! package registry sends both, because package managers print only `error`. The cause of an internal error goes to the
//! log and never to the client.

use crate::body::BodyError;
use crate::response::Response;
use crate::store::StoreError;
use http::StatusCode;
use http::header::{ALLOW, CACHE_CONTROL, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::{Map, Value, json};

/// The challenges of a 401 (RFC 9110, 11.6.1), each in its own header: some clients read only the first scheme of a
/// header. Package managers print advice about tokens if `Bearer` comes first.
pub const BEARER: HeaderValue = HeaderValue::from_static("Bearer realm=\"hexad\"");
pub const BASIC: HeaderValue = HeaderValue::from_static("Basic realm=\"hexad\"");

/// The header with the name of the limit that refused a request, as in the reference service.
const RATE_LIMIT_NAME: HeaderName = HeaderName::from_static("ratelimit-name");

/// An error response.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    pub status: StatusCode,
    body: Value,
    /// A list keeps the type small: errors are passed up through many calls, and few have headers.
    headers: Vec<(HeaderName, HeaderValue)>,
    /// For the log only.
    pub cause: Option<String>,
}

impl Error {
    /// An error of an endpoint: `{"message": text}`.
    pub fn message(status: StatusCode, text: impl Into<String>) -> Self {
        Error::with_body(status, json!({"message": text.into()}))
    }

    /// An error of validation or routing: `{"error": text}`.
    #[allow(clippy::self_named_constructors, reason = "named after the key, as `message` is")]
    pub fn error(status: StatusCode, text: impl Into<String>) -> Self {
        Error::with_body(status, json!({"error": text.into()}))
    }

    /// An error with both keys, which may differ: `{"message": "404 Package Not Found", "error": "Package not found"}`.
    pub fn pair(status: StatusCode, message: impl Into<String>, error: impl Into<String>) -> Self {
        Error::with_body(status, json!({"message": message.into(), "error": error.into()}))
    }

    /// An error with another body.
    pub fn with_body(status: StatusCode, body: Value) -> Self {
        Error { status, body, headers: Vec::new(), cause: None }
    }

    /// Adds a header to the response.
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Adds these members to the body, except members that it already has.
    pub fn with_members(mut self, members: Map<String, Value>) -> Self {
        if let Value::Object(body) = &mut self.body {
            for (name, value) in members {
                body.entry(name).or_insert(value);
            }
        }
        self
    }

    /// 400 from parameter validation.
    pub fn validation(text: impl Into<String>) -> Self {
        Error::error(StatusCode::BAD_REQUEST, text)
    }

    /// `400 Bad request - <reason>`.
    pub fn bad_request(reason: &str) -> Self {
        Error::message(StatusCode::BAD_REQUEST, format!("400 Bad request - {reason}"))
    }

    /// `401 Unauthorized`. Its response gets the challenges [`BEARER`] and [`BASIC`].
    pub fn unauthorized() -> Self {
        Error::message(StatusCode::UNAUTHORIZED, "401 Unauthorized")
    }

    /// `403 Forbidden`.
    pub fn forbidden() -> Self {
        Error::message(StatusCode::FORBIDDEN, "403 Forbidden")
    }

    /// `404 <Kind> Not Found`.
    pub fn not_found(kind: &str) -> Self {
        Error::message(StatusCode::NOT_FOUND, format!("404 {kind} Not Found"))
    }

    /// 404 for a path without a route.
    pub fn route_not_found() -> Self {
        Error::error(StatusCode::NOT_FOUND, "404 Not Found")
    }

    /// 405 for a path with other methods, which `allow` lists, for example `"GET, HEAD"`.
    pub fn method_not_allowed(allow: &'static str) -> Self {
        Error::error(StatusCode::METHOD_NOT_ALLOWED, "405 Not Allowed")
            .with_header(ALLOW, HeaderValue::from_static(allow))
    }

    /// 415 for a request body of an unsupported media type.
    pub fn unsupported_media_type(given: &str) -> Self {
        let text = format!("The provided content-type '{given}' is not supported.");
        Error::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
    }

    /// 413: the body, or a part of it, has more than `limit` bytes.
    pub fn too_large(limit: u64) -> Self {
        let text = format!("413 Request Entity Too Large: at most {limit} bytes are accepted");
        Error::pair(StatusCode::PAYLOAD_TOO_LARGE, text.clone(), text)
    }

    /// 429 with the name of the limit (the name of its variable), and the seconds until the limit resets.
    pub fn too_many_requests(limit: &str, seconds: u64) -> Self {
        let text = "This endpoint has been requested too many times. Try again later.";
        let mut error =
            Error::with_body(StatusCode::TOO_MANY_REQUESTS, json!({"message": {"error": text}, "limit": limit}))
                .with_header(RETRY_AFTER, HeaderValue::from(seconds));
        error.headers.extend(HeaderValue::from_str(limit).map(|limit| (RATE_LIMIT_NAME, limit)));
        error
    }

    /// 500. `cause` is for the log.
    pub fn internal(cause: impl Into<String>) -> Self {
        let mut error = Error::message(StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error");
        error.cause = Some(cause.into());
        error
    }

    /// Adds the missing key of `message` and `error` with the text of the other, because package managers print only
    /// `error`. In `{"message":{"error":…}}`, the text is the inner one.
    pub fn paired(mut self) -> Self {
        if let Value::Object(body) = &mut self.body {
            let text = body.get("message").map(|message| message.get("error").unwrap_or(message));
            match (text, body.get("error")) {
                (Some(Value::String(text)), None) => {
                    let text = text.clone();
                    body.insert("error".into(), text.into());
                }
                (None, Some(Value::String(text))) => {
                    let text = text.clone();
                    body.insert("message".into(), text.into());
                }
                _ => {}
            }
        }
        self
    }

    /// The body.
    pub fn to_json(&self) -> Value {
        self.body.clone()
    }
}

impl From<Error> for Response {
    fn from(error: Error) -> Self {
        let mut response = Response::json(error.status, &error.body);
        error.headers.into_iter().for_each(|(name, value)| {
            response.headers.append(name, value);
        });
        if error.status == StatusCode::UNAUTHORIZED && !response.headers.contains_key(WWW_AUTHENTICATE) {
            response.headers.append(WWW_AUTHENTICATE, BEARER);
            response.headers.append(WWW_AUTHENTICATE, BASIC);
        }
        response.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.cause = error.cause;
        response
    }
}

impl From<StoreError> for Error {
    fn from(cause: StoreError) -> Self {
        let mut error = match &cause {
            StoreError::Contended(_) => Error::message(StatusCode::SERVICE_UNAVAILABLE, "503 Service Unavailable")
                .with_header(RETRY_AFTER, HeaderValue::from_static("1")),
            StoreError::TooLate => Error::message(StatusCode::REQUEST_TIMEOUT, "408 Request Timeout"),
            _ => Error::internal(""),
        };
        error.cause = Some(cause.to_string());
        error
    }
}

impl From<BodyError> for Error {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge(limit) => Error::too_large(limit),
            BodyError::Peer(why) => Error::bad_request(&format!("request body is incomplete: {why}")),
            BodyError::Storage(why) | BodyError::Upstream(why) => Error::internal(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_not_in_the_response() {
        let response = Response::from(Error::from(StoreError::Other("disk full".into())));
        assert_eq!(response.status, 500);
        assert_eq!(response.cause.as_deref(), Some("storage failed: disk full"));
        let body = futures::executor::block_on(response.body.collect(1000)).unwrap();
        assert_eq!(body, br#"{"message":"500 Internal Server Error"}"#);
    }

    #[test]
    fn every_error_is_json_that_no_cache_keeps() {
        let response = Response::from(Error::method_not_allowed("GET, HEAD"));
        assert_eq!(response.headers["content-type"], "application/json");
        assert_eq!(response.headers["cache-control"], "no-store");
        assert_eq!(response.headers["allow"], "GET, HEAD");
    }

    #[test]
    fn every_401_says_how_to_authenticate() {
        let challenges = |error: Error| -> Vec<HeaderValue> {
            Response::from(error).headers.get_all(WWW_AUTHENTICATE).iter().cloned().collect()
        };
        assert_eq!(challenges(Error::unauthorized()), [BEARER, BASIC]);
        assert_eq!(challenges(Error::pair(StatusCode::UNAUTHORIZED, "no", "no").paired()), [BEARER, BASIC]);
        let own = Error::unauthorized().with_header(WWW_AUTHENTICATE, BASIC).with_header(WWW_AUTHENTICATE, BEARER);
        assert_eq!(challenges(own), [BASIC, BEARER]);
        assert!(challenges(Error::forbidden()).is_empty());
    }

    #[test]
    fn pairing_fills_the_missing_key_only() {
        let expected = json!({"message": "403 Forbidden", "error": "403 Forbidden"});
        assert_eq!(Error::forbidden().paired().to_json(), expected);
        let expected = json!({"message": "x is missing", "error": "x is missing"});
        assert_eq!(Error::validation("x is missing").paired().to_json(), expected);
        let pair = Error::pair(StatusCode::NOT_FOUND, "404 Package Not Found", "Package not found");
        assert_eq!(pair.clone().paired(), pair);
        let paired = Error::too_many_requests("x_rate_limit", 7).paired().to_json();
        assert!(paired["error"].is_string() && paired["message"]["error"] == paired["error"], "{paired}");
        let structured = Error::with_body(StatusCode::BAD_REQUEST, json!({"message": {"name": ["is missing"]}}));
        assert_eq!(structured.clone().paired(), structured);
    }
}
