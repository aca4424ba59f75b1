//! Former names of keys of a component's `tool.hexad`. For one release a manifest may have either name.

use hexad_support::digest::Digest;
use toml::{Table, Value};

/// The former and the present name of a key, by the table below `tool.hexad` that has it.
const RENAMED: [(Option<&str>, &str, &str); 5] = [
    (None, "memoize", "response_cache"),
    (None, "headers", "response_cache_headers"),
    (None, "reuse", "max_requests_per_instance"),
    (Some("outbound"), "share", "coalesce"),
    (Some("outbound"), "share_methods", "coalesce_methods"),
];

/// Renames the keys of one component. Each former name goes to `found`: with the present one, and whether the table
/// has both.
fn rename(id: &str, tool: &mut Table, found: &mut Vec<(String, bool)>) {
    for (table, former, present) in RENAMED {
        let table = match table {
            None => Some(&mut *tool),
            Some(name) => tool.get_mut(name).and_then(Value::as_table_mut),
        };
        let Some((table, value)) = table.and_then(|table| table.remove(former).map(|value| (table, value))) else {
            continue;
        };
        let text = format!("component {id}: `{former}` is called `{present}` now; rename it");
        let has_both = table.insert(present.to_owned(), value).is_some();
        found.push((if has_both { format!("{text}, and keep one of them") } else { text }, has_both));
    }
}

/// The manifest's tables with the present name of every key, and the former names. Nothing for a text that is no TOML.
fn resolve(text: &str) -> (Table, Vec<(String, bool)>) {
    let mut found = Vec::new();
    let Ok(mut manifest) = text.parse::<Table>() else { return (Table::new(), found) };
    for (id, component) in manifest.get_mut("component").and_then(Value::as_table_mut).into_iter().flatten() {
        let tool = component.get_mut("tool").and_then(|tool| tool.get_mut(super::schema::HEXAD));
        if let Some(tool) = tool.and_then(Value::as_table_mut) {
            rename(id, tool, &mut found);
        }
    }
    (manifest, found)
}

/// A sentence for each former name. The error has those for keys that a table has by both names.
pub fn find(text: &str) -> Result<Vec<String>, Vec<String>> {
    let found = resolve(text).1;
    let both: Vec<String> = found.iter().filter(|(_, has_both)| *has_both).map(|(text, _)| text.clone()).collect();
    if both.is_empty() { Ok(found.into_iter().map(|(text, _)| text).collect()) } else { Err(both) }
}

/// The digest of what a manifest says: texts that differ in comments, order and former names have the same one.
pub fn resolved_digest(text: &str) -> Digest {
    Digest::of(resolve(text).0.to_string().as_bytes())
}
