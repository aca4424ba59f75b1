//! Each built component fits its world: it imports no more than its world, and exports all of its
//! world's exports.

use super::*;
use wit_parser::{Resolve, WorldId};

/// The vendored packages, in the order of their dependencies.
const VENDORED: [&str; 14] = [
    "io@0.2.6",
    "clocks@0.2.6",
    "random@0.2.6",
    "filesystem@0.2.6",
    "sockets@0.2.6",
    "cli@0.2.6",
    "clocks@0.3.0",
    "random@0.3.0",
    "filesystem@0.3.0",
    "sockets@0.3.0",
    "cli@0.3.0",
    "http@0.3.0",
    "keyvalue@0.2.0-draft2",
    "spin-variables@3.0.0",
];

/// Everything below `wit/` that `area` needs, and its world.
pub fn world(area: &str) -> (Resolve, WorldId) {
    let wit = root().join("wit");
    let mut resolve = Resolve::default();
    let own = ["platform.wit".to_owned(), format!("{area}.wit")];
    let paths: Vec<PathBuf> =
        VENDORED.iter().map(|name| wit.join("deps").join(name)).chain(own.iter().map(|name| wit.join(name))).collect();
    let mut package = None;
    for path in &paths {
        let (id, _) = resolve.push_path(path).unwrap_or_else(|why| panic!("{}: {why:?}", path.display()));
        package = Some(id);
    }
    let package = package.expect("at least one package");
    let world = *resolve.packages[package].worlds.get("component").expect("world `component`");
    assert_eq!(resolve.packages[package].name.to_string(), format!("hexad:{area}@0.1.0"));
    (resolve, world)
}

#[test]
fn every_component_fits_its_world() {
    for area in areas() {
        let (resolve, world) = world(&area);
        wit_component::targets(&resolve, world, &built(&area)).unwrap_or_else(|why| {
            panic!("dist/{area}.wasm does not fit the world of wit/{area}.wit: {why:?}");
        });
    }
}

#[test]
fn a_component_that_imports_more_does_not_fit() {
    let extra = wat(r#"(component (import "wasi:http/client@0.3.0" (instance)))"#);
    let (resolve, world) = world("package-registry");
    let refusal = wit_component::targets(&resolve, world, &extra).expect_err("an ungranted import");
    assert!(format!("{refusal:?}").contains("wasi:http/client"), "{refusal:?}");
}

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("valid text")
}
