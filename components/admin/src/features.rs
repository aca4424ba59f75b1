//! Feature flags in requests and responses.

use directory::feature::{Actor, FeatureGates};
use kit::Error;
use kit::params::{Params, Validation};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The longest name of a feature, in bytes.
const MAX_NAME: usize = 255;

/// The parameters that can restrict a change.
const TARGETS: [&str; 5] = ["user", "group", "namespace", "project", "feature_group"];

/// A requested change of a feature.
#[derive(Debug, PartialEq)]
pub struct FeatureChange {
    pub value: GateValue,
    /// The actors that the change is restricted to. Without actors and groups, it is unrestricted.
    pub targets: Vec<Target>,
    pub groups: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateValue {
    On,
    Off,
    PercentageOfTime(u8),
    PercentageOfActors(u8),
}

/// An actor by its name in the request, not looked up yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    User(String),
    Group(String),
    Project(String),
}

/// Parses a change.
///
/// `value` is `true`, `false` or a percentage. `key` says whether a percentage is of the time (the default) or of the
/// actors. `user`, `group`, `namespace`, `project` and `feature_group` restrict `true` or `false`. Each is a list
/// separated by commas. An empty list is refused, because the change was not meant for all. So is the parameter
/// `repository` of the reference service.
pub fn parse_change(name: &str, fields: &Map<String, Value>) -> Result<FeatureChange, Error> {
    let params = Params::from_json(fields)?;
    let checks = Validation::new(&params);
    if !is_name(name) {
        checks.reject("name is invalid");
    }
    let key = checks.one_of("key", &["percentage_of_actors", "percentage_of_time"]);
    let value = checks.required("value").and_then(|text| {
        let value = parse_value(text.trim(), key == Some("percentage_of_actors"));
        if value.is_none() {
            checks.reject("value is invalid");
        }
        value
    });
    let list = |name: &str| checks.list(name).unwrap_or_default().into_iter().map(str::to_owned);
    let targets: Vec<Target> = list("user")
        .map(Target::User)
        .chain(list("group").map(Target::Group))
        .chain(list("namespace").map(Target::Group))
        .chain(list("project").map(Target::Project))
        .collect();
    let groups: Vec<String> = list("feature_group").collect();
    for name in TARGETS.iter().filter(|name| fields.contains_key(**name) && list(name).next().is_none()) {
        checks.reject(format!("{name} is empty"));
    }
    if fields.contains_key("repository") {
        checks.reject("repository is not supported by this server");
    }
    let restricted = !(targets.is_empty() && groups.is_empty());
    if restricted && (key.is_some() || matches!(value, Some(GateValue::PercentageOfTime(_)))) {
        checks.reject("a percentage and feature_group, user, group, namespace, project are mutually exclusive");
    }
    checks.finish()?;
    // If `value` is missing, `finish` has returned an error.
    Ok(FeatureChange { value: value.unwrap_or(GateValue::Off), targets, groups })
}

pub fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/'))
}

fn parse_value(text: &str, of_actors: bool) -> Option<GateValue> {
    match text {
        "true" => return Some(GateValue::On),
        "false" => return Some(GateValue::Off),
        _ => {}
    }
    let percentage = text.parse().ok().filter(|percentage| *percentage <= 100)?;
    Some(if of_actors { GateValue::PercentageOfActors(percentage) } else { GateValue::PercentageOfTime(percentage) })
}

/// Applies a change after its targets were found.
pub fn apply(gates: &mut FeatureGates, value: GateValue, actors: &[Actor], groups: &[String]) {
    let is_unrestricted = actors.is_empty() && groups.is_empty();
    match value {
        GateValue::On if is_unrestricted => gates.boolean = true,
        GateValue::On => {
            gates.actors.extend(actors.iter().map(Actor::to_string));
            gates.groups.extend(groups.iter().cloned());
        }
        // An unrestricted `false` closes every gate.
        GateValue::Off if is_unrestricted => *gates = FeatureGates::default(),
        GateValue::Off => {
            gates.actors.retain(|kept| !actors.iter().any(|actor| actor.to_string() == *kept));
            gates.groups.retain(|kept| !groups.contains(kept));
        }
        GateValue::PercentageOfTime(percentage) => gates.percentage_of_time = percentage,
        GateValue::PercentageOfActors(percentage) => gates.percentage_of_actors = percentage,
    }
}

/// The JSON of a feature.
pub fn to_json(name: &str, gates: &FeatureGates) -> Value {
    json!({"name": name, "state": gates.state().as_str(), "gates": gates.to_json(), "definition": null})
}

