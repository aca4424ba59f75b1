//! The requests and responses that the cache handles.

use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_LENGTH, SET_COOKIE, TRANSFER_ENCODING, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::origin::CLIENT_ADDRESS;

/// Which of a component's responses are cached: `response_cache` and `response_cache_headers` in its `tool.hexad`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachePolicy {
    /// How long the cache may use an entry, even if nothing has changed.
    pub max_age: Duration,
    /// The request headers that the component reads.
    pub headers: Vec<HeaderName>,
}

impl CachePolicy {
    /// Whether the response to this request may be cached. A request with a body is never cached.
    pub fn applies_to(&self, parts: &Parts) -> bool {
        (parts.method == Method::GET || parts.method == Method::HEAD)
            && !parts.headers.contains_key(TRANSFER_ENCODING)
            && parts.headers.get(CONTENT_LENGTH).is_none_or(|length| length == "0")
    }

    /// Removes the headers that the component does not read, and the port of the client's address.
    pub fn strip_headers(&self, headers: &mut HeaderMap) {
        let mut kept = HeaderMap::new();
        for name in &self.headers {
            for value in headers.get_all(name) {
                let value = match *name == CLIENT_ADDRESS {
                    true => HeaderValue::from_bytes(&[without_port(value), b":0"].concat())
                        .unwrap_or_else(|_| value.clone()),
                    false => value.clone(),
                };
                kept.append(name, value);
            }
        }
        *headers = kept;
    }
}

/// The client's address without the port, which differs for each connection.
pub fn without_port(address: &HeaderValue) -> &[u8] {
    let address = address.as_bytes();
    let port = address.iter().rposition(|byte| *byte == b':');
    port.and_then(|colon| address.get(..colon)).unwrap_or(address)
}

/// Whether a response with this head may be sent again to an equal request.
pub fn is_storable(status: StatusCode, headers: &HeaderMap) -> bool {
    let has_word = |name: &HeaderName, word: &str| {
        let text = |value: &HeaderValue| value.to_str().map_or(true, |text| text.to_ascii_lowercase().contains(word));
        headers.get_all(name).iter().any(text)
    };
    status.as_u16() < 500
        && status != StatusCode::TOO_MANY_REQUESTS
        && !status.is_informational()
        && !headers.contains_key(SET_COOKIE)
        && !has_word(&CACHE_CONTROL, "no-store")
        && !has_word(&VARY, "*")
}
