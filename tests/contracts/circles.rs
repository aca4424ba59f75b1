//! Modules do not import one another in a circle: in components no files do, elsewhere no top-level modules.

use super::imports::{Graph, graph};
use hexad_tests::server::root;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

/// The root files of the crates that are shipped.
fn crates() -> Vec<PathBuf> {
    let mut folders = ["forge", "widgets"].map(|name| root().join(name)).to_vec();
    for several in ["components", "host"] {
        let crates = std::fs::read_dir(root().join(several)).expect("a folder of crates");
        folders.extend(crates.map(|entry| entry.expect("an entry").path()));
    }
    folders.sort();
    folders.into_iter().map(|folder| folder.join("src/lib.rs")).filter(|file| file.is_file()).collect()
}

/// The imports between the top-level modules, each with all that is below it.
fn top_level(graph: &Graph) -> Graph {
    let top = |file: &str| file.split("::").next().unwrap_or(file).to_owned();
    let mut modules = Graph::new();
    for (from, targets) in graph {
        for to in targets.iter().filter(|to| *from != "lib" && *to != "lib" && top(from) != top(to)) {
            modules.entry(top(from)).or_default().insert(top(to));
        }
    }
    modules
}

/// The shortest path of imports from a file back to itself.
fn circle(graph: &Graph, start: &str) -> Option<Vec<String>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for next in graph.get(file).into_iter().flatten() {
            if next == start {
                let mut way = vec![start.to_owned()];
                let mut at = file;
                while at != start {
                    way.push(at.to_owned());
                    at = came_from[at];
                }
                way.push(start.to_owned());
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(next.as_str()) {
                came_from.insert(next, file);
                queue.push_back(next);
            }
        }
    }
    None
}

/// The shortest circle through each file that is in one, each circle once.
fn circles(graph: &Graph) -> Vec<String> {
    let mut seen: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    let found = graph.keys().filter_map(|file| circle(graph, file));
    found.filter(|way| seen.insert(way.iter().cloned().collect())).map(|way| way.join(" → ")).collect()
}

/// Fails with the circles that `find` finds in the crates at `files`.
#[track_caller]
fn assert_none(files: &[PathBuf], find: impl Fn(&Graph) -> BTreeSet<String>) {
    let in_crate = |file: &PathBuf| {
        let folder = file.ancestors().nth(2).expect("a crate").strip_prefix(root()).expect("below the root");
        let name = folder.display().to_string();
        find(&graph(file)).into_iter().map(move |circle| format!("{name}: {circle}"))
    };
    let found: Vec<String> = files.iter().flat_map(in_crate).collect();
    assert!(found.is_empty(), "{} circles:\n{}", found.len(), found.join("\n"));
}

/// Crates of the host that are one layer each. Inside of a layer, a file may use its sibling.
const LAYERS: [&str; 5] = ["admin", "deploy", "store", "store-postgres", "store-sqlite"];

/// Inside of a top-level module, a file may use its sibling.
#[test]
fn top_level_modules_do_not_import_one_another_in_a_circle() {
    let is_layer = |file: &PathBuf| LAYERS.iter().any(|name| file.starts_with(root().join("host").join(name)));
    let files: Vec<PathBuf> = crates().into_iter().filter(|file| !is_layer(file)).collect();
    assert_none(&files, |graph| circles(&top_level(graph)).into_iter().collect());
}

/// Components are small, so there a parent counts, too. It may declare and re-export a child that needs it, but not use
/// the child.
#[test]
fn files_of_components_do_not_import_one_another_in_a_circle() {
    let components = root().join("components");
    let files: Vec<PathBuf> = crates().into_iter().filter(|file| file.starts_with(&components)).collect();
    assert_none(&files, |graph| circles(graph).into_iter().collect());
}

/// A crate in a temporary folder, as names of files and their text.
fn graph_of(files: &[(&str, &str)]) -> Graph {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    graph(&folder.path().join("lib.rs"))
}

#[test]
fn circles_are_found_however_a_path_is_written() {
    for (a, b) in [
        ("use crate::b::B;", "use crate::a::A;"),
        ("use super::b::{B, C as D};", "fn f() { crate::a::f() }"),
        ("use crate::b; fn f() { b::f() }", "fn f() { vec![super::a::A] }"),
        ("use crate::{b, x}; fn f() -> Vec<b::B> {}", "use crate::{a::{self, A}, x::*};"),
        ("fn f(of: &crate::b::B) {}", "use crate::Exported;"),
        ("use crate::b::*;", "mod inner { use super::super::a::A; }"),
    ] {
        let root = "mod a; mod b; mod x; pub use a::Exported;";
        let graph = graph_of(&[("lib.rs", root), ("a.rs", a), ("b.rs", b), ("x.rs", "")]);
        assert_eq!(circles(&graph), ["a → b → a"], "{a} {b}");
    }
}

#[test]
fn reexports_tests_and_comments_make_no_circle() {
    for (parent, child, other) in [
        // A parent that re-exports a type, which another module imports from it.
        (
            "mod child; pub use child::Child; pub struct Own;",
            "use super::Own; pub struct Child;",
            "use crate::parent::Child;",
        ),
        // Tests may use anything.
        ("mod child; use child::Child;", "#[cfg(test)] mod tests { use super::super::Own; } pub struct Child;", ""),
        ("mod child; use child::Child;", "#[cfg(test)] use crate::parent::Own;\npub struct Child;", ""),
        // Comments and string literals are not code.
        (
            "mod child; use child::Child;",
            "//! [`crate::parent::Own`]\npub struct Child; const A: &str = \"crate::parent::Own\";",
            "",
        ),
    ] {
        let root = "mod parent; mod other;";
        let graph =
            graph_of(&[("lib.rs", root), ("parent.rs", parent), ("parent/child.rs", child), ("other.rs", other)]);
        assert_eq!(circles(&graph), [""; 0], "{parent} {child}");
    }
}

#[test]
fn child_and_parent_that_use_each_other_are_a_circle() {
    let parent = "mod child; pub use child::Child; pub struct Own(Child);";
    let graph = graph_of(&[
        ("lib.rs", "mod parent;"),
        ("parent.rs", parent),
        ("parent/child.rs", "use super::Own; pub struct Child;"),
    ]);
    assert_eq!(circles(&graph), ["parent → parent::child → parent"]);
}

#[test]
fn folders_can_be_in_a_circle_where_files_are_not() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "mod one; mod two;"),
        ("a/one.rs", "use crate::b::B;"),
        ("a/two.rs", "pub struct Two;"),
        ("b.rs", "use crate::a::two::Two; pub struct B;"),
    ];
    let graph = graph_of(&files);
    assert_eq!(circles(&graph), [""; 0]);
    assert_eq!(circles(&top_level(&graph)), ["a → b → a"]);
}
