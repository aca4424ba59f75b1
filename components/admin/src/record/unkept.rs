//! Restrictions of the reference service that records may have, and that do not hold here.

use serde_json::Value;

/// A warning that restrictions of the reference service are not kept, of which each has a value.
pub fn unkept(restrictions: &[(&str, &Option<Value>)]) -> Option<String> {
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
