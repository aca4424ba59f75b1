//! The manifest, the worlds, the vendored interfaces, the crates and the documents agree with one another.

mod books;
mod circles;
mod crates;
mod dependencies;
mod description;
mod grants;
mod imports;
mod layout;
mod links;
mod release;
mod scopes;
mod sentences;
mod vendored;
mod waits;
mod worlds;

use hexad_tests::server::root;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// `spin.toml`, parsed.
pub fn manifest() -> toml::Table {
    let path = root().join("spin.toml");
    std::fs::read_to_string(path).expect("spin.toml is readable").parse().expect("spin.toml is TOML")
}

/// The component ids of the manifest, sorted. They are the areas' names.
pub fn areas() -> Vec<String> {
    manifest()["component"].as_table().expect("[component.<id>] tables").keys().cloned().collect()
}

/// The bytes of a built component.
pub fn built(area: &str) -> Vec<u8> {
    let path = root().join("dist").join(format!("{area}.wasm"));
    std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}; `make components` builds it", path.display()))
}

/// The Rust files below a folder. Folders that builds and tests write are left out.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !["cache", "target"].iter().any(|made| path.ends_with(made)) {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found
}
