//! The demo of `hexad up --demo`, on the pages.

use hexad_tests::http::{agent, read};
use hexad_tests::server::Server;

/// A page, for the session of a token.
fn page(server: &Server, path: &str, token: &str) -> String {
    let request = agent().get(format!("{}{path}", server.url)).header("cookie", format!("hexad-session={token}"));
    let answer = read(request.call().expect("an answer")).expect("an answer");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

/// Checks that every page shows a record of the demo, once.
fn check(server: &Server, token: &str) {
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
        let text = page(server, path, token);
        assert!(text.contains(expected), "{expected:?} is not in {path}: {text}");
    }
    let merge_request = page(server, "/merge_requests/showcase/libraries/1", token);
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

    // As if the first start had been interrupted before its last step.
    std::fs::remove_file(data.path().join("demo")).expect("the mark of a loaded demo");
    let (server, text) = Server::start_demo(data.path());
    check(&server, administrator(&text));
}
