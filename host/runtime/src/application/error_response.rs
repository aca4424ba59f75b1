//! The status of each failure.

use hexad_http::body::ResponseBody;
use hexad_http::reply;
use hexad_manifest::RequestLimits;
use http::Response;

use crate::component::ResponseEnd;
use crate::request_context::UploadFailure;
use crate::request_error::RequestError;

/// The error of a response that has ended in this way before its head went out.
pub fn of_end(end: ResponseEnd, limits: &RequestLimits) -> Option<RequestError> {
    match end {
        ResponseEnd::Broken => Some(RequestError::Broken),
        ResponseEnd::TimedOut => Some(RequestError::TimedOut),
        ResponseEnd::BrokenByClient(UploadFailure::TooLarge) => Some(RequestError::BodyTooLarge(limits.max_body)),
        ResponseEnd::BrokenByClient(UploadFailure::Broken) => {
            Some(RequestError::Malformed("the request's body broke off"))
        }
        ResponseEnd::Complete | ResponseEnd::Abandoned => None,
    }
}

/// The host's response to a request that gets none of its component.
pub fn of(error: RequestError) -> Response<ResponseBody> {
    match error {
        RequestError::Malformed(reason) => reply::bad_request(reason),
        RequestError::BodyTooLarge(limit) => reply::body_too_large(limit),
        RequestError::ExpectationFailed => reply::expectation_failed(),
        RequestError::SlowClient => reply::request_timeout(),
        RequestError::AnonymousWork(used_up) => reply::too_much_work(used_up),
        RequestError::Saturated | RequestError::NoInstance => reply::unavailable(),
        RequestError::Unread => reply::unread_responses(),
        RequestError::NoMemory => reply::no_memory(),
        RequestError::Failing(retry_after) => reply::failing(retry_after),
        RequestError::Failed | RequestError::NotDurable => reply::internal_error(),
        RequestError::StoreUnavailable { maybe_stored } => reply::store_unavailable(maybe_stored),
        RequestError::Broken => reply::broken_response(),
        RequestError::OutOfCpuTime => reply::out_of_cpu_time(),
        RequestError::TimedOut => reply::gateway_timeout(),
        RequestError::ResponseTooLarge(limit) => reply::response_too_large(limit),
    }
}
