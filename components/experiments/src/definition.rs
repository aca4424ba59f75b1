//! An experiment: its definition, and what it looks like with the gates of its feature.

use directory::feature::FeatureGates;
use serde::Serialize;
use serde_json::Value;

/// What a feature's name ends with that is an experiment's of the old kind.
const OLD_END: &str = "_experiment_percentage";

/// The only type that is listed.
pub const TYPE: &str = "experiment";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The feature's name.
    pub name: String,
    pub introduced_by_url: Option<String>,
    pub rollout_issue_url: Option<String>,
    /// A version, for example `16.2`.
    pub milestone: Option<String>,
    /// The team that owns it.
    pub group: Option<String>,
}

#[derive(Serialize)]
pub struct Entity<'a> {
    key: &'a str,
    definition: Defined<'a>,
    current_status: Status,
}

#[derive(Serialize)]
struct Defined<'a> {
    name: &'a str,
    introduced_by_url: Option<&'a str>,
    rollout_issue_url: Option<&'a str>,
    milestone: Option<&'a str>,
    #[serde(rename = "type")]
    kind: &'static str,
    group: Option<&'a str>,
    /// An experiment is for those whom a gate lets in, and for nobody by default.
    default_enabled: bool,
}

#[derive(Serialize)]
struct Status {
    state: &'static str,
    gates: Vec<Value>,
}

/// A definition with the gates of its feature; a feature that nobody touched has none open.
pub fn entity<'a>(definition: &'a Definition, gates: Option<&FeatureGates>) -> Entity<'a> {
    let untouched = FeatureGates::default();
    let gates = gates.unwrap_or(&untouched);
    Entity {
        key: definition.name.strip_suffix(OLD_END).unwrap_or(&definition.name),
        definition: Defined {
            name: &definition.name,
            introduced_by_url: definition.introduced_by_url.as_deref(),
            rollout_issue_url: definition.rollout_issue_url.as_deref(),
            milestone: definition.milestone.as_deref(),
            kind: TYPE,
            group: definition.group.as_deref(),
            default_enabled: false,
        },
        current_status: Status { state: gates.state().as_str(), gates: gates.to_json() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(name: &str) -> Definition {
        Definition {
            name: name.into(),
            introduced_by_url: Some("https://forge.test/1".into()),
            rollout_issue_url: None,
            milestone: Some("16.2".into()),
            group: Some("group::activation".into()),
        }
    }

    fn status(gates: FeatureGates) -> Value {
        serde_json::to_value(entity(&named("x"), Some(&gates))).unwrap()["current_status"].take()
    }

    #[test]
    fn every_field_is_there() {
        let shown = serde_json::to_value(entity(&named("sign_up_experiment_percentage"), None)).unwrap();
        assert_eq!(
            shown,
            json!({
                "key": "sign_up",
                "definition": {
                    "name": "sign_up_experiment_percentage",
                    "introduced_by_url": "https://forge.test/1",
                    "rollout_issue_url": null,
                    "milestone": "16.2",
                    "type": "experiment",
                    "group": "group::activation",
                    "default_enabled": false,
                },
                "current_status": {"state": "off", "gates": [{"key": "boolean", "value": false}]},
            })
        );
    }

    #[test]
    fn only_the_end_of_a_name_is_cut() {
        let key = |name: &str| serde_json::to_value(entity(&named(name), None)).unwrap()["key"].take();
        assert_eq!(key("a_experiment_percentage_b"), "a_experiment_percentage_b");
        assert_eq!(key("a_experiment_percentage_experiment_percentage"), "a_experiment_percentage");
    }

    #[test]
    fn states_and_gates() {
        let boolean = |value: bool| json!({"key": "boolean", "value": value});
        assert_eq!(
            status(FeatureGates { boolean: true, ..FeatureGates::default() }),
            json!({"state": "on", "gates": [boolean(true)]})
        );
        assert_eq!(
            status(FeatureGates { percentage_of_actors: 100, ..FeatureGates::default() }),
            json!({"state": "conditional", "gates": [boolean(false), {"key": "percentage_of_actors", "value": 100}]})
        );
        assert_eq!(
            status(FeatureGates { percentage_of_time: 100, ..FeatureGates::default() }),
            json!({"state": "on", "gates": [boolean(false), {"key": "percentage_of_time", "value": 100}]})
        );
        let all = FeatureGates {
            boolean: false,
            actors: ["User:1".to_owned()].into(),
            percentage_of_actors: 1,
            percentage_of_time: 99,
            groups: ["staff".to_owned()].into(),
        };
        assert_eq!(
            status(all),
            json!({"state": "conditional", "gates": [
                boolean(false),
                {"key": "actors", "value": ["User:1"]},
                {"key": "percentage_of_actors", "value": 1},
                {"key": "percentage_of_time", "value": 99},
                {"key": "groups", "value": ["staff"]},
            ]})
        );
    }
}
