//! Settings in requests and responses.
//!
//! The declared types of settings. A form contains only text. A setting is stored as the type that the reference
//! service declares.

use directory::access::Role;
use directory::protection::{self, Rule};
use directory::service_url;
use directory::setting::{ANALYTICS_LEVEL, ANALYTICS_TOKEN_LEVEL, Settings, TOKEN_LIFETIME, is_secret};
use kit::Error;
use kit::params::{Params, Validation};
use serde_json::{Map, Value, json};

/// Setting names of the reference service, each with the stored name.
const ALIASES: [(&str, &str); 2] =
    [("cube_api_base_url", "analytics_api_base_url"), ("cube_api_key", "analytics_api_key")];

/// The setting with the key for signing requests to analytics engines.
pub const ANALYTICS_KEY: &str = "analytics_api_key";

/// The error text for an invalid base URL of an analytics engine.
pub const INVALID_ENGINE_URL: &str = "analytics_api_base_url is not an http or https URL";

/// The shortest key for HS256, in bytes (RFC 7518, section 3.2).
const MIN_KEY: usize = 32;

/// The longest lifetime of new tokens, in days.
const MAX_TOKEN_LIFETIME: u64 = 36_500;

/// The longest name of a setting, in bytes. The longest name of the reference service has 65.
const MAX_NAME: usize = 100;

/// The validated changes of a request, with their declared types; `null` restores the default. Unknown settings are
/// kept unchanged.
pub fn parse_changes(fields: Map<String, Value>) -> Result<Map<String, Value>, Error> {
    let mut changes = with_stored_names(fields);
    // Forms have no null, so an empty field means null.
    changes.values_mut().filter(|value| **value == "").for_each(|value| *value = Value::Null);
    let params = Params::from_json(&changes)?;
    let checks = Validation::new(&params);
    if changes.is_empty() {
        checks.reject("settings are missing, at least one parameter must be provided");
    }
    for name in changes.keys().filter(|name| !is_name(name)) {
        checks.reject(format!("{name} is invalid"));
    }
    checks.one_of("license", &["free", "premium", "ultimate"]);
    for (name, value) in &mut changes {
        if let Some(typed) = coerce(name, value, &checks) {
            *value = typed;
        }
    }
    let is_text = |name: &str| changes.get(name).is_none_or(|value| value.is_string() || value.is_null());
    for name in TEXTS {
        if !is_text(name) {
            checks.reject(format!("{name} is invalid"));
        }
    }
    if checks.text("analytics_api_base_url").is_some_and(|url| service_url::parse(url).is_none()) {
        checks.reject(INVALID_ENGINE_URL);
    }
    let is_role = |level: &Value| level.as_u64().and_then(Role::from_level).is_some_and(|role| role >= Role::Guest);
    let is_lifetime = |days: &Value| days.as_u64().is_some_and(|days| days <= MAX_TOKEN_LIFETIME);
    let is_unusable = |name: &str, is_usable: &dyn Fn(&Value) -> bool| {
        changes.get(name).is_some_and(|value| value.is_number() && !is_usable(value))
    };
    for name in [ANALYTICS_LEVEL, ANALYTICS_TOKEN_LEVEL].into_iter().filter(|name| is_unusable(name, &is_role)) {
        checks.reject(format!("{name} is not the access level of a role, from 10 to 50"));
    }
    if is_unusable(TOKEN_LIFETIME, &is_lifetime) {
        checks.reject(format!("{TOKEN_LIFETIME} is not a number of days from 0 to {MAX_TOKEN_LIFETIME}"));
    }
    // Unreadable rules would make every publish fail.
    if let Some(rules) = changes.get(protection::SETTING).filter(|rules| !rules.is_null()) {
        let problem = match protection::parse_rules(Some(rules)) {
            Ok(rules) => rules.iter().find_map(Rule::problem),
            Err(why) => Some(why.to_string()),
        };
        if let Some(why) = problem {
            checks.reject(format!("{} is invalid: {why}", protection::SETTING));
        }
    }
    checks.finish()?;
    Ok(changes)
}

