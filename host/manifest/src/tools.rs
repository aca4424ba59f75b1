//! The names of `tool` tables. The host must not take a misspelt `tool.hexad` for the table of another tool: the
//! component would have no prefixes and no limits of its own.

use std::collections::BTreeMap;

use super::error::Problems;
use super::location::{Locations, shown};
use super::schema::{ApplicationTable, ComponentTable, HEXAD};

/// Refuses tables that this host would ignore because their names are misspelt.
pub fn check(
    application: &ApplicationTable,
    components: &BTreeMap<String, ComponentTable>,
    locations: &Locations<'_>,
    problems: &mut Problems,
) {
    for name in application.tool.keys().filter(|name| is_meant(name)) {
        let reason = format!("there is no [application.tool.{HEXAD}]; write [component.<id>.tool.{HEXAD}]");
        problems.add(locations.in_table(&["application", "tool", name], &reason));
    }
    for (id, component) in components {
        for name in component.tool.others.iter().filter(|name| is_meant(name)) {
            let reason = format!("`{}` is not a tool; write [component.{id}.tool.{HEXAD}]", shown(name));
            problems.add(locations.in_table(&["component", id, "tool", name], &reason));
        }
    }
}

/// Whether a name means this host's table: in any case, and with at most one typing error.
fn is_meant(name: &str) -> bool {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    strsim::damerau_levenshtein(&letters, HEXAD) <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_typing_error_is_seen_and_other_tools_are_not() {
        for name in
            ["hexad", "hexd", "hexed", "Hexad", "HEXAD", "hexad_", "_hexad_", "hexads", "heaxd", "hex-ad", "exad"]
        {
            assert!(is_meant(name), "{name}");
        }
        for name in ["", "spin", "hex", "hex-edit", "hexadecimal", "hexagon", "other", "wasmcloud"] {
            assert!(!is_meant(name), "{name}");
        }
    }
}
