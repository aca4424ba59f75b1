//! Settings.

use crate::line_error::{InvalidLine, LineError};
use crate::settings;
use directory::setting;
use kit::Env;
use serde_json::{Map, Value};

/// What the operator should know about these settings.
pub fn warning(fields: &Map<String, Value>) -> Option<String> {
    let named = match (fields.get("name"), fields.get("value")) {
        (Some(Value::String(name)), Some(value)) => Map::from_iter([(name.clone(), value.clone())]),
        _ => fields.clone(),
    };
    settings::warnings(&settings::with_stored_names(named)).pop()
}

/// One setting as `name` and `value`, or several as the fields of one object.
pub fn apply(env: &Env, mut fields: Map<String, Value>, deleted: bool) -> Result<(), LineError> {
    fields.retain(|name, _| name != "kind" && name != "deleted");
    if let Some(Value::String(name)) = fields.get("name").cloned() {
        let value = fields.remove("value").filter(|_| !deleted).unwrap_or(Value::Null);
        fields = Map::from_iter([(name, value)]);
    } else if deleted {
        return Err(InvalidLine::Fields("name is missing").into());
    }
    let changes = settings::parse_changes(fields).map_err(InvalidLine::Settings)?;
    setting::save(env, &changes)?;
    Ok(())
}