/// The same fields, each under the stored name of its setting.
pub fn with_stored_names(fields: Map<String, Value>) -> Map<String, Value> {
    let stored_name = |name: String| {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        alias.map_or(name, |(_, stored)| (*stored).to_owned())
    };
    fields.into_iter().map(|(name, value)| (stored_name(name), value)).collect()
}

/// Warnings for the operator about valid changes.
pub fn warnings(changes: &Map<String, Value>) -> Vec<String> {
    let key = changes.get(ANALYTICS_KEY).and_then(Value::as_str);
    key.and_then(|key| key_warning(ANALYTICS_KEY, key)).into_iter().collect()
}

/// A warning about a signing key that is short enough to guess.
pub fn key_warning(name: &str, key: &str) -> Option<String> {
    let text = || {
        format!(
            "{name} is shorter than {MIN_KEY} bytes, the least for HS256: a client that sees a token signed with it \
             (include_token) can find a short key by trying. Use a random key of at least {MIN_KEY} bytes"
        )
    };
    (!key.is_empty() && key.len() < MIN_KEY).then(text)
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The settings in a response, with their declared types. Settings with a default are always present, secret ones
/// never.
pub fn to_json(settings: &Settings) -> Value {
    let mut json = json!({
        "license": settings.license().as_str(),
        "hosted": settings.hosted(),
        "operator_group": settings.operator_group(),
        "analytics_api_base_url": settings.text("analytics_api_base_url"),
        "product_analytics_enabled": settings.flag("product_analytics_enabled", true),
        ANALYTICS_LEVEL: settings.least_role(ANALYTICS_LEVEL).map(Role::level),
        ANALYTICS_TOKEN_LEVEL: settings.least_role(ANALYTICS_TOKEN_LEVEL).map(Role::level),
        TOKEN_LIFETIME: settings.token_lifetime(),
    });
    if let Value::Object(fields) = &mut json {
        for (name, value) in settings.all() {
            if !is_secret(name) && !fields.contains_key(name) {
                fields.insert(name.clone(), coerce_stored(name, value));
            }
        }
        for (alias, stored) in ALIASES {
            if let Some(value) = fields.get(stored).cloned() {
                fields.insert(alias.to_owned(), value);
            }
        }
    }
    json
}

/// The type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingType {
    Boolean,
    Integer,
    /// A list of texts, or one text. A text with commas is several elements.
    List,
    /// The same for numbers.
    NumberList,
}

/// The settings of the reference service that are not text: each name with its declared type, sorted.
const TYPES: &str = include_str!("settings/types.txt");

/// The declared type of a setting. `None` for a text and for an unknown name.
pub fn declared(name: &str) -> Option<SettingType> {
    let mut types = TYPES.lines().filter_map(|line| line.split_once(' '));
    match types.find(|(known, _)| *known == name)?.1 {
        "boolean" => Some(SettingType::Boolean),
        "integer" => Some(SettingType::Integer),
        "list" => Some(SettingType::List),
        "number-list" => Some(SettingType::NumberList),
        _ => None,
    }
}

/// The value of a form field. Without a declared type, `true` and `false` become booleans. A text that does not fit the
/// declared type is unchanged, and [`coerce`] refuses it.
pub fn from_text(name: &str, text: &str) -> Value {
    match (declared(name), text) {
        (None, "true") if !is_text(name) => Value::Bool(true),
        (None, "false") if !is_text(name) => Value::Bool(false),
        _ => text.into(),
    }
}

/// The settings of this service with text values.
pub const TEXTS: [&str; 4] = ["license", "operator_group", "analytics_api_base_url", "analytics_api_key"];

fn is_text(name: &str) -> bool {
    TEXTS.contains(&name)
}

