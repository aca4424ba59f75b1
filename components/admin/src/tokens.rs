//! Personal tokens in requests and responses.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use directory::token::{NewPersonalToken, PERSONAL_SCOPES, PersonalToken};
use kit::id::Entropy;
use kit::params::{Params, Validation};
use kit::{Error, Timestamp};
use serde_json::{Map, Value, json};

/// The prefix of tokens. People and scanners for leaked secrets recognise it.
const PREFIX: &str = "glpat-";

/// Random bytes in a token: 160 bits.
const RANDOM_BYTES: usize = 20;

/// The longest name and description of a token, in characters. The reference service has the same limit for names.
const MAX_TEXT: usize = 255;

/// A day in milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// The user who gets a token.
#[derive(Debug, PartialEq, Eq)]
pub enum UserName {
    Id(u64),
    /// May consist of digits.
    Username(String),
}

/// A token that a request asks to create.
pub struct NewToken {
    pub user: UserName,
    pub new: NewPersonalToken,
}

/// Parses and validates the token that a request asks to create.
pub fn parse(fields: &Map<String, Value>, now: Timestamp) -> Result<NewToken, Error> {
    let params = Params::from_json(fields)?;
    let checks = Validation::new(&params);
    checks.exclusive(&["user_id", "username"]);
    let user_id = checks.integer("user_id").map(|id| UserName::Id(u64::try_from(id).unwrap_or(0)));
    let username = checks.text("username").map(|name| UserName::Username(name.to_owned()));
    let user = user_id.or(username);
    if !params.has("user_id") && (!params.has("username") || params.last("username") == Some("")) {
        checks.reject("user_id, username are missing, exactly one parameter must be provided");
    }
    let name = checks.required("name").unwrap_or_default();
    check_texts(&checks);
    let description = checks.text("description").unwrap_or_default().to_owned();
    let scopes: Vec<String> = checks.required_list("scopes").into_iter().map(str::to_owned).collect();
    if !scopes.iter().all(|scope| PERSONAL_SCOPES.contains(&scope.as_str())) {
        checks.reject("scopes does not have a valid value");
    }
    let expires_at = future_end(&checks, now);
    checks.finish()?;
    let new = NewPersonalToken { name: name.to_owned(), description, scopes, expires_at };
    Ok(NewToken { user: user.unwrap_or(UserName::Id(0)), new })
}

/// Rejects a long name or description, because a response has up to 100 tokens. Also rejects a name that people cannot
/// recognise in a list.
pub fn check_texts(checks: &Validation) {
    for name in ["name", "description"] {
        if checks.text(name).is_some_and(is_too_long) {
            checks.reject(format!("{name} is too long (maximum is {MAX_TEXT} characters)"));
        }
    }
    if checks.text("name").is_some_and(|name| name.trim().is_empty() || name.chars().any(char::is_control)) {
        checks.reject("name is invalid");
    }
}

/// Whether the name or description of a token is too long.
pub fn is_too_long(text: &str) -> bool {
    text.chars().count() > MAX_TEXT
}

/// A random text for a new token.
pub fn generate_secret(entropy: &dyn Entropy) -> String {
    let mut random = [0; RANDOM_BYTES];
    entropy.fill(&mut random);
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random))
}

/// The default expiry of a new token; 0 days mean no expiry.
pub fn default_end(lifetime: u64, now: Timestamp) -> Option<Timestamp> {
    let days = i64::try_from(lifetime).ok().filter(|days| *days > 0)?;
    Some(in_days(days, now))
}

/// The beginning of the day that is `days` days after today.
fn in_days(days: i64, now: Timestamp) -> Timestamp {
    Timestamp::from_millis(now.millis().div_euclid(DAY).saturating_add(days).saturating_mul(DAY))
}

/// The expiry of a rotated token: the parameter `expires_at`, or a week from today.
pub fn rotation_end(params: &Params, now: Timestamp) -> Result<Timestamp, Error> {
    let checks = Validation::new(params);
    let end = future_end(&checks, now);
    checks.finish()?;
    Ok(end.unwrap_or_else(|| in_days(7, now)))
}

