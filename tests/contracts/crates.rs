//! The crates of the host: which may use which, and how many lines each may have.

use super::{rust_files, waits::MODULES};
use hexad_tests::server::root;
use std::collections::BTreeSet;
use std::path::Path;

/// Each crate below `host/` follows the crates that it may use. The number is the most lines that it may ship.
///
/// A crate over its budget gets smaller, or its design is thought over. A change that adds lines on purpose raises the
/// budget in the same commit, and says so.
pub const CRATES: [(&str, usize); 19] = [
    ("testing", 0),
    ("wasi", 100),
    ("support", 870),
    ("telemetry", 980),
    ("store", 1_300),
    ("store-conformance", 0),
    ("store-sqlite", 1_340),
    ("store-postgres", 4_050),
    ("engine", 310),
    ("limits", 2_060),
    ("http", 2_240),
    ("trace", 750),
    ("imports", 3_753),
    ("manifest", 2_200),
    ("runtime", 10_070),
    ("deploy", 4_300),
    ("admin", 3_850),
    ("host", 870),
    ("hexad", 2_620),
];

/// The lines of a crate that ship: code, comments and blank lines, up to a file's first part for tests only.
fn shipped_lines(folder: &Path) -> usize {
    let is_test = |path: &Path| path.with_extension("").iter().any(|part| MODULES.iter().any(|name| part == *name));
    let lines = |path: &Path| {
        let text = std::fs::read_to_string(path).expect("readable");
        text.lines().take_while(|line| line.trim() != "#[cfg(test)]").count()
    };
    rust_files(folder).iter().filter(|path| !is_test(path)).map(|path| lines(path)).sum()
}

#[test]
fn crates_of_the_host_keep_their_budgets_of_lines() {
    let mut sum = 0;
    let mut over = Vec::new();
    for (name, budget) in CRATES {
        let lines = shipped_lines(&root().join("host").join(name).join("src"));
        println!("{lines:>6} of {budget:>6}  {name}");
        sum += lines;
        if lines > budget {
            over.push(format!("{name} has {lines} lines of {budget}"));
        }
    }
    println!("{sum:>6}");
    assert!(over.is_empty(), "{}", over.join("\n"));
}

#[test]
fn a_crate_of_the_host_uses_only_crates_before_it() {
    let folders = std::fs::read_dir(root().join("host")).expect("a folder").map(|entry| entry.expect("an entry"));
    let folders = folders.filter(|entry| entry.path().join("Cargo.toml").is_file());
    let present: BTreeSet<String> = folders.map(|entry| entry.file_name().into_string().expect("text")).collect();
    assert_eq!(present, CRATES.iter().map(|(name, _)| (*name).to_owned()).collect());

    for (position, (name, _)) in CRATES.iter().enumerate() {
        let path = root().join("host").join(name).join("Cargo.toml");
        let manifest: toml::Table = std::fs::read_to_string(path).expect("readable").parse().expect("TOML");
        let used = manifest["dependencies"].as_table().expect("a table").keys();
        for other in used.filter_map(|used| used.strip_prefix("hexad-")) {
            let is_before = CRATES.iter().take(position).any(|(before, _)| *before == other);
            assert!(is_before, "{name} uses {other}, which is not before it");
        }
    }
}