/// Converts `value` to the declared type of the setting. If it does not fit the type, `checks` gets an error. `checks`
/// must be about the same settings.
pub fn coerce(name: &str, value: &Value, checks: &Validation) -> Option<Value> {
    let coerced = match (declared(name)?, value) {
        (_, Value::Null) | (SettingType::Boolean, Value::Bool(_)) => return None,
        (SettingType::Boolean, Value::String(_) | Value::Number(_)) => checks.boolean(name).map(Value::from),
        (SettingType::Integer, Value::String(_) | Value::Number(_)) => checks.integer(name).map(Value::from),
        (SettingType::List, _) => coerce_list(value, false),
        (SettingType::NumberList, _) => coerce_list(value, true),
        _ => None,
    };
    if coerced.is_none() {
        checks.reject(format!("{name} is invalid"));
    }
    coerced
}

/// Converts a stored value to its declared type for a response, because early builds stored form fields as text. A
/// value that does not fit the type is unchanged.
pub fn coerce_stored(name: &str, value: &Value) -> Value {
    let fields = Map::from_iter([(name.to_owned(), value.clone())]);
    let typed = Params::from_json(&fields).ok().and_then(|params| coerce(name, value, &Validation::new(&params)));
    typed.unwrap_or_else(|| value.clone())
}

