//! Merge requests that a push merges, and their fields afterwards.

use super::merge_requests::{LIST, create, forge, listed, state};
use super::ref_names::{body, push};
use super::*;
use crate::merge_request::{MergeRequest, MergeRequestState};
use crate::store::merge_requests;

#[test]
fn a_push_that_contains_the_head_merges() {
    let (forge, repository) = forge();
    repository.git(&["branch", "unmerged", "main"]);
    repository.git(&["checkout", "-q", "unmerged"]);
    repository.write("b.txt", b"b\n");
    repository.commit("not merged");
    repository.git(&["branch", "ancient", "main"]);
    forge.import(PUBLIC, &repository);
    for (iid, source) in [(1, "topic"), (2, "unmerged"), (3, "ancient")] {
        forge.merge_request(iid, json!({"source_branch": source}));
    }
    forge.merge_request(4, json!({"state": "closed"}));
    forge.merge_request(5, json!({"target_branch": "unmerged"}));
    let head = forge.head(PUBLIC, "topic");
    // A push of another commit.
    repository.git(&["checkout", "-q", "main"]);
    repository.write("c.txt", b"c\n");
    repository.commit("beside");
    forge.import(PUBLIC, &repository);
    assert_eq!(state(&forge, 1), "opened");
    repository.git(&["merge", "-q", "--no-ff", "-m", "merge", "topic"]);
    repository.write("d.txt", b"d\n");
    repository.commit("after the merge");
    forge.import(PUBLIC, &repository);
    assert_eq!([1, 2, 3, 4, 5].map(|iid| state(&forge, iid)), ["merged", "opened", "opened", "closed", "opened"]);
    let merged = forge.get(&format!("{LIST}/1"), "").json();
    assert_eq!((&merged["sha"], &merged["merged_by"]["username"]), (&json!(head), &json!("root")));
    assert_eq!(merged["merged_at"], "2026-09-21T14:13:20.000Z");
    assert_eq!(listed(&forge, "?state=merged"), [1]);
}

#[test]
fn closing_a_merge_request_that_is_merged_meanwhile_changes_nothing() {
    let (forge, _) = forge();
    assert_eq!(create(&forge, "dev", json!({})).status, 201);
    let last = "b".repeat(40);
    let (is_merged, sha, other) = (Cell::new(false), last.clone(), forge.env());
    // When it is to be closed, its branch has got a commit more, and was merged.
    let store = WatchedStore::over(forge.store.clone(), move |operation, key| {
        if operation == "swap" && key == "suggestions/v1/merge_request/7/1" && !is_merged.replace(true) {
            let merge = |present: Option<MergeRequest>| {
                let merged =
                    MergeRequest { state: MergeRequestState::Merged, sha: Some(sha.clone()), ..present.unwrap() };
                Ok::<_, StoreError>(Some((Some(merged), ())))
            };
            merge_requests::update(&other, &ProjectKey::parse("7").unwrap(), 1, merge).unwrap();
        }
    });
    let body = json!({"state_event": "close"}).to_string().into_bytes();
    let path = format!("{LIST}/1");
    let before = forge.get(&path, "").json();
    let closed = send(forge.env_over(store), Method::PUT, &path, "dev", "application/json", body);
    assert_eq!((closed.status, &closed.json()["state"]), (200, &json!("merged")), "{}", closed.text());
    let shown = forge.get(&path, "").json();
    assert_ne!(before["sha"], json!(last));
    assert_eq!((&shown["state"], &shown["sha"]), (&json!("merged"), &json!(last)));
}

#[test]
fn a_source_branch_that_is_deleted_with_the_merge_or_before_is_merged() {
    for is_before in [false, true] {
        let (forge, repository) = forge();
        assert_eq!(create(&forge, "dev", json!({})).status, 201);
        let shown = || forge.get(&format!("{LIST}/1"), "").json();
        let open = shown();
        let push = |arguments: &[&str]| {
            forge.git(&repository, PUBLIC, "mia", &[&["push", "-q", "URL"], arguments].concat()).unwrap();
        };
        if is_before {
            push(&[":topic"]);
            assert_eq!((&shown()["sha"], &shown()["diff_refs"]), (&open["sha"], &open["diff_refs"]));
            assert_eq!(shown()["state"], "opened");
        }
        let deletion: &[&str] = if is_before { &[] } else { &[":topic"] };
        push(&[&["topic:main"], deletion].concat());
        let merged = shown();
        assert_eq!((&merged["state"], &merged["sha"]), (&json!("merged"), &open["sha"]), "{is_before}");
        assert_eq!(merged["diff_refs"], open["diff_refs"]);
    }
}

/// A client deletes what it saw a while ago.
#[test]
fn a_late_deletion_does_not_change_where_the_branch_stood() {
    let (forge, repository) = forge();
    assert_eq!(create(&forge, "dev", json!({})).status, 201);
    let seen = forge.head(PUBLIC, "topic");
    repository.git(&["checkout", "-q", "topic"]);
    repository.write("later.txt", b"later\n");
    let last = repository.commit("later");
    for reference in ["topic", ":topic"] {
        forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", reference]).unwrap();
    }
    let report = push(forge.env(), &body(&[("heads/topic", ObjectId::parse(&seen), None)], ""));
    assert!(report.contains("ok refs/heads/topic"), "{report}");
    assert_eq!(forge.get(&format!("{LIST}/1"), "").json()["sha"], json!(last));
}

#[test]
fn a_merged_merge_request_keeps_its_changes_and_commits() {
    let (forge, repository) = forge();
    assert_eq!(create(&forge, "dev", json!({})).status, 201);
    let shown = |path: &str| forge.get(&format!("{LIST}/1/{path}"), "").json();
    let (changes, commits) = (shown("changes")["changes"].clone(), shown("commits"));
    assert_eq!((changes.as_array().unwrap().len(), commits.as_array().unwrap().len()), (1, 1));
    repository.git(&["checkout", "-q", "main"]);
    repository.git(&["merge", "-q", "--no-ff", "-m", "merge", "topic"]);
    forge.import(PUBLIC, &repository);
    assert_eq!(state(&forge, 1), "merged");
    assert_eq!((&shown("changes")["changes"], &shown("commits")), (&changes, &commits));
    assert_eq!(shown("diffs"), changes);
    forge.delete_branch(PUBLIC, "topic");
    assert_eq!((&shown("changes")["changes"], &shown("commits")), (&changes, &commits));
}
