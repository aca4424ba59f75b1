//! The declared types of settings. A form contains only text. A setting is stored as the type that the reference
//! service declares.

mod names;

use kit::params::{Params, Validation};
use names::{BOOLEANS, INTEGERS, LISTS, NUMBER_LISTS};
use serde_json::{Map, Value};

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

/// The declared type of a setting. `None` for a text and for an unknown name.
pub fn declared(name: &str) -> Option<SettingType> {
    let is_in = |names: &[&str]| names.binary_search(&name).is_ok();
    if is_in(BOOLEANS) {
        Some(SettingType::Boolean)
    } else if is_in(INTEGERS) {
        Some(SettingType::Integer)
    } else if is_in(LISTS) {
        Some(SettingType::List)
    } else if is_in(NUMBER_LISTS) {
        Some(SettingType::NumberList)
    } else {
        None
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
    use serde_json::json;

    #[test]
    fn names_are_sorted_and_have_one_type() {
        let all = [BOOLEANS, INTEGERS, LISTS, NUMBER_LISTS];
        assert!(all.iter().all(|names| names.is_sorted_by(|a, b| a < b)));
        let mut names = all.concat();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
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
