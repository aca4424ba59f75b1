//! While the store takes no writes, because another program has its lock, requests that read go on.

use super::*;
use hexad_tests::forge::MAINTAINER;
use hexad_tests::http::{agent, read};

#[test]
fn reads_go_on_that_would_note_or_count_something() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    forge::seed(&server);
    let registry = Registry::new(&server, PUBLIC, DEVELOPER);
    let publish = |version| {
        registry.publish("lib", version, &package::tarball("lib", version, 1000, 1)).expect("an answer").status
    };
    assert_eq!(publish("1.0.0"), 200);
    let other = rusqlite::Connection::open(data.path().join("sqlite_key_value.db")).expect("the store");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    for (path, token, expected) in [
        ("user", MAINTAINER, 200),
        ("user", MAINTAINER, 200),
        (&format!("projects/{PUBLIC}/packages/npm/lib"), MAINTAINER, 200),
        (&format!("projects/{PUBLIC}/packages/npm/lib/-/lib-1.0.0.tgz"), MAINTAINER, 200),
        ("user", "wrong", 401),
        ("issues_statistics", "wrong", 401),
        ("groups/acme/-/packages/npm/lib", "", 200),
        ("packages/npm/-/v1/search?text=lib", "", 200),
    ] {
        let mut request = agent().get(format!("{}/api/v4/{path}", server.url));
        if !token.is_empty() {
            request = request.header("private-token", token);
        }
        let answer = request.call().and_then(read).expect("an answer");
        assert_eq!(answer.status, expected, "{path} {token}: {}", answer.text());
    }
    assert_eq!(publish("1.1.0"), 503);
    other.execute_batch("ROLLBACK").expect("the lock is given back");
    wait_until(SOON, "a store that takes writes", || publish("1.1.0") == 200);
}
