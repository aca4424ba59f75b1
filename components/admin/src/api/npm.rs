//! The requests of npm about tokens: `npm token list`, `create` and `revoke`, and `npm logout`. They belong to this
//! area and not to the registry, because they change the directory.

use super::tokens::too_many_tokens;
use crate::npm_token::{self, NpmToken};
use crate::route::NpmRoute;
use crate::{parameters, tokens};
use directory::caller::{self, AcceptedTokens, Caller};
use directory::reauthorization;
use directory::token::{self, Fingerprint, PersonalToken};
use directory::user::User;
use directory::{request_limits, setting};
use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Method, StatusCode};
use kit::{Env, Error, Request, Response, Timestamp};
use serde_json::{Value, json};

pub async fn answer(env: &Env, mut request: Request, route: &NpmRoute) -> Result<Response, Error> {
    let authenticate = |env: &Env, request: &Request| caller::authenticate(env, request, AcceptedTokens::Registry);
    let (env, caller) = match route {
        NpmRoute::CreateToken => {
            reauthorization::with_body(env, &mut request, parameters::MAX_BODY, authenticate).await?
        }
        NpmRoute::ListTokens | NpmRoute::RevokeToken(_) | NpmRoute::Logout(_) => {
            (env.clone(), authenticate(env, &request)?)
        }
    };
    let env = &env;
    // Job tokens and deploy tokens own no tokens.
    let Caller::User(session) = &caller else { return Err(Error::unauthorized()) };
    let user = &session.user;
    match route {
        NpmRoute::ListTokens => {
            caller.require_scope(caller::api_scopes(&request.method))?;
            list(env, user)
        }
        NpmRoute::CreateToken => {
            caller.require_scope(caller::api_scopes(&request.method))?;
            request_limits::check_write(env, &caller, &request_limits::TOKENS)?;
            create(env, user, request).await
        }
        NpmRoute::RevokeToken(key) => {
            caller.require_scope(caller::api_scopes(&request.method))?;
            let text = Fingerprint::of(key.as_bytes());
            revoke(env, user, |token| token.fingerprint.public_key() == *key || token.fingerprint == text)
        }
        NpmRoute::Logout(text) => {
            let text = Fingerprint::of(text.as_bytes());
            // A token of any scope may revoke itself.
            if caller::presented_token(&request, AcceptedTokens::Registry)?.is_none_or(|presented| presented != text) {
                caller.require_scope(caller::api_scopes(&request.method))?;
            }
            revoke(env, user, |token| token.fingerprint == text)
        }
    }
}

/// Lists the active tokens.
fn list(env: &Env, user: &User) -> Result<Response, Error> {
    let tokens = token::of_user(env, user.id)?;
    let objects: Vec<Value> = tokens.iter().filter(|token| token.is_active(env.now)).map(entry).collect();
    Ok(Response::ok(&json!({"objects": objects, "total": objects.len(), "urls": {}})))
}

/// A token in the form that npm expects. npm shows the beginning of `key` as the id.
fn entry(token: &PersonalToken) -> Value {
    json!({
        "key": token.fingerprint.public_key(),
        // npm would show the beginning of the text, which is not stored.
        "token": "",
        "name": token.token.name,
        "created": token.created_at.map(|moment| moment.to_iso()),
        "expires": token.token.expires_at.map(|moment| moment.to_iso()),
        "scopes": token.token.scopes,
        "readonly": !token.token.scopes.iter().any(|scope| scope == "api"),
        "cidr_whitelist": null,
    })
}

/// Creates a token. The password is a personal token of the user, as for a login. The new token expires after the
/// default lifetime, or with the password if that is earlier. Only this response has the text of the new token.
async fn create(env: &Env, user: &User, request: Request) -> Result<Response, Error> {
    let presented = caller::without_credentials(&request, Method::POST);
    let NpmToken { password, mut new } = npm_token::parse(&parameters::read(request).await?, env.now)?;
    let password_end = end_of_password(env, user, presented, &password)?;
    if let Some(end) = password_end
        && new.expires_at.is_some_and(|requested| requested > end)
    {
        let text = format!("expires is after the end of the token that is the password, {}", end.to_iso());
        return Err(Error::validation(text));
    }
    let default_end = tokens::default_end(setting::read(env)?.token_lifetime(), env.now);
    new.expires_at = new.expires_at.or_else(|| password_end.into_iter().chain(default_end).min());
    let secret = tokens::generate_secret(&*env.entropy);
    let fingerprint = Fingerprint::of(secret.as_bytes());
    let created = token::create(env, user.id, &fingerprint, new)?.ok_or_else(too_many_tokens)?;
    let mut entry = entry(&created);
    if let Value::Object(fields) = &mut entry {
        fields.insert("token".to_owned(), secret.into());
    }
    let response = Response::json(StatusCode::CREATED, &entry);
    Ok(response.with_header(CACHE_CONTROL, HeaderValue::from_static("no-store")))
}

/// The expiry of the token `password`, which this function adds to the request `presented`. 401 unless it is a valid
/// token of the user with every scope that a new token can have.
fn end_of_password(env: &Env, user: &User, mut presented: Request, password: &str) -> Result<Option<Timestamp>, Error> {
    let refused = || {
        let text = format!("the password has to be a personal access token of {} with the scope api", user.username);
        Error::pair(StatusCode::UNAUTHORIZED, "401 Unauthorized", text)
    };
    presented.headers.insert("private-token", HeaderValue::from_str(password).map_err(|_| refused())?);
    let caller = match caller::authenticate(env, &presented, AcceptedTokens::Api) {
        Err(error) if matches!(error.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => return Err(refused()),
        Err(error) => return Err(error),
        Ok(caller) => caller,
    };
    let is_own = matches!(&caller, Caller::User(session) if session.user.id == user.id);
    if !is_own || caller.require_scope(caller::api_scopes(&presented.method)).is_err() {
        return Err(refused());
    }
    let token = token::find(env, &Fingerprint::of(password.as_bytes()))?;
    // The token of the built-in administrator has no record and never expires.
    Ok(token.and_then(|token| token.expires_at))
}

/// Revokes the first token of the user for which `matches` is true; 404 without such a token.
fn revoke(env: &Env, user: &User, matches: impl Fn(&PersonalToken) -> bool) -> Result<Response, Error> {
    let tokens = token::of_user(env, user.id)?;
    let found = tokens.iter().find(|token| matches(token));
    let not_found = || Error::pair(StatusCode::NOT_FOUND, "404 Token Not Found", "token not found");
    token::revoke(env, &found.ok_or_else(not_found)?.fingerprint)?;
    Ok(Response::ok(&json!({"ok": true})))
}
