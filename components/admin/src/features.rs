//! Feature flags as clients set and see them.

use directory::feature::{Actor, FeatureGates};
use kit::Error;
use kit::params::{Params, Validation};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The longest name of a feature, in bytes.
const MAX_NAME: usize = 255;

/// What a request wants done to a feature.
#[derive(Debug, PartialEq)]
pub struct Change {
    pub value: Setting,
    /// Only for these; for everybody if there are none.
    pub targets: Vec<Target>,
    pub groups: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    On,
    Off,
    PercentageOfTime(u8),
    PercentageOfActors(u8),
}

/// Somebody or something by the name that the request has for it, still to be looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    User(String),
    Group(String),
    Project(String),
}

/// Reads a change. `value` is `true`, `false` or a percentage; `key` says of what (time, if it is
/// absent, or actors); `user`, `group`, `namespace`, `project` and `feature_group` restrict a
/// `true` or `false` to these, each a list separated by commas.
pub fn change(name: &str, fields: &Map<String, Value>) -> Result<Change, Error> {
    let params = Params::from_json(fields);
    let checks = Validation::new(&params);
    if !is_name(name) {
        checks.reject("name is invalid");
    }
    let key = checks.one_of("key", &["percentage_of_actors", "percentage_of_time"]);
    let value = checks.required("value").and_then(|text| {
        let value = setting(text.trim(), key == Some("percentage_of_actors"));
        if value.is_none() {
            checks.reject("value is invalid");
        }
        value
    });
    let list = |name: &str| params.list(name).unwrap_or_default().into_iter().map(str::to_owned);
    let targets: Vec<Target> = list("user")
        .map(Target::User)
        .chain(list("group").map(Target::Group))
        .chain(list("namespace").map(Target::Group))
        .chain(list("project").map(Target::Project))
        .collect();
    let groups: Vec<String> = list("feature_group").collect();
    let restricted = !(targets.is_empty() && groups.is_empty());
    if restricted && (key.is_some() || matches!(value, Some(Setting::PercentageOfTime(_)))) {
        checks.reject("a percentage and feature_group, user, group, namespace, project are mutually exclusive");
    }
    checks.finish()?;
    // Without faults there is a value.
    Ok(Change { value: value.unwrap_or(Setting::Off), targets, groups })
}

pub fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/'))
}

fn setting(text: &str, of_actors: bool) -> Option<Setting> {
    match text {
        "true" => return Some(Setting::On),
        "false" => return Some(Setting::Off),
        _ => {}
    }
    let percentage = text.parse().ok().filter(|percentage| *percentage <= 100)?;
    Some(if of_actors { Setting::PercentageOfActors(percentage) } else { Setting::PercentageOfTime(percentage) })
}

/// Applies a change whose targets were found.
pub fn apply(gates: &mut FeatureGates, value: Setting, actors: &[Actor], groups: &[String]) {
    let everybody = actors.is_empty() && groups.is_empty();
    match value {
        Setting::On if everybody => gates.boolean = true,
        Setting::On => {
            gates.actors.extend(actors.iter().map(Actor::to_string));
            gates.groups.extend(groups.iter().cloned());
        }
        // Switching off for everybody closes every gate.
        Setting::Off if everybody => *gates = FeatureGates::default(),
        Setting::Off => {
            gates.actors.retain(|kept| !actors.iter().any(|actor| actor.to_string() == *kept));
            gates.groups.retain(|kept| !groups.contains(kept));
        }
        Setting::PercentageOfTime(percentage) => gates.percentage_of_time = percentage,
        Setting::PercentageOfActors(percentage) => gates.percentage_of_actors = percentage,
    }
}

/// A feature as it is shown.
pub fn shown(name: &str, gates: &FeatureGates) -> Value {
    json!({"name": name, "state": gates.state().as_str(), "gates": gates.to_json(), "definition": null})
}

/// The gates that such a list of gates describes.
pub fn gates(list: &[Value]) -> Option<FeatureGates> {
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

    fn read(fields: Value) -> Result<Change, Value> {
        change("f", fields.as_object().unwrap()).map_err(|error| error.to_json())
    }

    #[test]
    fn values() {
        let value = |fields| read(fields).map(|change| change.value);
        assert_eq!(value(json!({"value": true})), Ok(Setting::On));
        assert_eq!(value(json!({"value": "false"})), Ok(Setting::Off));
        assert_eq!(value(json!({"value": 30})), Ok(Setting::PercentageOfTime(30)));
        assert_eq!(value(json!({"value": "30", "key": "percentage_of_actors"})), Ok(Setting::PercentageOfActors(30)));
        for wrong in [json!("yes"), json!(101), json!(-1), json!(1.5)] {
            assert_eq!(read(json!({"value": wrong})), Err(json!({"error": "value is invalid"})));
        }
        assert_eq!(
            read(json!({"key": "x"})),
            Err(json!({"error": "key does not have a valid value, value is missing"}))
        );
        assert!(change("a b", &Map::new()).is_err());
    }

    #[test]
    fn targets() {
        let change = read(json!({"value": true, "user": "a, b", "project": "p/q", "feature_group": "staff"})).unwrap();
        let user = |name: &str| Target::User(name.into());
        assert_eq!(change.targets, [user("a"), user("b"), Target::Project("p/q".into())]);
        assert_eq!(change.groups, ["staff"]);
        assert!(read(json!({"value": 30, "user": "a"})).is_err());
        assert!(read(json!({"value": true, "key": "percentage_of_actors", "user": "a"})).is_err());
    }

    #[test]
    fn changes_are_shown_and_what_is_shown_can_be_imported() {
        let mut gates = FeatureGates::default();
        let staff = ["staff".to_owned()];
        apply(&mut gates, Setting::On, &[Actor::User(1), Actor::Project(2)], &staff);
        apply(&mut gates, Setting::Off, &[Actor::Project(2)], &[]);
        apply(&mut gates, Setting::PercentageOfActors(25), &[], &[]);
        apply(&mut gates, Setting::PercentageOfTime(5), &[], &[]);
        let entity = shown("f", &gates);
        assert_eq!(
            entity,
            json!({"name": "f", "state": "conditional", "definition": null, "gates": [
                {"key": "boolean", "value": false}, {"key": "actors", "value": ["User:1"]},
                {"key": "percentage_of_actors", "value": 25}, {"key": "percentage_of_time", "value": 5},
                {"key": "groups", "value": ["staff"]}]})
        );
        assert_eq!(super::gates(entity["gates"].as_array().unwrap()), Some(gates.clone()));
        apply(&mut gates, Setting::On, &[], &[]);
        assert_eq!(shown("f", &gates)["state"], "on");
        apply(&mut gates, Setting::Off, &[], &[]);
        assert_eq!(shown("f", &gates)["gates"], json!([{"key": "boolean", "value": false}]));
    }
}
