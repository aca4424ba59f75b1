//! The stored form of all features.

use super::is_default::is_default;
use crate::model::feature::FeatureGates;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) type FeatureRecords = BTreeMap<String, FeatureRecord>;

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FeatureRecord {
    #[serde(default, skip_serializing_if = "is_default")]
    boolean: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    actors: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    percentage_of_actors: u8,
    #[serde(default, skip_serializing_if = "is_default")]
    percentage_of_time: u8,
    #[serde(default, skip_serializing_if = "is_default")]
    groups: BTreeSet<String>,
}

impl From<FeatureRecord> for FeatureGates {
    fn from(record: FeatureRecord) -> Self {
        FeatureGates {
            boolean: record.boolean,
            actors: record.actors,
            percentage_of_actors: record.percentage_of_actors,
            percentage_of_time: record.percentage_of_time,
            groups: record.groups,
        }
    }
}

impl From<FeatureGates> for FeatureRecord {
    fn from(gates: FeatureGates) -> Self {
        FeatureRecord {
            boolean: gates.boolean,
            actors: gates.actors,
            percentage_of_actors: gates.percentage_of_actors,
            percentage_of_time: gates.percentage_of_time,
            groups: gates.groups,
        }
    }
}
