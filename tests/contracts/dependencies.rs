//! Which crate may depend on which. The host shares only the parts of pages with a guest, which hold no data of either.
//! No area uses another one.

use super::crates::CRATES;
use super::*;

/// The workspace's own crates that a crate depends on, in every dependency table.
fn own_dependencies(folder: &str) -> BTreeSet<String> {
    let shared = ["kit", "directory", "widgets"].map(str::to_owned);
    let own: BTreeSet<String> = shared.into_iter().chain(areas()).collect();
    let path = root().join(folder).join("Cargo.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let manifest: toml::Table = text.parse().expect("TOML");
    let mut tables = vec![&manifest];
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(targets.values().filter_map(toml::Value::as_table));
    }
    tables
        .iter()
        .flat_map(|table| ["dependencies", "dev-dependencies", "build-dependencies"].map(|key| table.get(key)))
        .flatten()
        .filter_map(toml::Value::as_table)
        .flat_map(|table| table.keys().cloned())
        .filter(|name| own.contains(name) || name.starts_with("hexad"))
        .collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn an_area_depends_on_kit_and_directory_only() {
    for area in areas() {
        let allowed = match area.as_str() {
            "console" => set(&["kit", "widgets"]),
            _ => set(&["kit", "directory"]),
        };
        let extra: Vec<String> =
            own_dependencies(&format!("components/{area}")).difference(&allowed).cloned().collect();
        assert!(extra.is_empty(), "components/{area} depends on {extra:?}");
    }
    assert_eq!(own_dependencies("components/directory"), set(&["kit"]));
}

#[test]
fn the_host_and_the_tests_share_no_type_with_a_guest() {
    assert_eq!(own_dependencies("widgets"), set(&[]));
    for (name, _) in CRATES {
        let dependencies = own_dependencies(&format!("host/{name}"));
        let others = dependencies.iter().filter(|used| !used.starts_with("hexad"));
        assert!(others.clone().all(|used| used == "widgets"), "host/{name} depends on {dependencies:?}");
    }
    assert_eq!(own_dependencies("forge"), set(&["hexad"]));
    assert_eq!(own_dependencies("tests"), set(&["hexad-testing"]));
}

#[test]
fn foreign_types_are_compiled_for_wasm_only() {
    for area in areas().iter().map(String::as_str).chain(["kit", "directory"]) {
        let path = root().join("components").join(area).join("Cargo.toml");
        let manifest: toml::Table = std::fs::read_to_string(path).expect("readable").parse().expect("TOML");
        let native = manifest.get("dependencies").and_then(toml::Value::as_table).cloned().unwrap_or_default();
        for foreign in ["spin-sdk", "wit-bindgen", "wasip2", "wasip3"] {
            assert!(!native.contains_key(foreign), "components/{area}: {foreign} is visible natively");
        }
    }
}

/// Each package of the program with its features, as cargo resolves them for these kinds of edges.
fn features(edges: &str) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = std::process::Command::new(cargo)
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p} [{f}]", "--edges", edges])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[test]
fn tests_ask_the_programs_dependencies_for_no_other_features() {
    let (program, tests) = (features("normal,build"), features("normal,build,dev"));
    // `kit` and `directory` are not part of the program, and have test doubles and records.
    let is_double = |package: &&String| ["kit ", "directory "].iter().any(|name| package.starts_with(name));
    let other: Vec<_> = program.difference(&tests).filter(|package| !is_double(package)).collect();
    assert!(other.is_empty(), "tests compile these again, with other features: {other:?}");
}
