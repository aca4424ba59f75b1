//! The API clients of two languages review a merge request: they make it, comment, reply, edit, resolve, apply
//! two suggestions one after the other, and read everything back.

use super::{Machine, are_enabled, installed};
use hexad_tests::forge::{self, DEVELOPER, PRIVATE};
use hexad_tests::repository::Repository;
use hexad_tests::server::{Server, root};
use hexad_tests::suggestions::{Suggestions, import_git};
use serde_json::{Value, json};

/// Runs a script of this folder against a project in which `topic` is a commit ahead of `main`.
fn run(program: &str, script: &str, libraries: &str) {
    if !are_enabled() {
        return;
    }
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    forge::seed(&server);
    let repository = Repository::with(&[("a.txt", b"1\n2\n3\n4\n5\n")]);
    repository.write("a.txt", b"1\ntwo\n3\nfour\n5\n");
    repository.commit("second");
    let imported = import_git(&server, PRIVATE, repository.path(), &[]);
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let machine = Machine::new();
    let script = root().join("tests/clients").join(script).display().to_string();
    let libraries = installed(libraries).display().to_string();
    let project = PRIVATE.to_string();
    let arguments = [&script, &libraries, &server.url, DEVELOPER, &project];
    let printed = machine.run(&machine.folder("work"), program, &arguments).ok();
    let seen: Value = serde_json::from_str(&printed).unwrap_or_else(|why| panic!("{why}: {printed}"));
    let clone = Repository::clone(&Suggestions::new(&server, PRIVATE, DEVELOPER).clone_url());
    assert_eq!(clone.git(&["show", "origin/topic:a.txt"]), b"1\nzwei\nzwo\n3\nvier\n5\n");
    for (name, expected) in [
        ("listed", json!([1])),
        ("everywhere", json!(["merge_requests/1"])),
        ("commits", json!(["second"])),
        ("sha", json!(repository.text(&["rev-parse", "topic"]))),
        ("branches", json!(["topic", "main"])),
        ("lines", json!([[2, 2], [5, 5]])),
        ("applied", json!([true, true])),
        ("reply", json!("I agree")),
        ("edited", json!("I agree entirely")),
        ("resolved", json!([true, false])),
        ("bodies", json!(["I agree entirely", "the service"])),
        ("deleted", json!(404)),
        ("total", json!(2)),
        ("notes", json!(5)),
        ("closed", json!("closed")),
        ("none_open", json!([])),
    ] {
        assert_eq!(seen[name], expected, "{name}: {seen:#}");
    }
}

#[test]
fn python_gitlab() {
    run("python3", "review.py", "python");
}

#[test]
fn gitbeaker() {
    run("node", "review.mjs", "clients");
}
