//! The stored form of all features.

use super::is_default;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) type Features = BTreeMap<String, Feature>;

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Feature {
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

impl From<Feature> for crate::feature::Gates {
    fn from(record: Feature) -> Self {
        crate::feature::Gates {
            boolean: record.boolean,
            actors: record.actors,
            percentage_of_actors: record.percentage_of_actors,
            percentage_of_time: record.percentage_of_time,
            groups: record.groups,
        }
    }
}

impl From<crate::feature::Gates> for Feature {
    fn from(gates: crate::feature::Gates) -> Self {
        Feature {
            boolean: gates.boolean,
            actors: gates.actors,
            percentage_of_actors: gates.percentage_of_actors,
            percentage_of_time: gates.percentage_of_time,
            groups: gates.groups,
        }
    }
}
