//! The host is killed during an import of issues. Afterwards, only whole batches are there, and the import can be
//! repeated.

use hexad_tests::forge::{self, ADMIN, PUBLIC};
use hexad_tests::server::Server;
use hexad_tests::wait::wait_until;
use std::time::Duration;

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
    let url = format!("{}/api/v4/projects/{PUBLIC}/issues_statistics{query}", server.url);
    let mut answer = ureq::get(url).header("private-token", ADMIN).call().expect("an answer");
    let text = answer.body_mut().read_to_string().expect("text");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    json["statistics"]["counts"]["all"].as_u64().expect("a number")
}

fn import(server: &Server, lines: String) {
    let url = format!("{}/api/v4/import/issues", server.url);
    let answer = ureq::post(url).header("private-token", ADMIN).content_type("application/x-ndjson").send(lines);
    assert_eq!(answer.expect("an answer").status(), 200);
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