fn future_end(checks: &Validation, now: Timestamp) -> Option<Timestamp> {
    let end = checks.strict_datetime("expires_at");
    if end.is_some_and(|end| end <= now) {
        checks.reject("expires_at must be in the future");
    }
    end
}

/// The JSON of a token for its owner.
pub fn to_json(token: &PersonalToken, now: Timestamp) -> Value {
    json!({
        "id": token.id.get(),
        "name": token.token.name,
        "revoked": token.token.revoked,
        "created_at": token.created_at.map(Timestamp::to_iso),
        "description": token.description,
        "scopes": token.token.scopes,
        "user_id": token.id.user_id,
        "last_used_at": token.last_used_at.map(Timestamp::to_iso),
        "active": token.is_active(now),
        "expires_at": token.token.expires_at.map(Timestamp::to_date),
    })
}

/// The JSON of a token with its text, for the response to its creation.
pub fn to_json_with_secret(token: &PersonalToken, secret: &str, now: Timestamp) -> Value {
    let mut json = to_json(token, now);
    if let Value::Object(fields) = &mut json {
        fields.insert("token".to_owned(), secret.into());
    }
    json
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
        let NewToken { user, new } = new.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((user, new.scopes.len()), (UserName::Id(2), 2));
        assert_eq!(new.expires_at.map(Timestamp::to_date).as_deref(), Some("2099-01-01"));
        for name in ["bob", "123"] {
            let named = read(json!({"username": name, "name": "n", "scopes": "api"}));
            assert_eq!(named.ok().map(|token| token.user), Some(UserName::Username(name.into())));
        }
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
            (
                json!({"user_id": 1, "name": "n", "description": "é".repeat(256), "scopes": "api"}),
                "description is too long (maximum is 255 characters)",
            ),
            (json!({"user_id": [1], "name": "n", "scopes": "api"}), "user_id is invalid"),
            (json!({"username": ["a"], "name": "n", "scopes": "api"}), "username is invalid"),
            (
                json!({"user_id": 1, "name": ["n"], "description": ["d"], "scopes": [["api"]], "expires_at": []}),
                "name is invalid, description is invalid, scopes is invalid, expires_at is invalid",
            ),
            (json!({"user_id": 1, "name": "n", "scopes": {"x": "api"}}), "scopes is invalid"),
            (json!({"user_id": 1, "name": "n", "scopes": []}), "scopes is missing"),
            (json!({"user_id": 1, "name": " ", "scopes": "api"}), "name is invalid"),
            (json!({"user_id": 1, "name": "a\u{1b}[2J", "scopes": "api"}), "name is invalid"),
        ] {
            assert_eq!(read(fields).err(), Some(json!({"error": error})));
        }
    }

    #[test]
    fn a_rotated_token_ends_in_a_week_or_when_the_client_says() {
        let end = |query: &str| rotation_end(&Params::parse(query), NOW).map(Timestamp::to_date);
        let week = Timestamp::from_millis(NOW.millis() + 7 * DAY).to_date();
        assert_eq!(end(""), Ok(week));
        assert_eq!(end("expires_at=2099-01-01"), Ok("2099-01-01".to_owned()));
        assert!(end("expires_at=2001-01-01").is_err() && end("expires_at=soon").is_err());
    }

    #[test]
    fn a_new_token_ends_after_its_default_lifetime() {
        let end = |days| default_end(days, NOW).map(Timestamp::to_date);
        let year = Timestamp::from_millis(NOW.millis() + 365 * DAY).to_date();
        assert_eq!((end(365), end(0)), (Some(year), None));
        assert!(end(u64::MAX).is_none() && end(36_500).is_some());
    }

    #[test]
    fn secrets_are_long_and_differ() {
        let entropy = CountingEntropy::default();
        let (one, two) = (generate_secret(&entropy), generate_secret(&entropy));
        assert!(one != two && one.starts_with(PREFIX) && one.len() >= PREFIX.len() + 20);
        assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')));
    }
}