/// The elements of a list without empty ones. In a form, `name[]=` is the empty list.
fn coerce_list(value: &Value, has_numbers: bool) -> Option<Value> {
    let number = |text: &str| text.parse().ok().map(|number: i64| number.into());
    let elements = |text: &str| -> Option<Vec<Value>> {
        let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        texts.map(|text| if has_numbers { number(text) } else { Some(text.into()) }).collect()
    };
    let values = match value {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    };
    let lists: Option<Vec<Vec<Value>>> = values
        .iter()
        .map(|value| match value {
            Value::String(text) => elements(text),
            Value::Number(number) if has_numbers && number.is_i64() => Some(vec![value.clone()]),
            _ => None,
        })
        .collect();
    lists.map(|lists| lists.concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use directory::setting;
    use kit::testing::{MemoryStore, env};

    fn check(fields: Value) -> Result<Value, Value> {
        parse_changes(fields.as_object().unwrap().clone()).map(Value::Object).map_err(|error| error.to_json())
    }

    #[test]
    fn known_settings_are_checked_and_others_are_kept() {
        assert_eq!(
            check(json!({"license": "free", "hosted": "0", "signup_enabled": false, "cube_api_key": "k"})),
            Ok(json!({"license": "free", "hosted": false, "signup_enabled": false, "analytics_api_key": "k"}))
        );
        assert_eq!(check(json!({"license": "", "hosted": null})), Ok(json!({"license": null, "hosted": null})));
        assert_eq!(
            check(
                json!({"license": "gold", "hosted": "maybe", "operator_group": 5, "analytics_api_base_url": "ftp://x", "A b": 1})
            ),
            Err(
                json!({"error": "A b is invalid, license does not have a valid value, hosted is invalid, operator_group is invalid, analytics_api_base_url is not an http or https URL"})
            )
        );
        assert_eq!(check(json!({"license": ["free"]})), Err(json!({"error": "license is invalid"})));
        assert_eq!(check(json!({"domain_allowlist": [""]})), Ok(json!({"domain_allowlist": []})));
        let expected = Err(json!({"error": "settings are missing, at least one parameter must be provided"}));
        assert_eq!(check(json!({})), expected);
    }

    #[test]
    fn levels_and_lifetimes_have_bounds() {
        let levels = [ANALYTICS_LEVEL, ANALYTICS_TOKEN_LEVEL];
        for name in levels {
            for level in [json!(10), json!(50)] {
                assert_eq!(check(json!({name: level})), Ok(json!({name: level})));
            }
            assert_eq!(check(json!({name: "20"})), Ok(json!({name: 20})), "as a form has it");
            assert_eq!(check(json!({name: ""})), Ok(json!({name: null})));
            for level in [0, 5, 25, 60, -10] {
                let error = format!("{name} is not the access level of a role, from 10 to 50");
                assert_eq!(check(json!({name: level})), Err(json!({"error": error})));
            }
            for level in [json!("reporter"), json!([20]), json!(true), json!({"a": 1})] {
                assert_eq!(check(json!({name: level})), Err(json!({"error": format!("{name} is invalid")})));
            }
        }
        for days in [0, 1, 365, 36_500] {
            assert_eq!(check(json!({TOKEN_LIFETIME: days})), Ok(json!({TOKEN_LIFETIME: days})));
        }
        for days in [-1, 36_501] {
            let error = format!("{TOKEN_LIFETIME} is not a number of days from 0 to 36500");
            assert_eq!(check(json!({TOKEN_LIFETIME: days})), Err(json!({"error": error})));
        }
        let env = env(MemoryStore::default(), &[]);
        let shown = to_json(&setting::read(&env).unwrap());
        assert_eq!(levels.map(|name| shown[name].clone()), [Value::Null, Value::Null]);
        assert_eq!(shown[TOKEN_LIFETIME], 365);
    }

    #[test]
    fn settings_that_early_builds_stored_as_text_are_shown_as_their_types() {
        let env = env(MemoryStore::default(), &[]);
        let stored = json!({
            "signup_enabled": "false", "max_attachment_size": "10", "domain_allowlist": "a.test, b.test",
            "elasticsearch_project_ids": "5,6", "home_page_url": "10", "color": "true", "users_api_limit_followers": 7,
            "max_pages_size": "ten", "gravatar_enabled": "", "domain_denylist": {"a": [1]}, "x_api_key": "hush",
        });
        let settings = setting::save(&env, stored.as_object().unwrap()).unwrap();
        let shown = json!({
            "signup_enabled": false, "max_attachment_size": 10, "domain_allowlist": ["a.test", "b.test"],
            "elasticsearch_project_ids": [5, 6], "home_page_url": "10", "color": "true", "users_api_limit_followers": 7,
            "max_pages_size": "ten", "gravatar_enabled": "", "domain_denylist": {"a": [1]},
        });
        let json = to_json(&settings);
        for (name, value) in shown.as_object().unwrap() {
            assert_eq!(json[name], *value, "{name}");
        }
        assert!(json.get("x_api_key").is_none());
        assert_eq!(setting::read(&env).unwrap().all()["signup_enabled"], "false", "the stored bytes stay");
    }

    #[test]
    fn a_short_signing_key_is_warned_about() {
        let warned = |key: &str| !warnings(json!({"analytics_api_key": key}).as_object().unwrap()).is_empty();
        assert!(warned("k") && warned(&"k".repeat(31)));
        assert!(!warned(&"k".repeat(32)) && !warned(""));
        assert_eq!(warnings(json!({"analytics_api_key": null, "license": "free"}).as_object().unwrap()), [""; 0]);
    }

    #[test]
    fn protection_rules_must_be_readable() {
        let rules = json!({"package_protection_rules": [{"package_name_pattern": "@acme/*", "minimum_access_level_for_push": "owner"}]});
        assert_eq!(check(rules.clone()), Ok(rules));
        assert!(check(json!({"package_protection_rules": null})).is_ok());
        for (rules, why) in [
            (json!("x"), "invalid type: string \"x\", expected a sequence"),
            (json!([{}]), "missing field `package_name_pattern`"),
            (
                json!([{"package_name_pattern": "*", "minimum_access_level_for_push": null}]),
                "a rule requires no access level",
            ),
            (
                json!([{"package_name_pattern": "*", "minimum_access_level_for_push": "owner", "typo": 1}]),
                "a rule has the unknown field `typo`",
            ),
            (
                json!([{"package_name_pattern": "", "minimum_access_level_for_push": "owner"}]),
                "a rule has an empty package_name_pattern",
            ),
            (
                json!([{"package_name_pattern": "*", "minimum_access_level_for_push": "everybody"}]),
                "unknown variant `everybody`, expected one of `maintainer`, `owner`, `admin`",
            ),
        ] {
            let text = format!("package_protection_rules is invalid: {why}");
            assert_eq!(check(json!({"package_protection_rules": rules})), Err(json!({"error": text})));
        }
    }
}

#[cfg(test)]
mod setting_types_tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_sorted_and_have_one_type() {
        let names: Vec<&str> = TYPES.lines().filter_map(|line| Some(line.split_once(' ')?.0)).collect();
        assert!(names.is_sorted_by(|a, b| a < b));
        assert!(names.iter().all(|name| declared(name).is_some()));
    }

    #[test]
    fn the_declared_type_decides() {
        let typed = |name: &str, value: Value| {
            let params = Params::from_json(json!({name: value}).as_object().unwrap()).unwrap();
            let checks = Validation::new(&params);
            let coerced = coerce(name, &value, &checks).unwrap_or(value);
            checks.finish().map(|()| coerced).map_err(|error| error.to_json()["error"].clone())
        };
        assert_eq!(typed("signup_enabled", json!("false")), Ok(json!(false)));
        assert_eq!(typed("signup_enabled", json!("1")), Ok(json!(true)));
        assert_eq!(typed("signup_enabled", json!(0)), Ok(json!(false)));
        assert_eq!(typed("signup_enabled", json!("maybe")), Err(json!("signup_enabled is invalid")));
        assert_eq!(typed("signup_enabled", json!([true])), Err(json!("signup_enabled is invalid")));
        assert_eq!(typed("max_attachment_size", json!("10")), Ok(json!(10)));
        for name in ["throttle_authenticated_git_lfs_period_in_seconds", "users_api_limit_followers", "seat_control"] {
            assert_eq!(typed(name, json!("10")), Ok(json!(10)), "{name}");
        }
        assert_eq!(typed("throttle_authenticated_files_api_enabled", json!("1")), Ok(json!(true)));
        assert_eq!(typed("max_attachment_size", json!("ten")), Err(json!("max_attachment_size is invalid")));
        assert_eq!(typed("domain_allowlist", json!("a.test, b.test")), Ok(json!(["a.test", "b.test"])));
        let texts = json!(["a.test, b.test", "", " c.test ", ","]);
        assert_eq!(typed("domain_allowlist", texts), Ok(json!(["a.test", "b.test", "c.test"])));
        for none in [json!([]), json!([""]), json!(",")] {
            assert_eq!(typed("domain_allowlist", none), Ok(json!([])));
        }
        for wrong in [
            json!([5]),
            json!(["a.test", {"a": 1}]),
            json!([null]),
            json!([["a.test"]]),
            json!({"a": 1}),
            json!(5),
            json!(true),
        ] {
            assert_eq!(typed("domain_allowlist", wrong), Err(json!("domain_allowlist is invalid")));
        }
        assert_eq!(typed("elasticsearch_project_ids", json!([5, "6, 7", ""])), Ok(json!([5, 6, 7])));
        assert_eq!(typed("elasticsearch_project_ids", json!("5,6")), Ok(json!([5, 6])));
        for wrong in [json!(["x"]), json!([1.5]), json!([true]), json!("5,x")] {
            let refused = Err(json!("elasticsearch_project_ids is invalid"));
            assert_eq!(typed("elasticsearch_project_ids", wrong), refused);
        }
        assert_eq!(typed("home_page_url", json!("10")), Ok(json!("10")), "text stays text");
    }

    #[test]
    fn a_form_says_true_and_false() {
        assert_eq!(from_text("another_switch", "false"), json!(false));
        assert_eq!(from_text("operator_group", "true"), json!("true"));
        assert_eq!(from_text("another_number", "10"), json!("10"));
        assert_eq!(from_text("signup_enabled", "maybe"), json!("maybe"));
    }
}
