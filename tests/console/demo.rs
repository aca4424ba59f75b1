//! The demo of `hexad up --demo`, on the pages.

use super::*;
use hexad_tests::databases;
use hexad_tests::forge;
use hexad_tests::http::{agent, console_session, read};
use hexad_tests::server::{Server, up};
use hexad_tests::wait::{SOON, wait_until};

/// A page, for a session.
fn page(server: &Server, path: &str, session: &str) -> String {
    let request = agent().get(format!("{}{path}", server.url)).header("cookie", session);
    let answer = read(request.call().expect("an answer")).expect("an answer");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

/// Checks that every page shows a record of the demo, once.
fn check(server: &Server, token: &str) {
    let host = server.url.trim_start_matches("http://");
    let session = &console_session(&server.url, host, token);
    for (path, expected) in [
        ("/", "3 packages"),
        ("/packages/@showcase/colors?project=showcase/libraries", "npm install @showcase/colors"),
        ("/packages/@showcase/router?project=showcase/libraries", "/packages/@showcase/colors"),
        ("/issues?project=showcase/libraries", "<strong>3\u{202f}000</strong>"),
        ("/merge_requests?project=showcase/libraries", "1 merge request"),
        ("/experiments", "percentage of actors"),
        ("/namespaces/showcase", "Libraries"),
        ("/analytics/showcase/libraries", "Connect an engine"),
        ("/admin", "demo"),
    ] {
        let text = page(server, path, session);
        assert!(text.contains(expected), "{expected:?} is not in {path}: {text}");
    }
    let merge_request = page(server, "/merge_requests/showcase/libraries/1", session);
    assert_eq!(merge_request.matches("Choose suggestion").count(), 2, "{merge_request}");
}

fn administrator(text: &str) -> &str {
    let line = text.lines().find(|line| line.contains("administrator")).expect("the administrator's line");
    line.split_whitespace().last().expect("a token")
}

#[test]
fn the_demo_fills_every_page_and_is_loaded_once() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let (server, text) = Server::start_demo(data.path());
    let first = text.lines().find(|line| !line.is_empty()).expect("a line");
    assert!(first.starts_with(&format!("Open {}/ in a browser", server.url)), "{text}");
    let token = administrator(&text).to_owned();
    check(&server, &token);
    server.kill();

    let (server, text) = Server::start_demo(data.path());
    assert!(text.trim_start().starts_with(&format!("Open {}/ in a browser", server.url)), "{text}");
    check(&server, &token);
    server.kill();

    // A backup is the store alone.
    let restored = tempfile::tempdir().expect("a temporary folder");
    if databases::url_of(data.path()).is_none() {
        let name = "sqlite_key_value.db";
        for suffix in ["", "-wal"] {
            let name = format!("{name}{suffix}");
            let _ = std::fs::copy(data.path().join(&name), restored.path().join(&name));
        }
        let (server, text) = Server::start_demo(restored.path());
        assert!(text.contains("The demo is loaded"), "{text}");
        check(&server, &token);
    }
}

#[test]
fn a_demo_is_never_loaded_over_other_records() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let records = [
        json!({"kind": "user", "id": 1, "username": "alice", "is_admin": true}),
        json!({"kind": "group", "id": 5, "path": "prod", "visibility": "private"}),
        json!({"kind": "project", "id": 1, "path_with_namespace": "prod/secret", "namespace_id": 5}),
    ];
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    let server = Server::start(data.path());
    forge::import(&server, &lines);
    server.kill();
    // The file of a build that had its mark in the folder.
    std::fs::write(data.path().join("demo"), "").expect("a file");
    for _ in 0..2 {
        let (server, text) = Server::start_demo(data.path());
        assert!(text.contains("into an empty store only, and this one has group 5 (prod)"), "{text}");
        assert!(!text.contains("glpat-"), "{text}");
        server.kill();
    }
    let server = Server::start(data.path());
    for path in ["users?username=alice", "projects/prod%2Fsecret"] {
        let answer = server.get(path, BOOTSTRAP_TOKEN);
        assert!(answer.status == 200 && answer.text().contains("\"id\":1"), "{path}: {}", answer.text());
    }
}

#[test]
fn a_demo_that_is_killed_while_it_loads_is_finished() {
    let data = tempfile::tempdir().expect("a temporary folder");
    // Each start is killed as soon as the next of these pages exists.
    for path in [
        "/namespaces/showcase",
        "/packages/@showcase/cli?project=showcase/libraries",
        "/merge_requests/showcase/libraries/1",
    ] {
        let mut command = up(Path::new("spin.toml"), data.path());
        command.arg("--demo");
        let server = Server::spawn(command, data.path());
        wait_until(SOON, path, || {
            let answer = agent().get(format!("{}{path}", server.url)).call();
            answer.is_ok_and(|answer| answer.status() == 200)
        });
        server.kill();
    }
    let (server, text) = Server::start_demo(data.path());
    check(&server, administrator(&text));
    server.kill();
    let (server, text) = Server::start_demo(data.path());
    assert!(text.contains("The demo is loaded"), "{text}");
    drop(server);
}
