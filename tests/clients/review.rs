//! The API clients of two languages review a merge request: they make it, comment, reply, edit, resolve, apply
//! two suggestions one after the other, and read everything back.

use super::*;
use hexad_tests::repository::Repository;
use hexad_tests::suggestions::{Suggestions, import_repository};

/// Runs a script of this folder against a project in which `topic` is a commit ahead of `main`.
fn run(program: &str, script: &str, libraries: &str) {
    let Some(server) = server() else { return };
    let repository = Repository::with(&[("a.txt", b"1\n2\n3\n4\n5\n")]);
    repository.write("a.txt", b"1\ntwo\n3\nfour\n5\n");
    repository.commit("second");
    import_repository(&server, PRIVATE, &repository, &[]);
    let machine = Machine::new();
    let project = PRIVATE.to_string();
    let more = [&server.url, DEVELOPER, &project];
    let seen = report(&machine, &machine.folder("work"), program, script, libraries, &more);
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

tests_of! {
    python_gitlab: run("python3", "review.py", "python");
    gitbeaker: run("node", "review.mjs", "clients");
}