/// Parses gates in the form of [`to_json`]. `None` if a gate is unknown.
pub fn parse_gates(list: &[Value]) -> Option<FeatureGates> {
    let mut gates = FeatureGates::default();
    for gate in list {
        let value = gate.get("value")?;
        let percentage = || value.as_u64().and_then(|n| u8::try_from(n).ok()).filter(|n| *n <= 100);
        let names = || -> Option<BTreeSet<String>> {
            value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
        };
        match gate.get("key")?.as_str()? {
            "boolean" => gates.boolean = value.as_bool()?,
            "actors" => gates.actors = names()?,
            "percentage_of_actors" => gates.percentage_of_actors = percentage()?,
            "percentage_of_time" => gates.percentage_of_time = percentage()?,
            "groups" => gates.groups = names()?,
            _ => return None,
        }
    }
    Some(gates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: Value) -> Result<FeatureChange, Value> {
        parse_change("f", fields.as_object().unwrap()).map_err(|error| error.to_json())
    }

    #[test]
    fn values() {
        let value = |fields| read(fields).map(|change| change.value);
        assert_eq!(value(json!({"value": true})), Ok(GateValue::On));
        assert_eq!(value(json!({"value": "false"})), Ok(GateValue::Off));
        assert_eq!(value(json!({"value": 30})), Ok(GateValue::PercentageOfTime(30)));
        assert_eq!(value(json!({"value": "30", "key": "percentage_of_actors"})), Ok(GateValue::PercentageOfActors(30)));
        for wrong in [json!("yes"), json!(101), json!(-1), json!(1.5)] {
            assert_eq!(read(json!({"value": wrong})), Err(json!({"error": "value is invalid"})));
        }
        let expected = Err(json!({"error": "key does not have a valid value, value is missing"}));
        assert_eq!(read(json!({"key": "x"})), expected);
        let error = json!({"error": "key is invalid, value is invalid"});
        assert_eq!(read(json!({"key": ["percentage_of_time"], "value": [true]})), Err(error));
        assert!(parse_change("a b", &Map::new()).is_err());
    }

    #[test]
    fn targets() {
        let change = read(json!({"value": true, "user": "a, b", "project": "p/q", "feature_group": "staff"})).unwrap();
        let user = |name: &str| Target::User(name.into());
        assert_eq!(change.targets, [user("a"), user("b"), Target::Project("p/q".into())]);
        assert_eq!(change.groups, ["staff"]);
        assert!(read(json!({"value": 30, "user": "a"})).is_err());
        assert!(read(json!({"value": true, "key": "percentage_of_actors", "user": "a"})).is_err());
        for empty in [json!(""), json!(" , "), json!([]), Value::Null] {
            let refused = Err(json!({"error": "user is empty"}));
            assert_eq!(read(json!({"value": true, "user": empty, "project": "p/q"})), refused);
        }
        let refused = Err(json!({"error": "user is invalid, user is empty"}));
        assert_eq!(read(json!({"value": true, "user": [["a"]], "project": "p/q"})), refused);
        let refused = Err(json!({"error": "repository is not supported by this server"}));
        assert_eq!(read(json!({"value": true, "repository": "p/q.git"})), refused);
    }

    #[test]
    fn changes_are_rendered_and_the_rendered_gates_can_be_imported() {
        let mut gates = FeatureGates::default();
        let staff = ["staff".to_owned()];
        apply(&mut gates, GateValue::On, &[Actor::User(1), Actor::Project(2)], &staff);
        apply(&mut gates, GateValue::Off, &[Actor::Project(2)], &[]);
        apply(&mut gates, GateValue::PercentageOfActors(25), &[], &[]);
        apply(&mut gates, GateValue::PercentageOfTime(5), &[], &[]);
        let entity = to_json("f", &gates);
        let expected = json!({"name": "f", "state": "conditional", "definition": null, "gates": [
            {"key": "boolean", "value": false}, {"key": "actors", "value": ["User:1"]},
            {"key": "percentage_of_actors", "value": 25}, {"key": "percentage_of_time", "value": 5},
            {"key": "groups", "value": ["staff"]}]});
        assert_eq!(entity, expected);
        assert_eq!(parse_gates(entity["gates"].as_array().unwrap()), Some(gates.clone()));
        apply(&mut gates, GateValue::On, &[], &[]);
        assert_eq!(to_json("f", &gates)["state"], "on");
        apply(&mut gates, GateValue::Off, &[], &[]);
        assert_eq!(to_json("f", &gates)["gates"], json!([{"key": "boolean", "value": false}]));
    }
}
