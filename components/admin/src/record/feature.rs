//! Feature flags.

use crate::line_error::{InvalidLine, LineError};
use crate::{features, settings};
use directory::feature::{self, Actor, FeatureGates};
use directory::{dependents, setting};
use kit::Env;
use kit::ndjson::ImportReport;
use kit::store::StoreError;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The actors for which lines of a batch switch features on, with the number of each line.
#[derive(Default)]
pub struct PendingGates(Vec<(u64, BTreeSet<Actor>)>);

impl PendingGates {
    /// Removes the deleted actors from all features, so that no feature is on for a later record with the id. Reads
    /// nothing without actors.
    pub fn close_for_deleted(self, env: &Env, report: &mut ImportReport) -> Result<(), StoreError> {
        let actors: BTreeSet<Actor> = self.0.iter().flat_map(|(_, actors)| actors).copied().collect();
        if actors.is_empty() {
            return Ok(());
        }
        let deleted = dependents::close_gates_of_deleted(env, actors.into_iter().map(|actor| (actor, None)))?;
        for (line, actors) in self.0 {
            for actor in actors.intersection(&deleted) {
                report.warn(line, format!("{} is deleted, and the feature is not on for it", actor.name()));
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
pub struct Feature {
    name: String,
    value: Option<bool>,
    gates: Option<Vec<Value>>,
}

impl Feature {
    pub fn apply(self, env: &Env, line: u64, deleted: bool, pending: &mut PendingGates) -> Result<(), LineError> {
        if !features::is_name(&self.name) {
            return Err(InvalidLine::Fields("name has characters that no feature's name has, or is too long").into());
        }
        if deleted {
            return Ok(feature::delete(env, &self.name)?);
        }
        let gates = match (&self.gates, self.value) {
            (Some(list), _) => {
                features::parse_gates(list).ok_or(InvalidLine::Fields("gates has a gate that is not known"))?
            }
            (None, Some(boolean)) => FeatureGates { boolean, ..FeatureGates::default() },
            (None, None) => return Err(InvalidLine::Fields("gates or value is missing").into()),
        };
        feature::save(env, &self.name, |current| *current = gates.clone())?;
        pending.0.push((line, gates.actors.iter().filter_map(|text| Actor::parse(text)).collect()));
        Ok(())
    }
}

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
