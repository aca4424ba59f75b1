//! The manifest grants the imports of each component's world and the declarations of its description.

use super::description::{Storage, describe};
use super::worlds::world;
use super::*;
use wasmparser::{Parser, Payload};

/// The names of the interfaces that a built component imports.
fn imports(area: &str) -> Vec<String> {
    let wasm = built(area);
    let mut depth = 0;
    let mut names = Vec::new();
    for payload in Parser::new(0).parse_all(&wasm) {
        match payload.expect("a valid component") {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 0 => {
                names.extend(section.into_iter().map(|import| import.expect("a valid import").name.name.to_owned()));
            }
            _ => {}
        }
    }
    names
}

fn world_imports(area: &str) -> Vec<String> {
    let (resolve, world) = world(area);
    resolve.worlds[world].imports.keys().map(|key| resolve.name_world_key(key)).collect()
}

fn strings(table: &toml::Table, key: &str) -> Vec<String> {
    let list = table.get(key).and_then(toml::Value::as_array).cloned().unwrap_or_default();
    list.iter().map(|item| item.as_str().expect("a string").to_owned()).collect()
}

#[test]
fn outbound_http_is_granted_only_where_the_world_imports_it() {
    for area in areas() {
        let is_imported = world_imports(&area).iter().any(|name| name.starts_with("wasi:http/client"));
        let component = manifest()["component"][&area].as_table().expect("a table").clone();
        let found = !strings(&component, "allowed_outbound_hosts").is_empty();
        assert_eq!(found, is_imported, "{area}: allowed_outbound_hosts");
    }
}

#[test]
fn an_area_gets_the_default_store_or_none_as_its_world_says() {
    for area in areas() {
        let has_store = |names: Vec<String>| names.iter().any(|name| name.starts_with("wasi:keyvalue/"));
        let expected: &[&str] = if has_store(world_imports(&area)) { &["default"] } else { &[] };
        let component = manifest()["component"][&area].as_table().expect("a table").clone();
        assert_eq!(strings(&component, "key_value_stores"), expected, "{area}");
        assert_eq!(has_store(imports(&area)), has_store(world_imports(&area)), "{area}");
    }
}

#[test]
fn only_its_own_prefix_is_written() {
    for area in areas() {
        let grants = manifest()["component"][&area]["tool"]["hexad"].as_table().expect("a table").clone();
        let own = match area.as_str() {
            "admin" => "directory/".to_owned(),
            area => format!("{area}/"),
        };
        // Every area records when a token was used last, and counts refused tokens.
        let written = strings(&grants, "write");
        assert!(written.iter().all(|prefix| *prefix == own || prefix == "token-use/"), "{area}");
        // The default branch of a project is that of its repository.
        let others: &[&str] = if area == "namespaces" { &["directory/", "suggestions/"] } else { &["directory/"] };
        assert!(strings(&grants, "read").iter().all(|prefix| others.contains(&prefix.as_str())), "{area}");
    }
}

#[test]
fn the_granted_prefixes_match_the_description() {
    let mut problems = Vec::new();
    for area in areas() {
        let grants = manifest()["component"][&area]["tool"]["hexad"].as_table().expect("a table").clone();
        let [read, written] = ["read", "write"].map(|key| BTreeSet::from_iter(strings(&grants, key)));
        // A prefix that may be written may also be read.
        let readable: BTreeSet<String> = read.union(&written).cloned().collect();
        let description = describe(&built(&area));
        assert_eq!(description.area, area);
        let prefixes = |is_counted: fn(&Storage) -> bool| -> BTreeSet<String> {
            let counted = description.storage.iter().filter(|storage| is_counted(storage));
            counted.map(|storage| storage.prefix.clone()).collect()
        };
        for (access, declared, granted) in
            [("reads", prefixes(|_| true), readable), ("writes", prefixes(|storage| storage.writes.is_some()), written)]
        {
            if declared != granted {
                problems.push(format!("{area} {access} {declared:?}, and is granted {granted:?}"));
            }
        }
        for Storage { prefix, reads, writes } in &description.storage {
            let reads_own = writes.is_none_or(|version| reads.contains(&version));
            assert!(!reads.is_empty() && reads_own, "{area}: {prefix}: reads {reads:?}, writes {writes:?}");
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_batch_interface_is_never_used() {
    for area in areas() {
        assert!(!imports(&area).iter().any(|name| name.contains("keyvalue/batch")), "{area}");
    }
}

#[test]
fn the_manifest_declares_every_variable_that_it_grants() {
    let manifest = manifest();
    let declared = manifest["variables"].as_table().expect("[variables]");
    for area in areas() {
        let component = &manifest["component"][&area];
        let Some(granted) = component.get("variables").and_then(toml::Value::as_table) else { continue };
        for (name, template) in granted {
            assert_eq!(template.as_str(), Some(format!("{{{{ {name} }}}}").as_str()), "{area}.{name}");
            assert!(declared.contains_key(name), "{area}.{name} is not declared in [variables]");
        }
    }
}
