//! The requests of npm about tokens: `npm token list`, `create` and `revoke`, and `npm logout`. They belong to this
//! area and not to the registry, because they change the directory.
//!
//! The token that `npm token create` requests. npm up to version 10 sends `password`, `readonly` and `cidr_whitelist`.
//! Later versions also send a name, an expiry and restrictions.

use crate::api::tokens::too_many_tokens;
use crate::route::NpmRoute;
use crate::{parameters, tokens};
use directory::caller::{self, AcceptedTokens, Caller};
use directory::token::{self, Fingerprint, NewPersonalToken, PersonalToken};
use directory::user::User;
use directory::{reauthorization, request_limits, setting};
use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Method, StatusCode};
use kit::params::{Params, Validation};
use kit::{Env, Error, Request, Response, Timestamp};
use serde_json::{Map, Value, json};

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
    let NpmToken { password, mut new } = parse_request(&parameters::read(request).await?, env.now)?;
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

/// The name of a token if the client sends no name.
const DEFAULT_NAME: &str = "npm token create";

/// Restrictions that tokens here cannot have. A token without them would allow more than the client requested.
const RESTRICTIONS: [&str; 4] = ["cidr_whitelist", "orgs", "packages", "scopes"];

/// A day in milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// A token that npm requests.
pub struct NpmToken {
    /// A personal token of the caller.
    pub password: String,
    pub new: NewPersonalToken,
}

/// The validated fields of the request. An unsupported restriction is refused by name.
pub fn parse_request(fields: &Map<String, Value>, now: Timestamp) -> Result<NpmToken, Error> {
    let params = Params::from_json(fields)?;
    let checks = Validation::new(&params);
    let password = checks.required("password").unwrap_or_default().to_owned();
    RESTRICTIONS.iter().for_each(|name| checks.unsupported(name, &["false"]));
    let permission = checks.one_of("packages_and_scopes_permission", &["no-access", "read-only", "read-write"]);
    if permission == Some("no-access") {
        checks.reject("packages_and_scopes_permission cannot be no-access");
    }
    let is_readonly = checks.boolean("readonly") == Some(true) || permission == Some("read-only");
    let days = checks.integer("expires");
    let expires_at = days.and_then(|days| days.checked_mul(DAY)?.checked_add(now.millis())).map(Timestamp::from_millis);
    if days.is_some() && expires_at.is_none_or(|end| end <= now) {
        checks.reject("expires must be a number of days from now");
    }
    tokens::check_texts(&checks);
    let name = checks.text("name").unwrap_or(DEFAULT_NAME).to_owned();
    let description = checks.text("description").unwrap_or_default().to_owned();
    checks.finish()?;
    let scopes = vec![if is_readonly { "read_api" } else { "api" }.to_owned()];
    Ok(NpmToken { password, new: NewPersonalToken { name, description, scopes, expires_at } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::testing::NOW;
    use serde_json::json;

    fn read(fields: Value) -> Result<NpmToken, Value> {
        parse_request(fields.as_object().unwrap(), NOW).map_err(|error| error.to_json())
    }

    fn scopes(fields: Value) -> Vec<String> {
        read(fields).unwrap().new.scopes
    }

    #[test]
    fn requests_of_npm_10_and_11_are_read() {
        assert_eq!(scopes(json!({"password": "p", "readonly": false, "cidr_whitelist": []})), ["api"]);
        assert_eq!(scopes(json!({"password": "p", "readonly": true, "cidr_whitelist": []})), ["read_api"]);
        let new = json!({"password": "p", "name": "ci", "description": "for ci", "packages_all": true, "expires": 7,
            "packages_and_scopes_permission": "read-only", "bypass_2fa": true});
        let NpmToken { password, new } = read(new).unwrap();
        assert_eq!(
            (&*password, &*new.name, &*new.description, new.scopes),
            ("p", "ci", "for ci", vec!["read_api".into()])
        );
        assert_eq!(new.expires_at, Some(Timestamp::from_millis(NOW.millis() + 7 * DAY)));
        assert_eq!(scopes(json!({"password": "p", "packages_and_scopes_permission": "read-write"})), ["api"]);
        assert_eq!(read(json!({"password": "p"})).unwrap().new.name, DEFAULT_NAME);
    }

    #[test]
    fn unsupported_and_invalid_fields_are_refused_by_name() {
        for (fields, error) in [
            (json!({}), "password is missing"),
            (json!({"cidr_whitelist": ["10.0.0.0/8"]}), "cidr_whitelist is not supported by this server"),
            (
                json!({"packages": ["a"], "orgs": "b"}),
                "orgs is not supported by this server, packages is not supported by this server",
            ),
            (json!({"scopes": ["@a"]}), "scopes is not supported by this server"),
            (
                json!({"packages_and_scopes_permission": "no-access"}),
                "packages_and_scopes_permission cannot be no-access",
            ),
            (json!({"name": "n".repeat(256)}), "name is too long (maximum is 255 characters)"),
            (json!({"description": "d".repeat(1_000_000)}), "description is too long (maximum is 255 characters)"),
            (json!({"name": ["n"], "readonly": [true]}), "readonly is invalid, name is invalid"),
            (json!({"name": "\n"}), "name is invalid"),
            (json!({"expires": 0}), "expires must be a number of days from now"),
            (json!({"expires": i64::MAX}), "expires must be a number of days from now"),
            (json!({"expires": "soon"}), "expires is invalid"),
        ] {
            let mut fields = fields;
            if error != "password is missing" {
                fields["password"] = "p".into();
            }
            assert_eq!(read(fields).err(), Some(json!({ "error": error })));
        }
    }
}
