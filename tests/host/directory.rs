//! The host is killed during an import of groups. The written records and the catalog, from which lists
//! are made, agree after the next import or check, and the import can be repeated.

use hexad_tests::server::{BOOTSTRAP_TOKEN, Server};
use hexad_tests::wait::{pause, wait_until};
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::time::Duration;

/// How many lines the component applies together before it updates the catalog.
const BATCH: u64 = 16 * 1024;
/// Lines of the second batch before the kill.
const INTO: u64 = 500;

/// Far longer than two batches take.
const TIMEOUT: Duration = Duration::from_secs(200);

/// The pause between two checks. Each check is a request, so frequent ones would slow the import down.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

fn lines(range: RangeInclusive<u64>) -> String {
    range.map(|id| format!("{{\"kind\":\"group\",\"id\":{id},\"path\":\"g{id}\",\"name\":\"Group {id}\"}}\n")).collect()
}

fn get(server: &Server, path: &str) -> Value {
    let request = ureq::get(format!("{}/api/v4/{path}", server.url)).header("private-token", BOOTSTRAP_TOKEN);
    let text = request.call().expect("an answer").body_mut().read_to_string().expect("text");
    serde_json::from_str(&text).expect("JSON")
}

/// Whether there is a record of a group.
fn is_recorded(server: &Server, id: u64) -> bool {
    get(server, &format!("namespaces/g{id}/exists"))["exists"].as_bool().expect("a boolean")
}

/// The ids in the catalog.
fn listed(server: &Server) -> Vec<u64> {
    let mut all = Vec::new();
    loop {
        let page = get(server, &format!("namespaces?per_page=100&page={}", all.len() / 100 + 1));
        let ids: Vec<u64> = page.as_array().expect("a list").iter().filter_map(|entry| entry["id"].as_u64()).collect();
        all.extend(&ids);
        if ids.len() < 100 {
            return all;
        }
    }
}

fn import(server: &Server, lines: String) {
    let url = format!("{}/api/v4/import/directory", server.url);
    let request = ureq::post(url).header("private-token", BOOTSTRAP_TOKEN).content_type("application/x-ndjson");
    let text = request.send(lines).expect("an answer").body_mut().read_to_string().expect("text");
    assert!(text.contains("\"failed\":0"), "{text}");
}

#[test]
fn an_import_that_is_killed_leaves_a_catalog_that_agrees_with_the_records() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    let open = server.begin_import("directory", BOOTSTRAP_TOKEN, &lines(1..=2 * BATCH));
    wait_until(TIMEOUT, "the second batch", || {
        pause(BETWEEN_LOOKS);
        is_recorded(&server, BATCH + INTO)
    });
    server.kill();
    drop(open);

    let server = Server::start(data.path());
    let whole: Vec<u64> = (1..=BATCH).collect();
    assert_eq!(listed(&server), whole, "the second batch had records only");
    assert!(is_recorded(&server, BATCH) && is_recorded(&server, BATCH + INTO), "a record that was shown is lost");

    // Records are written in the order of the lines, so a binary search finds their end.
    let (mut there, mut missing) = (BATCH + INTO, 2 * BATCH + 1);
    while there + 1 < missing {
        let middle = there + (missing - there) / 2;
        if is_recorded(&server, middle) { there = middle } else { missing = middle }
    }
    let url = format!("{}/api/v4/maintenance/admin/fsck", server.url);
    let checked = ureq::post(url).header("private-token", BOOTSTRAP_TOKEN).send_empty().expect("an answer");
    let checked = checked.into_body().read_to_string().expect("text");
    let checked: Value = serde_json::from_str(&checked).expect("JSON");
    assert_eq!(checked["problems"], json!([]), "{checked}");
    let agreed: Vec<u64> = (1..=there).collect();
    assert_eq!(listed(&server), agreed, "a check completes the announced change before");

    let other = 1_000_000;
    import(&server, lines(other..=other));
    let agreed: Vec<u64> = agreed.into_iter().chain([other]).collect();
    assert_eq!(listed(&server), agreed);

    import(&server, lines(1..=2 * BATCH));
    let all: Vec<u64> = (1..=2 * BATCH).chain([other]).collect();
    assert_eq!(listed(&server), all);
    let last = get(&server, &format!("namespaces/g{}", 2 * BATCH));
    assert_eq!((&last["id"], &last["full_path"]), (&(2 * BATCH).into(), &format!("g{}", 2 * BATCH).into()));
}
