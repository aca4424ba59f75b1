//! Requests to the API, with the visitor's own token.

use crate::route;
use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT,
};
use http::{Method, StatusCode};
use kit::Env;
use kit::body::BodyError;
use kit::outbound::{OutboundError, OutboundRequest, OutboundResponse, Timeouts};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// The largest response, in bytes: the metadata of a package with thousands of versions.
const MAX_RESPONSE: u64 = 32 << 20;

/// How long a page waits for one response.
const TIMEOUTS: Timeouts =
    Timeouts { connect: Duration::from_secs(5), idle: Duration::from_secs(20), total: Duration::from_secs(25) };

/// A client of the API for one visitor.
pub struct Forge<'a> {
    env: &'a Env,
    token: Option<&'a str>,
}

/// A response of the API with a status of success.
pub struct Answer {
    pub headers: HeaderMap,
    /// JSON, in all answers of the API.
    pub body: String,
}

/// Why a request to the API failed.
#[derive(Debug)]
pub enum ForgeError {
    /// The API refused. The reason is the API's own text.
    Refused { status: StatusCode, reason: String, retry_after: Option<HeaderValue> },
    /// The answer has more than [`MAX_RESPONSE`].
    TooLong,
    /// The API gave no readable answer. The cause is for the log.
    Unanswered(String),
}

impl<'a> Forge<'a> {
    pub fn new(env: &'a Env, token: Option<&'a str>) -> Self {
        Forge { env, token }
    }

    /// The JSON at a path below the API's base.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ForgeError> {
        self.send(Method::GET, path, None).await?.json()
    }

    /// Like [`get`](Self::get), with `None` for 404.
    pub async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, ForgeError> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(ForgeError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a request with JSON as its body. A GET follows a redirect within the API, such as to a project whose path
    /// has changed.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, ForgeError> {
        let mut response = self.ask(&method, path, body).await?;
        // Within the API, redirects are 301; other redirects lead to other services.
        if response.status == StatusCode::MOVED_PERMANENTLY
            && method == Method::GET
            && let Some(moved) = location(&response).and_then(route::below_api)
        {
            response = self.ask(&method, moved, body).await?;
        }
        if response.status.is_redirection() {
            let reason = format!("it is at {}", location(&response).unwrap_or_default());
            return Err(ForgeError::Refused { status: StatusCode::NOT_FOUND, reason, retry_after: None });
        }
        let body = response.body.collect(MAX_RESPONSE).await.map_err(|why| match why {
            BodyError::TooLarge(_) => ForgeError::TooLong,
            why => ForgeError::Unanswered(format!("{path}: {why}")),
        })?;
        if !response.status.is_success() {
            let retry_after = response.headers.get(RETRY_AFTER).cloned();
            let reason = reason(response.status, &body);
            return Err(ForgeError::Refused { status: response.status, reason, retry_after });
        }
        // Checking the whole body costs less than checking each text.
        let body = String::from_utf8(body).map_err(|why| ForgeError::Unanswered(format!("{path}: {why}")))?;
        Ok(Answer { headers: response.headers, body })
    }

    async fn ask(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<OutboundResponse, ForgeError> {
        let url = route::endpoint(path).parse().map_err(|why| ForgeError::Unanswered(format!("{path}: {why}")))?;
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static("hexad-console"));
        if let Some(token) = self.token {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| ForgeError::refused(StatusCode::UNAUTHORIZED))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        match body {
            Some(_) => headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json")),
            // The host answers from its cache only if it knows that the request has no body.
            None => headers.insert(CONTENT_LENGTH, 0.into()),
        };
        let body = body.map(Value::to_string).unwrap_or_default().into();
        let request = OutboundRequest { method: method.clone(), url, headers, body, timeouts: TIMEOUTS };
        self.env.outbound.send(request).await.map_err(|error| {
            ForgeError::Unanswered(match error {
                OutboundError::Other(why) => format!("{path}: {why}"),
                error => format!("{path}: {error}"),
            })
        })
    }
}

impl Answer {
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ForgeError> {
        serde_json::from_str(&self.body).map_err(|why| ForgeError::Unanswered(why.to_string()))
    }

    /// A header with a number, such as the headers of a list's pages.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.headers.get(name)?.to_str().ok()?.parse().ok()
    }
}

impl ForgeError {
    fn refused(status: StatusCode) -> Self {
        ForgeError::Refused { status, reason: status.to_string(), retry_after: None }
    }

    /// Whether the token is valid, but lacks a scope for the request.
    pub fn is_missing_scope(&self) -> bool {
        matches!(self, ForgeError::Refused { reason, .. } if reason == "insufficient_scope")
    }

    /// The cause, for the log.
    pub fn cause(&self) -> Option<String> {
        match self {
            ForgeError::Refused { .. } => None,
            ForgeError::TooLong => Some(format!("an answer of the API has more than {MAX_RESPONSE} bytes")),
            ForgeError::Unanswered(cause) => Some(cause.clone()),
        }
    }

    pub fn status(&self) -> StatusCode {
        match self {
            ForgeError::Refused { status, .. } => *status,
            ForgeError::TooLong | ForgeError::Unanswered(_) => StatusCode::BAD_GATEWAY,
        }
    }
}

/// The text of an error response: `message` or `error`, a text or an object of texts.
fn reason(status: StatusCode, body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = ["message", "error"].iter().find_map(|key| match body.get(key)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) if fields.contains_key("error") => fields.get("error")?.as_str().map(str::to_owned),
        other => Some(other.to_string()),
    });
    text.unwrap_or_else(|| status.to_string())
}

fn location(response: &OutboundResponse) -> Option<&str> {
    response.headers.get(LOCATION)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_the_apis_own_words() {
        let text = |body: &str| reason(StatusCode::FORBIDDEN, body.as_bytes());
        assert_eq!(text(r#"{"message":"403 Forbidden"}"#), "403 Forbidden");
        assert_eq!(text(r#"{"error":"x is invalid"}"#), "x is invalid");
        assert_eq!(text(r#"{"message":{"error":"too often"}}"#), "too often");
        assert_eq!(text(r#"{"message":{"name":["is taken"]}}"#), r#"{"name":["is taken"]}"#);
        assert_eq!(text("not json"), "403 Forbidden");
    }
}
