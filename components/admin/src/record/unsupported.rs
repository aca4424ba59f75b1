//! Restrictions of the reference service that records may have and this server does not support.

use serde_json::Value;

/// A warning about those restrictions that have a value.
pub fn warning(restrictions: &[(&str, &Option<Value>)]) -> Option<String> {
    let is_empty = |value: &Value| match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        value => value.is_null() || *value == false,
    };
    let given = restrictions.iter().filter(|(_, value)| value.as_ref().is_some_and(|value| !is_empty(value)));
    let names: Vec<&str> = given.map(|(name, _)| *name).collect();
    (!names.is_empty())
        .then(|| format!("not supported by this server, which does not restrict by it: {}", names.join(", ")))
}
