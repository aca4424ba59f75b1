//! The host is killed during an import of issues. Afterwards, only whole batches are there, and the import can be
//! repeated.

use super::*;
use hexad_tests::forge::ADMIN;

/// Issues in one batch at most.
const BATCH: u64 = 32_768;
/// A batch and a part of the next.
const SENT: u64 = BATCH + 9_000;

/// Far longer than a batch takes.
const TIMEOUT: Duration = Duration::from_secs(60);

fn lines(range: std::ops::RangeInclusive<u64>) -> String {
    let line = |id| {
        format!(
            "{{\"kind\":\"issue\",\"id\":{id},\"iid\":{id},\"project_id\":{PUBLIC},\"title\":\"issue {id}\",\"state\":\"opened\"}}\n"
        )
    };
    range.map(line).collect()
}

fn count(server: &Server, query: &str) -> u64 {
    let path = format!("projects/{PUBLIC}/issues_statistics{query}");
    server.get(&path, ADMIN).json()["statistics"]["counts"]["all"].as_u64().expect("a number")
}

fn import(server: &Server, lines: String) {
    server.send("POST", "import/issues", ADMIN, lines).expect(200);
}

#[test]
fn an_import_that_is_killed_leaves_whole_batches() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    forge::seed(&server);
    let open = server.begin_import("issues", ADMIN, &lines(1..=SENT));
    wait_until(TIMEOUT, "the first batch", || count(&server, "") > 0);
    server.kill();
    drop(open);

    let server = Server::start(data.path());
    assert_eq!(count(&server, ""), BATCH);
    assert_eq!(count(&server, &format!("?search={BATCH}")), 1);
    assert_eq!(count(&server, &format!("?search={}", BATCH + 1)), 0);
    import(&server, lines(1..=SENT));
    assert_eq!(count(&server, ""), SENT);
    assert_eq!(count(&server, "?search=issue"), SENT);
}
