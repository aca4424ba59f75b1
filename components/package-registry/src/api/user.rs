//! The calling user, and the users that a client asks about before it adds an owner.

use super::request::RegistryRequest;
use directory::caller::Caller;
use directory::user;
use http::StatusCode;
use kit::{Error, Response};
use serde_json::json;

/// `GET <prefix>/-/whoami`.
pub fn who_am_i(request: &RegistryRequest) -> Result<Response, Error> {
    let username = match &request.caller {
        Caller::Anonymous => return Err(Error::unauthorized()),
        Caller::DeployToken(_) => "deploy-token",
        Caller::User(session) => &session.user.username,
        Caller::Job(job) => &job.session.user.username,
    };
    Ok(Response::ok(&json!({"username": username})))
}

/// `GET <prefix>/-/user/org.couchdb.user:NAME`.
pub fn find(request: &RegistryRequest, name: &str) -> Result<Response, Error> {
    request.caller.require_authenticated()?;
    let found = user::find(&request.env, name)?.filter(|user| user.username.eq_ignore_ascii_case(name));
    let not_found = || Error::pair(StatusCode::NOT_FOUND, "404 User Not Found", format!("user {name} not found"));
    let username = found.ok_or_else(not_found)?.username;
    Ok(Response::ok(&json!({"_id": format!("org.couchdb.user:{username}"), "name": username, "email": ""})))
}
