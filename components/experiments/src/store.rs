//! The stored definitions. Only this module knows a key or a stored byte.

use crate::definition::Definition;
use kit::Env;
use kit::maintenance::Maintain;
use kit::reachability::{GcSource, KeyLayout, Node, Tracer};
use kit::root::{self, Decision};
use kit::store::StoreError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::rc::Rc;

const DEFINITIONS: &str = "experiments/v1/definitions";

/// The largest total size of all definitions, in bytes of JSON: they are one record.
const MAX_BYTES: usize = 1 << 20;

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Record {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    introduced_by_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rollout_issue_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    milestone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
}

impl From<Record> for Definition {
    fn from(record: Record) -> Self {
        Definition {
            name: record.name,
            introduced_by_url: record.introduced_by_url,
            rollout_issue_url: record.rollout_issue_url,
            milestone: record.milestone,
            group: record.group,
        }
    }
}

impl From<&Definition> for Record {
    fn from(definition: &Definition) -> Self {
        Record {
            name: definition.name.clone(),
            introduced_by_url: definition.introduced_by_url.clone(),
            rollout_issue_url: definition.rollout_issue_url.clone(),
            milestone: definition.milestone.clone(),
            group: definition.group.clone(),
        }
    }
}

/// Every definition, in the order in which they were added. 1 read; an instance decodes them once.
pub fn read(env: &Env) -> Result<Rc<Vec<Definition>>, StoreError> {
    let convert = |records: Vec<Record>| Ok(records.into_iter().map(Definition::from).collect());
    Ok(root::read_cached(env, DEFINITIONS, convert)?.unwrap_or_default())
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
    root::update(env, DEFINITIONS, |current: Option<Vec<Record>>| {
        let current = current.unwrap_or_default();
        let mut new = current.clone();
        for change in changes {
            match change {
                Change::Save(definition) => match new.iter_mut().find(|record| record.name == definition.name) {
                    Some(record) => *record = definition.into(),
                    None => new.push(definition.into()),
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
        let records: Vec<Record> = root::read(&*self.0.store, DEFINITIONS)?.unwrap_or_default();
        let mut names = BTreeSet::new();
        if let Some(record) = records.iter().find(|record| !names.insert(&record.name)) {
            tracer.report(DEFINITIONS, format_args!("`{}` is defined twice", record.name));
        }
        Ok(true)
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
        let records: Vec<Record> = definitions.iter().map(Record::from).collect();
        assert_eq!(serde_json::to_string(&records).unwrap(), GOLDEN.trim_end());
    }
}
