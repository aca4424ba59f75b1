//! The requests of npm to a registry about tokens: `npm token list`, `create` and `revoke`, and `npm logout`. They are
//! here, and not in the registry, because they change the directory.

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
    // A job and a deploy token have no tokens.
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
            // A token of any scope may end itself.
            if caller::presented_token(&request, AcceptedTokens::Registry)?.is_none_or(|presented| presented != text) {
                caller.require_scope(caller::api_scopes(&request.method))?;
            }
            revoke(env, user, |token| token.fingerprint == text)
        }
    }
}

/// The tokens that can be used.
fn list(env: &Env, user: &User) -> Result<Response, Error> {
    let tokens = token::of_user(env, user.id)?;
    let objects: Vec<Value> = tokens.iter().filter(|token| token.is_active(env.now)).map(entry).collect();
    Ok(Response::ok(&json!({"objects": objects, "total": objects.len(), "urls": {}})))
}

/// A token as npm knows it. npm shows the beginning of `key` as its id.
fn entry(token: &PersonalToken) -> Value {
    json!({
        "key": token.fingerprint.public_key(),
        // npm shows how the text begins, which is not known here.
        "token": "",
        "name": token.token.name,
        "created": token.created_at.map(|moment| moment.to_iso()),
        "expires": token.token.expires_at.map(|moment| moment.to_iso()),
        "scopes": token.token.scopes,
        "readonly": !token.token.scopes.iter().any(|scope| scope == "api"),
        "cidr_whitelist": null,
    })
}

/// Makes a token. The password is a personal token of the user, as for a login. The new token ends after the default
/// lifetime, or with the password if that ends earlier. Only this answer has the new token's text.
async fn create(env: &Env, user: &User, request: Request) -> Result<Response, Error> {
    let presented = caller::without_credentials(&request, Method::POST);
    let NpmToken { password, mut new } = npm_token::parse(&parameters::read(request).await?, env.now)?;
    let password_end = end_of_password(env, user, presented, &password)?;
    if let Some(end) = password_end
        && new.expires_at.is_some_and(|asked| asked > end)
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

/// The end of the token that is given as `password`, which is added to `presented`; 401 unless it is a valid token of
/// the user for everything that a new one can allow.
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
    let is_users = matches!(&caller, Caller::User(session) if session.user.id == user.id);
    if !is_users || caller.require_scope(caller::api_scopes(&presented.method)).is_err() {
        return Err(refused());
    }
    let token = token::find(env, &Fingerprint::of(password.as_bytes()))?;
    // The built-in administrator's token has no record, and no end.
    Ok(token.and_then(|token| token.expires_at))
}

/// Revokes the first of the user's tokens that `is_meant`; 404 if there is none.
fn revoke(env: &Env, user: &User, is_meant: impl Fn(&PersonalToken) -> bool) -> Result<Response, Error> {
    let tokens = token::of_user(env, user.id)?;
    let found = tokens.iter().find(|token| is_meant(token));
    let not_found = || Error::pair(StatusCode::NOT_FOUND, "404 Token Not Found", "token not found");
    token::revoke(env, &found.ok_or_else(not_found)?.fingerprint)?;
    Ok(Response::ok(&json!({"ok": true})))
}
