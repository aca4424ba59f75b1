//! The status of each failure.

use http::Response;

use crate::body::ResponseBody;
use crate::reply;
use crate::request_error::RequestError;

/// The response to a request that does not get one of its component.
pub fn of(error: RequestError) -> Response<ResponseBody> {
    match error {
        RequestError::Malformed(reason) => reply::bad_request(reason),
        RequestError::BodyTooLarge(limit) => reply::body_too_large(limit),
        RequestError::SlowClient => reply::request_timeout(),
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
