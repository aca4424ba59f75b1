//! Experiments: their definitions, and their JSON with the gates of the feature of the same name.

use directory::feature::FeatureGates;
use serde::Serialize;
use serde_json::Value;

/// The name's suffix of experiments of the former kind; their keys lack it.
const LEGACY_SUFFIX: &str = "_experiment_percentage";

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

/// The JSON of an experiment.
#[derive(Serialize)]
pub struct ExperimentEntity<'a> {
    key: &'a str,
    definition: DefinitionEntity<'a>,
    current_status: StatusEntity,
}

#[derive(Serialize)]
struct DefinitionEntity<'a> {
    name: &'a str,
    introduced_by_url: Option<&'a str>,
    rollout_issue_url: Option<&'a str>,
    milestone: Option<&'a str>,
    #[serde(rename = "type")]
    kind: &'static str,
    group: Option<&'a str>,
    /// Always false: an experiment is enabled by gates only.
    default_enabled: bool,
}

#[derive(Serialize)]
struct StatusEntity {
    state: &'static str,
    gates: Vec<Value>,
}

/// The JSON of a definition with the gates of its feature; without gates the feature is off.
pub fn entity<'a>(definition: &'a Definition, gates: Option<&FeatureGates>) -> ExperimentEntity<'a> {
    let closed = FeatureGates::default();
    let gates = gates.unwrap_or(&closed);
    ExperimentEntity {
        key: definition.name.strip_suffix(LEGACY_SUFFIX).unwrap_or(&definition.name),
        definition: DefinitionEntity {
            name: &definition.name,
            introduced_by_url: definition.introduced_by_url.as_deref(),
            rollout_issue_url: definition.rollout_issue_url.as_deref(),
            milestone: definition.milestone.as_deref(),
            kind: TYPE,
            group: definition.group.as_deref(),
            default_enabled: false,
        },
        current_status: StatusEntity { state: gates.state().as_str(), gates: gates.to_json() },
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
    fn every_field_is_shown() {
        let json = serde_json::to_value(entity(&named("sign_up_experiment_percentage"), None)).unwrap();
        let expected = json!({"key": "sign_up", "definition": {"name": "sign_up_experiment_percentage",
            "introduced_by_url": "https://forge.test/1", "rollout_issue_url": null, "milestone": "16.2",
            "type": "experiment", "group": "group::activation", "default_enabled": false},
            "current_status": {"state": "off", "gates": [{"key": "boolean", "value": false}]}});
        assert_eq!(json, expected);
    }

    #[test]
    fn only_the_suffix_of_a_name_is_removed() {
        let key = |name: &str| serde_json::to_value(entity(&named(name), None)).unwrap()["key"].take();
        assert_eq!(key("a_experiment_percentage_b"), "a_experiment_percentage_b");
        assert_eq!(key("a_experiment_percentage_experiment_percentage"), "a_experiment_percentage");
    }

    #[test]
    fn states_and_gates() {
        let boolean = |value: bool| json!({"key": "boolean", "value": value});
        let expected = json!({"state": "on", "gates": [boolean(true)]});
        assert_eq!(status(FeatureGates { boolean: true, ..FeatureGates::default() }), expected);
        let expected =
            json!({"state": "conditional", "gates": [boolean(false), {"key": "percentage_of_actors", "value": 100}]});
        assert_eq!(status(FeatureGates { percentage_of_actors: 100, ..FeatureGates::default() }), expected);
        let expected = json!({"state": "on", "gates": [boolean(false), {"key": "percentage_of_time", "value": 100}]});
        assert_eq!(status(FeatureGates { percentage_of_time: 100, ..FeatureGates::default() }), expected);
        let all = FeatureGates {
            boolean: false,
            actors: ["User:1".to_owned()].into(),
            percentage_of_actors: 1,
            percentage_of_time: 99,
            groups: ["staff".to_owned()].into(),
        };
        let expected = json!({"state": "conditional", "gates": [
            boolean(false),
            {"key": "actors", "value": ["User:1"]},
            {"key": "percentage_of_actors", "value": 1},
            {"key": "percentage_of_time", "value": 99},
            {"key": "groups", "value": ["staff"]},
        ]});
        assert_eq!(status(all), expected);
    }
}
