//! Stores that several components open: who may write what.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::Component;
use super::error::Problems;
use super::location::Locations;
use super::schema::{self, HexadTool};

impl HexadTool {
    /// Whether the manifest restricts the component to key prefixes.
    fn has_prefixes(&self) -> bool {
        self.read.is_some() || self.write.is_some()
    }
}

/// Refuses a component without prefixes in a store where another component has prefixes: it could write the other's
/// keys.
pub fn check(
    components: &BTreeMap<String, schema::ComponentTable>,
    locations: &Locations<'_>,
    problems: &mut Problems,
) {
    let confined = components.values().filter(|component| component.tool.hexad.has_prefixes());
    let confined: BTreeSet<&String> = confined.flat_map(|component| &component.key_value_stores).collect();
    for (id, component) in components.iter().filter(|(_, component)| !component.tool.hexad.has_prefixes()) {
        if let Some(label) = component.key_value_stores.iter().find(|label| confined.contains(label)) {
            let reason = format!(
                "component {id}: say write = [\"{id}/\"], or write = [\"\"] for every key, in \
                 [component.{id}.tool.hexad]; other components have prefixes in the store \"{label}\""
            );
            problems.add(locations.at(&["component", id], &reason));
        }
    }
}

/// A sentence for each prefix that several components may write. A sentence for each store in which a component may
/// write every key.
pub fn sharing_notes<'a>(components: impl Iterator<Item = &'a Component> + Clone) -> Vec<String> {
    let stores = components.clone().flat_map(|component| {
        let prefixes = component.grants.writable().iter();
        prefixes.flat_map(move |prefix| component.grants.labels().map(move |label| (label, &**prefix)))
    });
    let stores: BTreeSet<(&str, &str)> = stores.collect();
    let notes = stores.into_iter().filter_map(|(label, prefix)| {
        let may_write = |component: &&Component| {
            component.grants.labels().any(|own| own == label) && component.grants.may_write(prefix)
        };
        let writers: Vec<&str> = components.clone().filter(may_write).map(|component| &*component.id).collect();
        let keys = match prefix {
            "" => "every key".to_owned(),
            _ if writers.len() < 2 => return None,
            prefix => format!("\"{prefix}\""),
        };
        let mut note = format!("store \"{label}\": {keys} may be written by {}", writers.join(", "));
        if prefix.is_empty() {
            let _ = write!(note, "; `write` in tool.hexad narrows that");
        }
        Some(note)
    });
    notes.collect()
}
