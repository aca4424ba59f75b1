//! What npm asks a registry about tokens: `npm token list`, `npm token revoke` and `npm logout`. They
//! are here, and not in the registry, because they change the directory.

use crate::route::NpmRoute;
use directory::caller::{self, AcceptedTokens, Caller};
use directory::token::{self, Fingerprint, PersonalToken};
use directory::user::User;
use http::StatusCode;
use kit::{Env, Error, Request, Response};
use serde_json::{Value, json};

pub fn answer(env: &Env, request: &Request, route: &NpmRoute) -> Result<Response, Error> {
    let caller = caller::authenticate(env, request, AcceptedTokens::Registry)?;
    // A job and a deploy token have no tokens.
    let Caller::User(session) = &caller else { return Err(Error::unauthorized()) };
    let user = &session.user;
    match route {
        NpmRoute::ListTokens => {
            caller.require_scope(caller::api_scopes(&request.method))?;
            list(env, user)
        }
        NpmRoute::RevokeToken(key) => {
            caller.require_scope(caller::api_scopes(&request.method))?;
            let text = Fingerprint::of(key.as_bytes());
            revoke(env, user, |token| token.fingerprint.public_key() == *key || token.fingerprint == text)
        }
        NpmRoute::Logout(text) => {
            let text = Fingerprint::of(text.as_bytes());
            // A token of any scope may end itself.
            if caller::presented_token(request, AcceptedTokens::Registry)?.is_none_or(|presented| presented != text) {
                caller.require_scope(caller::api_scopes(&request.method))?;
            }
            revoke(env, user, |token| token.fingerprint == text)
        }
    }
}

/// The tokens that can be used. npm shows the beginning of `key` as their id.
fn list(env: &Env, user: &User) -> Result<Response, Error> {
    let tokens = token::of_user(env, user.id)?;
    let entry = |token: &PersonalToken| {
        let created = token.created_at.map(|moment| moment.to_iso());
        json!({
            "key": token.fingerprint.public_key(),
            // npm shows how the text begins, which is not known here.
            "token": "",
            "name": token.token.name,
            "created": created,
            "expires": token.token.expires_at.map(|moment| moment.to_iso()),
            "scopes": token.token.scopes,
            "readonly": !token.token.scopes.iter().any(|scope| scope == "api"),
            "cidr_whitelist": null,
        })
    };
    let objects: Vec<Value> = tokens.iter().filter(|token| token.is_active(env.now)).map(entry).collect();
    Ok(Response::ok(&json!({"objects": objects, "total": objects.len(), "urls": {}})))
}

/// Revokes the first of the user's tokens that `is_meant`; 404 if there is none.
fn revoke(env: &Env, user: &User, is_meant: impl Fn(&PersonalToken) -> bool) -> Result<Response, Error> {
    let tokens = token::of_user(env, user.id)?;
    let found = tokens.iter().find(|token| is_meant(token));
    let not_found = || Error::pair(StatusCode::NOT_FOUND, "404 Token Not Found", "token not found");
    token::revoke(env, &found.ok_or_else(not_found)?.fingerprint)?;
    Ok(Response::ok(&json!({"ok": true})))
}
