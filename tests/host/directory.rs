//! The host is killed during an import of groups. The written records and the catalog, from which lists
//! are made, agree after the next import or check, and the import can be repeated.

use super::*;
use hexad_tests::wait::pause;
use serde_json::{Value, json};
use std::ops::RangeInclusive;

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
    server.get(path, BOOTSTRAP_TOKEN).expect(200).json()
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
    let checked = server.send("POST", "maintenance/admin/fsck", BOOTSTRAP_TOKEN, "").json();
    assert_eq!(checked["problems"], json!([]), "{checked}");
    let agreed: Vec<u64> = (1..=there).collect();
    assert_eq!(listed(&server), agreed, "a check completes the announced change before");

    let other = 1_000_000;
    forge::import(&server, &lines(other..=other));
    let agreed: Vec<u64> = agreed.into_iter().chain([other]).collect();
    assert_eq!(listed(&server), agreed);

    forge::import(&server, &lines(1..=2 * BATCH));
    let all: Vec<u64> = (1..=2 * BATCH).chain([other]).collect();
    assert_eq!(listed(&server), all);
    let last = get(&server, &format!("namespaces/g{}", 2 * BATCH));
    assert_eq!((&last["id"], &last["full_path"]), (&(2 * BATCH).into(), &format!("g{}", 2 * BATCH).into()));
}
