//! New personal tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use directory::token::{PERSONAL_SCOPES, Subject, Token};
use directory::user::User;
use kit::id::Entropy;
use kit::params::{Params, Validation};
use kit::{Error, Timestamp};
use serde_json::{Map, Value, json};

/// The prefix of tokens, by which people and scanners for leaked secrets recognise them.
const PREFIX: &str = "glpat-";

/// Random bytes in a token: 160 bits.
const RANDOM_BYTES: usize = 20;

/// The longest name of a token, in characters, as in the reference service.
const MAX_NAME: usize = 255;

/// A token that a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Id or username.
    pub user: String,
    pub name: String,
    pub scopes: Vec<String>,
    pub expires_at: Option<Timestamp>,
}

/// The token that a request asks for, validated.
pub fn parse(fields: &Map<String, Value>, now: Timestamp) -> Result<NewToken, Error> {
    let params = Params::from_json(fields);
    let checks = Validation::new(&params);
    checks.exclusive(&["user_id", "username"]);
    let user_id = checks.integer("user_id");
    let user = user_id.map(|id| id.to_string()).or_else(|| params.text("username").map(str::to_owned));
    if !params.has("user_id") && params.text("username").is_none() {
        checks.reject("user_id, username are missing, exactly one parameter must be provided");
    }
    let name = checks.required("name").unwrap_or_default();
    if name.chars().count() > MAX_NAME {
        checks.reject(format!("name is too long (maximum is {MAX_NAME} characters)"));
    }
    let scopes: Vec<String> = params.list("scopes").unwrap_or_default().into_iter().map(str::to_owned).collect();
    if scopes.is_empty() {
        checks.reject("scopes is missing");
    } else if !scopes.iter().all(|scope| PERSONAL_SCOPES.contains(&scope.as_str())) {
        checks.reject("scopes does not have a valid value");
    }
    let expires_at = checks.datetime("expires_at");
    if expires_at.is_some_and(|end| end <= now) {
        checks.reject("expires_at must be in the future");
    }
    checks.finish()?;
    Ok(NewToken { user: user.unwrap_or_default(), name: name.to_owned(), scopes, expires_at })
}

/// A new token's text.
pub fn generate_secret(entropy: &dyn Entropy) -> String {
    let mut random = [0; RANDOM_BYTES];
    entropy.fill(&mut random);
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random))
}

/// The token to store.
pub fn to_token(new: &NewToken, user: &User) -> Token {
    Token {
        subject: Subject::User(user.id),
        name: new.name.clone(),
        scopes: new.scopes.clone(),
        expires_at: new.expires_at,
        revoked: false,
    }
}

/// The only answer that contains the secret.
pub fn to_json(new: &NewToken, user: &User, secret: &str, now: Timestamp) -> Value {
    json!({
        "name": new.name,
        "revoked": false,
        "created_at": now.to_iso(),
        "scopes": new.scopes,
        "user_id": user.id,
        "active": true,
        "expires_at": new.expires_at.map(Timestamp::to_date),
        "token": secret,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::testing::{CountingEntropy, NOW};

    fn read(fields: Value) -> Result<NewToken, Value> {
        parse(fields.as_object().unwrap(), NOW).map_err(|error| error.to_json())
    }

    #[test]
    fn parses_a_request() {
        let new = read(json!({"user_id": 2, "name": "n", "scopes": ["api", "sudo"], "expires_at": "2099-01-01"}));
        let new = new.unwrap();
        assert_eq!((new.user.as_str(), new.scopes.len()), ("2", 2));
        assert_eq!(new.expires_at.map(Timestamp::to_date).as_deref(), Some("2099-01-01"));
        assert_eq!(read(json!({"username": "bob", "name": "n", "scopes": "api"})).unwrap().user, "bob");
    }

    #[test]
    fn reports_every_invalid_parameter() {
        for (fields, error) in [
            (
                json!({}),
                "user_id, username are missing, exactly one parameter must be provided, name is missing, scopes is missing",
            ),
            (
                json!({"user_id": 1, "username": "a", "name": "n", "scopes": "api"}),
                "user_id, username are mutually exclusive",
            ),
            (
                json!({"user_id": "x", "name": "n", "scopes": "api,root"}),
                "user_id is invalid, scopes does not have a valid value",
            ),
            (
                json!({"user_id": 1, "name": "n", "scopes": "api", "expires_at": "2001-01-01"}),
                "expires_at must be in the future",
            ),
            (json!({"user_id": 1, "name": "n", "scopes": "api", "expires_at": "soon"}), "expires_at is invalid"),
            (
                json!({"user_id": 1, "name": "n".repeat(256), "scopes": "api"}),
                "name is too long (maximum is 255 characters)",
            ),
        ] {
            assert_eq!(read(fields), Err(json!({"error": error})));
        }
    }

    #[test]
    fn secrets_are_long_and_differ() {
        let entropy = CountingEntropy::default();
        let (one, two) = (generate_secret(&entropy), generate_secret(&entropy));
        assert!(one != two && one.starts_with(PREFIX) && one.len() >= PREFIX.len() + 20);
        assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')));
    }
}
