//! The token that `npm token create` requests. npm up to version 10 sends `password`, `readonly` and `cidr_whitelist`.
//! Later versions also send a name, an expiry and restrictions.

use crate::tokens;
use directory::token::NewPersonalToken;
use kit::params::{Params, Validation};
use kit::{Error, Timestamp};
use serde_json::{Map, Value};

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
pub fn parse(fields: &Map<String, Value>, now: Timestamp) -> Result<NpmToken, Error> {
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
        parse(fields.as_object().unwrap(), NOW).map_err(|error| error.to_json())
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
        let expected = ("p", "ci", "for ci", vec!["read_api".into()]);
        assert_eq!((&*password, &*new.name, &*new.description, new.scopes), expected);
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
