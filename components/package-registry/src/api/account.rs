//! The caller's account, for `npm login` and `npm profile get`. The admin area answers npm's requests about tokens.

use super::rate_limit;
use super::request::RegistryRequest;
use crate::route::Route;
use directory::caller::{self, AcceptedTokens, Caller};
use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Method, StatusCode};
use kit::input::Input;
use kit::{Env, Error, Request, Response};
use serde_json::json;

/// The largest document of a login, in bytes.
const MAX_BODY: u64 = 64 << 10;

/// `PUT <prefix>/-/user/org.couchdb.user:NAME`: the password is a personal token of the user, and the answer returns it
/// as the client's token. The request's own credentials are ignored: they may be invalid, which may be why the client
/// logs in.
pub async fn log_in(env: &Env, http: Request, route: &Route, name: &str) -> Result<Response, Error> {
    rate_limit::check(env, &http, &Caller::Anonymous, route)?;
    let mut presented = caller::without_credentials(&http, Method::PUT);
    let params = Input::read(http, MAX_BODY).await?.into_params()?;
    let password = params.text("password").ok_or_else(|| Error::validation("password is missing"))?;
    let refused = || {
        let text = format!("the password has to be a personal access token of {name}");
        Error::pair(StatusCode::UNAUTHORIZED, "401 Unauthorized", text)
    };
    let value = HeaderValue::from_str(password).map_err(|_| refused())?;
    presented.headers.insert("private-token", value);
    let caller = match caller::authenticate(env, &presented, AcceptedTokens::Api) {
        Err(error) if error == Error::unauthorized() => return Err(refused()),
        caller => caller?,
    };
    let user = caller.user().filter(|user| user.username.eq_ignore_ascii_case(name)).ok_or_else(refused)?;
    // Without this scope, every request after the login would be refused.
    caller.require_scope(caller::api_scopes(&Method::GET))?;
    let body = json!({"ok": true, "id": format!("org.couchdb.user:{}", user.username), "token": password});
    Ok(Response::json(StatusCode::CREATED, &body).with_header(CACHE_CONTROL, HeaderValue::from_static("no-store")))
}

/// `GET <prefix>/-/npm/v1/user`. Two-factor authentication does not exist here.
pub fn profile(request: &RegistryRequest) -> Result<Response, Error> {
    let user = match &request.caller {
        Caller::User(session) => &session.user,
        // Other users may have written the job's scripts.
        Caller::Job(_) => return Err(Error::forbidden()),
        Caller::Anonymous | Caller::DeployToken(_) => return Err(Error::unauthorized()),
    };
    Ok(Response::ok(&json!({
        "name": user.username,
        "fullname": user.name,
        "email": user.commit_email.as_deref().unwrap_or_default(),
        "email_verified": user.commit_email.is_some(),
        "tfa": null,
        "cidr_whitelist": null,
    })))
}
