//! Responses that the host makes itself: JSON, never cached, never interpreted as anything else.

use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use http::{Response, StatusCode};
use serde_json::json;

use crate::body::{ResponseBody, full};
use crate::metrics::Refusal;

/// No route leads to a component.
pub fn not_found() -> Response<ResponseBody> {
    json(StatusCode::NOT_FOUND, None, &json!({ "error": "404 Not Found" }))
}

/// The request is not one that HTTP allows.
pub fn bad_request(reason: &str) -> Response<ResponseBody> {
    json(StatusCode::BAD_REQUEST, Refusal::Malformed, &json!({ "message": "400 Bad Request", "error": reason }))
}

/// The request's body passes the component's limit, in bytes.
pub fn too_large(limit: u64) -> Response<ResponseBody> {
    let error = format!("the request body is larger than the limit of {limit} bytes");
    let body = json!({ "message": "413 Request Entity Too Large", "error": error });
    json(StatusCode::PAYLOAD_TOO_LARGE, Refusal::TooLarge, &body)
}

/// The client stopped sending in the middle of its request.
pub fn request_timeout() -> Response<ResponseBody> {
    json(StatusCode::REQUEST_TIMEOUT, Refusal::SlowClient, &json!({ "message": "408 Request Timeout" }))
}

/// The component failed, or its writes. The cause is in the log and not for the client.
pub fn internal_error(refusal: Refusal) -> Response<ResponseBody> {
    json(StatusCode::INTERNAL_SERVER_ERROR, refusal, &json!({ "message": "500 Internal Server Error" }))
}

/// Every instance that the component may have is busy, or there is no room for another.
pub fn unavailable(refusal: Refusal) -> Response<ResponseBody> {
    come_again(refusal, &json!({ "message": "503 Service Unavailable" }), Duration::from_secs(1))
}

/// The component keeps failing, and is not asked for that long.
pub fn failing(retry_after: Duration) -> Response<ResponseBody> {
    let error = "the component keeps failing and is not asked for a while";
    come_again(Refusal::Failing, &json!({ "message": "503 Service Unavailable", "error": error }), retry_after)
}

fn come_again(refusal: Refusal, body: &serde_json::Value, after: Duration) -> Response<ResponseBody> {
    let mut response = json(StatusCode::SERVICE_UNAVAILABLE, refusal, body);
    let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
    response.headers_mut().insert(RETRY_AFTER, seconds.max(1).into());
    response
}

/// The component's response passes its limit, in bytes.
pub fn response_too_large(limit: u64) -> Response<ResponseBody> {
    let error = format!("the component's response is larger than the limit of {limit} bytes");
    let body = json!({ "message": "502 Bad Gateway", "error": error });
    json(StatusCode::BAD_GATEWAY, Refusal::ResponseTooLarge, &body)
}

/// The component used up the processor time of a request.
pub fn out_of_cpu_time() -> Response<ResponseBody> {
    let error = "the component used more processor time than it may for one request";
    let body = json!({ "message": "504 Gateway Timeout", "error": error });
    json(StatusCode::GATEWAY_TIMEOUT, Refusal::CpuTime, &body)
}

/// The component did not answer in time.
pub fn gateway_timeout() -> Response<ResponseBody> {
    json(StatusCode::GATEWAY_TIMEOUT, Refusal::TimedOut, &json!({ "message": "504 Gateway Timeout" }))
}

/// The reason stays with the response for who counts it; clients do not see it.
fn json(status: StatusCode, refusal: impl Into<Option<Refusal>>, body: &serde_json::Value) -> Response<ResponseBody> {
    let mut response = Response::new(full(body.to_string()));
    *response.status_mut() = status;
    if let Some(refusal) = refusal.into() {
        response.extensions_mut().insert(refusal);
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN"));
    response
}
