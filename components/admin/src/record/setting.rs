//! Settings.

use crate::line_error::{InvalidLine, LineError};
use crate::settings;
use directory::setting;
use kit::Env;
use serde_json::{Map, Value};

/// A warning for the operator about these settings.
pub fn warning(fields: &Map<String, Value>) -> Option<String> {
    let named = match (fields.get("name"), fields.get("value")) {
        (Some(Value::String(name)), Some(value)) => Map::from_iter([(name.clone(), value.clone())]),
        _ => fields.clone(),
    };
    settings::warnings(&settings::with_stored_names(named)).pop()
}

/// Applies one setting as `name` and `value`, or several settings as the fields of one object. The value `null`
/// restores the default.
pub fn apply(env: &Env, mut fields: Map<String, Value>, deleted: bool) -> Result<(), LineError> {
    fields.retain(|name, _| name != "kind" && name != "deleted");
    let (name, value) = (fields.remove("name"), fields.remove("value"));
    if deleted || name.is_some() || value.is_some() {
        let name = match name {
            Some(Value::String(name)) => name,
            Some(_) => return Err(InvalidLine::Fields("name is not a text").into()),
            None => return Err(InvalidLine::Fields("name is missing").into()),
        };
        let value = match value {
            _ if deleted => Value::Null,
            Some(value) => value,
            None => return Err(InvalidLine::Fields("value is missing").into()),
        };
        if !fields.is_empty() {
            return Err(InvalidLine::Fields("there are other fields beside name and value").into());
        }
        fields = Map::from_iter([(name, value)]);
    }
    let changes = settings::parse_changes(fields).map_err(InvalidLine::Settings)?;
    setting::save(env, &changes)?;
    Ok(())
}
