//! The stored definitions. Only this module knows a key or a stored byte.

use directory::feature::FeatureGates;
use kit::Env;
use kit::maintenance::Maintain;
use kit::reachability::{GcSource, KeyLayout, Node, Tracer};
use kit::root::{self, Decision};
use kit::store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::rc::Rc;

const DEFINITIONS: &str = "experiments/v1/definitions";

/// The largest total size of all definitions, in bytes of JSON: they are one record.
const MAX_BYTES: usize = 1 << 20;

/// Every definition, in the order in which they were added. 1 read; an instance decodes them once.
pub fn read(env: &Env) -> Result<Rc<Vec<Definition>>, StoreError> {
    Ok(root::read_cached(env, DEFINITIONS, |definitions: Vec<Definition>| Ok(definitions))?.unwrap_or_default())
}

/// A change of one definition.
pub enum Change {
    /// Replaces the definition of this name, or adds it at the end.
    Save(Definition),
    /// Deletes the definition of this name.
    Delete(String),
}

/// Why nothing was changed.
#[derive(Debug)]
pub enum SaveError {
    /// The definitions would be larger than this many bytes.
    TooLarge(usize),
    Store(StoreError),
}

impl From<StoreError> for SaveError {
    fn from(error: StoreError) -> Self {
        SaveError::Store(error)
    }
}

/// Applies all changes or none. Idempotent.
pub fn apply(env: &Env, changes: &[Change]) -> Result<(), SaveError> {
    root::update(env, DEFINITIONS, |current: Option<Vec<Definition>>| {
        let current = current.unwrap_or_default();
        let mut new = current.clone();
        for change in changes {
            match change {
                Change::Save(definition) => match new.iter_mut().find(|record| record.name == definition.name) {
                    Some(record) => record.clone_from(definition),
                    None => new.push(definition.clone()),
                },
                Change::Delete(name) => new.retain(|record| record.name != *name),
            }
        }
        if serde_json::to_vec(&new).map_or(0, |bytes| bytes.len()) > MAX_BYTES {
            return Err(SaveError::TooLarge(MAX_BYTES));
        }
        Ok(if new == current { Decision::Keep(()) } else { Decision::Replace(new, ()) })
    })
}

/// The stored definitions, for checks.
pub struct StoredDefinitions<'a>(pub &'a Env);

impl Maintain for StoredDefinitions<'_> {}

impl GcSource for StoredDefinitions<'_> {
    fn layout(&self) -> KeyLayout {
        KeyLayout {
            roots: Vec::new(),
            records: vec![DEFINITIONS.to_owned()],
            blobs: Vec::new(),
            marks: "experiments/v1/gc/".to_owned(),
        }
    }

    fn visit(&self, node: Node, tracer: &mut Tracer) -> Result<bool, StoreError> {
        if !matches!(node, Node::Root(DEFINITIONS)) {
            // The record's counter, which its swaps keep.
            return Ok(false);
        }
        let records: Vec<Definition> = root::read(&*self.0.store, DEFINITIONS)?.unwrap_or_default();
        let mut names = BTreeSet::new();
        if let Some(record) = records.iter().find(|record| !names.insert(&record.name)) {
            tracer.report(DEFINITIONS, format_args!("`{}` is defined twice", record.name));
        }
        Ok(true)
    }
}

/// The name's suffix of experiments of the former kind; their keys lack it.
const LEGACY_SUFFIX: &str = "_experiment_percentage";

/// The only type that is listed.
pub const TYPE: &str = "experiment";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The feature's name.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub introduced_by_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_issue_url: Option<String>,
    /// A version, for example `16.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milestone: Option<String>,
    /// The team that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    use kit::testing::{LostReplyStore, MemoryStore, env};

    const GOLDEN: &str = include_str!("../golden/v1/definitions.json");

    fn named(name: &str, milestone: Option<&str>) -> Definition {
        Definition {
            name: name.into(),
            introduced_by_url: None,
            rollout_issue_url: Some("https://forge.test/2".into()),
            milestone: milestone.map(str::to_owned),
            group: None,
        }
    }

    #[test]
    fn definitions_keep_their_order() {
        let env = env(LostReplyStore::over(MemoryStore::default()), &[]);
        let save = |name: &str, milestone| apply(&env, &[Change::Save(named(name, milestone))]).unwrap();
        save("b", None);
        save("a", None);
        save("b", Some("16.0"));
        assert_eq!(*read(&env).unwrap(), [named("b", Some("16.0")), named("a", None)]);
        apply(&env, &[Change::Delete("b".into()), Change::Delete("c".into())]).unwrap();
        assert_eq!(*read(&env).unwrap(), [named("a", None)]);
    }

    #[test]
    fn definitions_together_have_a_bound() {
        let env = env(MemoryStore::default(), &[]);
        let large = "x".repeat(MAX_BYTES);
        assert!(matches!(apply(&env, &[Change::Save(named(&large, None))]), Err(SaveError::TooLarge(MAX_BYTES))));
        assert_eq!(*read(&env).unwrap(), []);
    }

    #[test]
    fn stored_records_of_format_1_are_read_and_written_as_they_were() {
        let store = MemoryStore::default();
        kit::store::Store::set(&store, DEFINITIONS, GOLDEN.trim_end().as_bytes()).unwrap();
        let definitions = read(&env(store, &[])).unwrap();
        assert_eq!((definitions.len(), definitions[1].group.as_deref()), (2, Some("group::activation")));
        assert_eq!(serde_json::to_string(&*definitions).unwrap(), GOLDEN.trim_end());
    }
}

#[cfg(test)]
mod definition_tests {
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
        assert_eq!(
            json,
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
    fn only_the_suffix_of_a_name_is_removed() {
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
