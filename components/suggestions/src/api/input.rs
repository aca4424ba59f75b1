//! Parameters of a request: from its path, its query and its body.

use super::context::RequestContext;
use kit::params::Params;
use kit::{Body, Error, Request};

/// The largest body of parameters, in bytes: a comment of the longest text, escaped.
const MAX_BODY: u64 = 8 << 20;

/// The parameters of a query and a body; the body takes precedence. 401 for an anonymous caller, before the body is
/// read. If the body was still arriving, the caller is authenticated again after it.
pub async fn read(context: &mut RequestContext, body: Body) -> Result<Params, Error> {
    context.caller.user_or_401()?;
    let mut request = Request::new(context.head.method.clone(), "");
    request.query.clone_from(&context.head.query);
    request.headers.clone_from(&context.head.headers);
    let was_there = body.is_there();
    request.body = body;
    let params = kit::input::read_params(request, MAX_BODY).await?;
    if !was_there {
        context.renew()?;
    }
    Ok(params)
}

/// A suggestion's id in a path; 400 if it is not an integer.
pub fn suggestion_id(text: &str) -> Result<u64, Error> {
    integer(text).ok_or_else(|| Error::validation("id is invalid"))
}

/// Checks a merge request's iid in a path; 400 if it is not an integer.
pub fn check_iid(text: &str) -> Result<(), Error> {
    integer(text).map(drop).ok_or_else(|| Error::validation("noteable_id is invalid"))
}

/// An integer in a path. A negative number, or one that does not fit, becomes 0, which is the id of nothing.
pub fn integer(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_integer.then(|| text.parse().unwrap_or(0))
}
