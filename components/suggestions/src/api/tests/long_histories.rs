//! Merge requests of more commits than a request reads.

use super::merge_requests::LIST;
use super::*;
use std::fmt::Write as _;
use std::io::Write as _;

/// A request reads so many commits.
const BOUND: usize = 20_000;

/// And so many to find a merge base.
const BASE_BOUND: usize = 50_000;

/// Adds commits to the branch `topic`, a minute apart.
fn add_commits(repository: &Repository, count: usize) {
    let head = repository.text(&["rev-parse", "topic"]);
    let mut stream = String::new();
    for number in 1..=count {
        let time = 1_700_000_000 + 60 * number;
        write!(stream, "commit refs/heads/topic\nmark :{number}\ncommitter A <a@x> {time} +0000\ndata 1\nx\n").unwrap();
        let from = if number == 1 { head.clone() } else { format!(":{}", number - 1) };
        write!(stream, "from {from}\n\n").unwrap();
    }
    let mut import = repository.command(&["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
    import.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    assert!(import.wait().unwrap().success());
}

#[test]
fn the_latest_commits_of_a_very_long_branch_are_listed() {
    let (forge, repository) = (Forge::new(), Repository::with(&[("a.txt", b"one\n")]));
    add_commits(&repository, BOUND + 100);
    forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "main", "topic"]).unwrap();
    forge.merge_request(1, json!({}));
    let expected = repository.text(&["rev-list", "main..topic"]);
    let expected: Vec<&str> = expected.lines().collect();
    let page = |number: usize| forge.get(&format!("{LIST}/1/commits?per_page=100&page={number}"), "").expect(200);
    let ids = |commits: Value| -> Vec<String> {
        commits.as_array().unwrap().iter().map(|commit| commit["id"].as_str().unwrap().to_owned()).collect()
    };
    for number in [1, 2, 200] {
        let answer = page(number);
        assert_eq!(ids(answer.json()), expected[100 * (number - 1)..100 * number], "page {number}");
        assert!(!answer.headers.contains_key("x-total"), "how many there are is not known");
        assert_eq!(answer.headers["x-next-page"].is_empty(), number == 200);
    }
    // A push of the newest of them to the target branch merges their merge requests.
    repository.git(&["branch", "-f", "late", "topic~50"]);
    forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "late"]).unwrap();
    forge.merge_request(2, json!({"source_branch": "late"}));
    forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "topic:main"]).unwrap();
    let states = [1, 2].map(|iid| forge.get(&format!("{LIST}/{iid}"), "").json()["state"].clone());
    assert_eq!(states, [json!("merged"), json!("merged")]);
}

#[test]
fn the_difference_of_a_very_long_branch_is_from_where_it_parted() {
    let (forge, repository) = (Forge::new(), Repository::with(&[("a.txt", b"one\n")]));
    let base = repository.text(&["rev-parse", "main"]);
    repository.write("of topic", b"new\n");
    repository.commit("of topic");
    add_commits(&repository, BASE_BOUND + 100);
    repository.git(&["branch", "late", &format!("topic~{}", BASE_BOUND - BOUND)]);
    repository.git(&["checkout", "-q", "main"]);
    repository.write("of main", b"new\n");
    repository.commit("of main");
    forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "main", "late", "topic"]).unwrap();

    forge.merge_request(1, json!({"source_branch": "late"}));
    let whole = forge.get(&format!("{LIST}/1/changes"), "").json();
    assert_eq!((&whole["diff_refs"]["base_sha"], &whole["overflow"]), (&json!(base), &json!(false)));
    let changes = whole["changes"].as_array().unwrap();
    assert_eq!((changes.len(), &changes[0]["new_path"]), (1, &json!("of topic")));
    assert_eq!(forge.get(&format!("{LIST}/1/diffs"), "").json(), whole["changes"]);

    // Beyond the bound the merge base is unknown, and no other difference is shown.
    forge.merge_request(2, json!({}));
    let whole = forge.get(&format!("{LIST}/2/changes"), "").json();
    assert_eq!((&whole["diff_refs"], &whole["overflow"]), (&Value::Null, &json!(true)));
    assert_eq!(whole["changes"], json!([]));
    let (status, why) = forge.get(&format!("{LIST}/2/diffs"), "").refusal();
    assert!(status == 422 && why.contains("too many commits"), "{status} {why}");
}
