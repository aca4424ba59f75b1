//! The declared types of settings. A form has text only, and a setting is stored as the type that the
//! reference service declares for it.

mod names;

use kit::params::{Params, Validation};
use names::{BOOLEANS, INTEGERS, LISTS, NUMBER_LISTS};
use serde_json::{Map, Value};

/// The type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingType {
    Boolean,
    Integer,
    /// Texts, each of which may be several, separated by commas; or one such text.
    List,
    /// The same of numbers.
    NumberList,
}

/// The declared type of a setting; `None` for text, and for a name that is not known.
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

/// The value of a field of a form. Where no type is declared, `true` and `false` are booleans; a text
/// that is not of the declared type stays, for [`coerce`] to refuse.
pub fn from_text(name: &str, text: &str) -> Value {
    match (declared(name), text) {
        (None, "true") if !is_text(name) => Value::Bool(true),
        (None, "false") if !is_text(name) => Value::Bool(false),
        _ => text.into(),
    }
}

/// The settings of this service that are text.
pub const TEXTS: [&str; 4] = ["license", "operator_group", "analytics_api_base_url", "analytics_api_key"];

fn is_text(name: &str) -> bool {
    TEXTS.contains(&name)
}

/// `value` as the declared type of the setting; `checks` gets an error if it is not of that type.
/// `checks` is over the same settings.
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

/// A stored value as its declared type, for an answer: early builds stored the fields of forms as text. A value that is
/// not of that type stays as it is.
pub fn coerce_stored(name: &str, value: &Value) -> Value {
    let fields = Map::from_iter([(name.to_owned(), value.clone())]);
    let typed = Params::from_json(&fields).ok().and_then(|params| coerce(name, value, &Validation::new(&params)));
    typed.unwrap_or_else(|| value.clone())
}

/// The elements of a list, without empty ones: of a form, `name[]=` is the list without elements.
fn coerce_list(value: &Value, is_of_numbers: bool) -> Option<Value> {
    let number = |text: &str| text.parse().ok().map(|number: i64| number.into());
    let elements = |text: &str| -> Option<Vec<Value>> {
        let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        texts.map(|text| if is_of_numbers { number(text) } else { Some(text.into()) }).collect()
    };
    let values = match value {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    };
    let lists: Option<Vec<Vec<Value>>> = values
        .iter()
        .map(|value| match value {
            Value::String(text) => elements(text),
            Value::Number(number) if is_of_numbers && number.is_i64() => Some(vec![value.clone()]),
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
