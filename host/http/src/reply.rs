//! Responses that the host makes itself. They are JSON, which clients neither cache nor interpret as anything else.

use std::time::Duration;

use hexad_limits::anonymous_work::UsedUp;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{Response, StatusCode};
use serde_json::json;

use crate::body::{ResponseBody, full};
use crate::nested_request::MAX_DEPTH;

/// The path has no route.
pub fn not_found() -> Response<ResponseBody> {
    json(StatusCode::NOT_FOUND, &json!({ "error": "404 Not Found" }))
}

/// HTTP does not allow the request.
pub fn bad_request(reason: &str) -> Response<ResponseBody> {
    json(StatusCode::BAD_REQUEST, &json!({ "message": "400 Bad Request", "error": reason }))
}

/// `limit` is in bytes.
pub fn body_too_large(limit: u64) -> Response<ResponseBody> {
    let error = format!("the request body is larger than the limit of {limit} bytes");
    json(StatusCode::PAYLOAD_TOO_LARGE, &json!({ "message": "413 Request Entity Too Large", "error": error }))
}

/// The client waits for `100 Continue` over HTTP/2.
pub fn expectation_failed() -> Response<ResponseBody> {
    let error = "100 Continue is not sent over HTTP/2; send the request without the Expect header";
    json(StatusCode::EXPECTATION_FAILED, &json!({ "message": "417 Expectation Failed", "error": error }))
}

/// The request has more than `limit` header fields.
pub fn too_many_headers(limit: usize) -> Response<ResponseBody> {
    let error = format!("the request has more than {limit} header fields");
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    json(status, &json!({ "message": "431 Request Header Fields Too Large", "error": error }))
}

/// The client stopped sending in the middle of its request.
pub fn request_timeout() -> Response<ResponseBody> {
    json(StatusCode::REQUEST_TIMEOUT, &json!({ "message": "408 Request Timeout" }))
}

/// The cause is in the log, and not for the client.
pub fn internal_error() -> Response<ResponseBody> {
    json(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "message": "500 Internal Server Error" }))
}

/// The component has no free instance.
pub fn unavailable() -> Response<ResponseBody> {
    retry_later(&json!({ "message": "503 Service Unavailable" }), Duration::from_secs(1))
}

/// The client's address has left as many response bytes unread as the host keeps for it.
pub fn unread_responses() -> Response<ResponseBody> {
    let error = "other responses to this address have not been read";
    retry_later(&json!({ "message": "503 Service Unavailable", "error": error }), Duration::from_secs(1))
}

/// The client's address has cancelled too many requests on the proxy's connection. The host refuses its requests for
/// this long.
pub fn cancelled_requests(retry_after: Duration) -> Response<ResponseBody> {
    too_many_requests("too many requests of this address were cancelled", retry_after)
}

/// The header that names the limit that refused a request, as in the reference service.
const RATE_LIMIT_NAME: HeaderName = HeaderName::from_static("ratelimit-name");

/// The client's network has used up a limit of anonymous work.
pub fn too_much_work(UsedUp { limit, retry_after }: UsedUp) -> Response<ResponseBody> {
    let error =
        format!("requests from this address without an accepted credential have used up {limit}; sign in, or wait");
    let mut response = too_many_requests(&error, retry_after);
    response.headers_mut().insert(RATE_LIMIT_NAME, HeaderValue::from_static(limit));
    response
}

fn too_many_requests(error: &str, retry_after: Duration) -> Response<ResponseBody> {
    let body = json!({ "message": "429 Too Many Requests", "error": error });
    let mut response = json(StatusCode::TOO_MANY_REQUESTS, &body);
    set_retry_after(&mut response, retry_after);
    response
}

/// Unread bodies of other requests may have used up the host's receive budget.
pub fn unread_requests() -> Response<ResponseBody> {
    let error = "the bodies of other requests have not been read";
    retry_later(&json!({ "message": "503 Service Unavailable", "error": error }), Duration::from_secs(1))
}

/// The host had no memory left for the component, and has ended the guest.
pub fn no_memory() -> Response<ResponseBody> {
    let error = "the host has no memory left now; a part of the request may have been stored";
    retry_later(&json!({ "message": "503 Service Unavailable", "error": error }), Duration::from_secs(5))
}

/// The component's circuit breaker is open for this long.
pub fn failing(retry_after: Duration) -> Response<ResponseBody> {
    let error = "the component keeps failing and is not asked for a while";
    retry_later(&json!({ "message": "503 Service Unavailable", "error": error }), retry_after)
}

fn retry_later(body: &serde_json::Value, after: Duration) -> Response<ResponseBody> {
    let mut response = json(StatusCode::SERVICE_UNAVAILABLE, body);
    set_retry_after(&mut response, after);
    response
}

fn set_retry_after(response: &mut Response<ResponseBody>, after: Duration) {
    let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
    response.headers_mut().insert(RETRY_AFTER, seconds.max(1).into());
}

/// The store is unavailable. The cause is in the log.
pub fn store_unavailable(maybe_stored: bool) -> Response<ResponseBody> {
    let error = match maybe_stored {
        true => "the store cannot be used now; a part of the request may have been stored",
        false => "the store cannot be used now; nothing of the request was stored",
    };
    retry_later(&json!({ "message": "503 Service Unavailable", "error": error }), Duration::from_secs(5))
}

/// The component's response broke before any of it was sent.
pub fn broken_response() -> Response<ResponseBody> {
    json(StatusCode::BAD_GATEWAY, &json!({ "message": "502 Bad Gateway" }))
}

/// `limit` is in bytes.
pub fn response_too_large(limit: u64) -> Response<ResponseBody> {
    let error = format!("the component's response is larger than the limit of {limit} bytes");
    json(StatusCode::BAD_GATEWAY, &json!({ "message": "502 Bad Gateway", "error": error }))
}

/// The component used up the processor time of a request.
pub fn out_of_cpu_time() -> Response<ResponseBody> {
    let error = "the component used more processor time than it may for one request";
    json(StatusCode::GATEWAY_TIMEOUT, &json!({ "message": "504 Gateway Timeout", "error": error }))
}

/// The component did not respond in time.
pub fn gateway_timeout() -> Response<ResponseBody> {
    json(StatusCode::GATEWAY_TIMEOUT, &json!({ "message": "504 Gateway Timeout" }))
}

/// A guest's request to its own application would be deeper than the host allows.
pub fn loop_detected() -> Response<ResponseBody> {
    let error = format!("components of this application wait for each other, more than {MAX_DEPTH} deep");
    json(StatusCode::LOOP_DETECTED, &json!({ "message": "508 Loop Detected", "error": error }))
}

fn json(status: StatusCode, body: &serde_json::Value) -> Response<ResponseBody> {
    let mut response = Response::new(full(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN"));
    response
}
