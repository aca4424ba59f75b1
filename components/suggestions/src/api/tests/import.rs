//! Imports.

use super::*;
use crate::store::ref_names;

fn post(forge: &Forge, path: &str, token: &str, body: &[u8]) -> (u16, Value) {
    let answer =
        forge.send_bytes(Method::POST, &format!("import/suggestions{path}"), token, "text/plain", body.to_vec());
    (answer.status, answer.json())
}

#[test]
fn imports_are_for_administrators() {
    let forge = Forge::new();
    for path in ["", "/7/objects", "/7/refs"] {
        assert_eq!(post(&forge, path, "", b"").0, 401, "{path}");
        assert_eq!(post(&forge, path, "mia", b"").0, 403, "{path}");
    }
    assert_eq!(post(&forge, "/99/objects", "root", b"").0, 404);
    assert_eq!(post(&forge, "/99/refs", "root", b"{}").0, 404);
    assert_eq!(post(&forge, "/acme%2Fp7/objects", "root", b"").0, 200);
}

#[test]
fn good_lines_are_applied_and_bad_lines_are_reported() {
    let forge = Forge::new();
    let good = |iid: u64| {
        json!({"kind": "merge_request", "id": iid, "iid": iid, "target_project_id": PUBLIC, "source_branch": "s",
            "target_branch": "t", "state": "opened", "author": {"id": 1}, "labels": ["ignored"]})
    };
    let mut wrong = good(4);
    wrong["state"] = json!("melted");
    let lines = [
        good(1).to_string(),
        String::new(),
        "nonsense".into(),
        json!({"kind": "issue", "iid": 1}).to_string(),
        json!({"kind": "merge_request", "iid": 0}).to_string(),
        wrong.to_string(),
        json!({"kind": "merge_request", "iid": 5, "id": 5}).to_string(),
        "x".repeat(5 << 20),
        good(2).to_string(),
    ];
    let (status, report) = post(&forge, "", "root", lines.join("\n").as_bytes());
    assert_eq!((status, &report["imported"], &report["failed"]), (200, &json!({"merge_request": 2}), &json!(6)));
    let numbers: Vec<u64> =
        report["errors"].as_array().unwrap().iter().map(|bad| bad["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [3, 4, 5, 6, 7, 8], "{report}");
    for (iid, status) in [(1, 200), (2, 200), (4, 404)] {
        let path = format!("projects/{PUBLIC}/merge_requests/{iid}/discussions");
        assert_eq!(forge.get(&path, "").status, status, "{iid}");
    }
}

/// The list has all of the project's merge requests.
#[test]
fn the_list_is_changed_for_many_lines_at_once() {
    let forge = Forge::new();
    let line = |iid: u64| {
        json!({"kind": "merge_request", "id": iid, "iid": iid, "project_id": PUBLIC, "source_branch": "s",
            "target_branch": "t", "state": if iid.is_multiple_of(2) { "opened" } else { "merged" }})
    };
    let body = (1..=300).map(|iid| line(iid).to_string() + "\n").collect::<String>().into_bytes();
    let is_read = |operation: &str, key: &str| {
        key == format!("suggestions/v1/merge_requests/{PUBLIC}") && matches!(operation, "compare" | "get")
    };
    let (store, reads) = WatchedStore::counting(&forge.store, is_read);
    let answer = super::send(forge.env_over(store), Method::POST, "import/suggestions", "root", "", body);
    assert_eq!(answer.json()["imported"], json!({"merge_request": 300}), "{}", answer.text());
    assert!((3..=9).contains(&reads.get()), "{}", reads.get());
    let listed = forge.get(&format!("projects/{PUBLIC}/merge_requests?state=opened&per_page=1"), "root");
    assert_eq!(listed.headers["x-total"], "150");
}

#[test]
fn after_each_iid_that_is_imported_there_is_a_next_one() {
    let forge = Forge::new();
    forge.import(PUBLIC, &Repository::with(&[("a.txt", b"one\n")]));
    for (iid, expected) in [(u64::MAX, 1), (1 << 63, 1), (i64::MAX as u64, 0)] {
        let line = json!({"kind": "merge_request", "id": 1, "iid": iid, "project_id": PUBLIC, "source_branch": "s",
            "target_branch": "t"});
        let (status, report) = post(&forge, "", "root", line.to_string().as_bytes());
        assert_eq!((status, &report["failed"]), (200, &json!(expected)), "{report}");
    }
    let made = super::merge_requests::create(&forge, "dev", json!({}));
    assert_eq!((made.status, &made.json()["iid"]), (201, &json!(1_u64 << 63)), "{}", made.text());
    assert_eq!(forge.get(&format!("projects/{PUBLIC}/merge_requests/{}", 1_u64 << 63), "").status, 200);
}

#[test]
fn objects_are_stored_once_and_only_under_their_own_id() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a.txt", b"one\n"), ("empty", b"")]);
    let objects = repository.git(&["cat-file", "--batch", "--batch-all-objects"]);
    assert_eq!(post(&forge, "/7/objects", "root", &objects), (200, json!({"stored": 4, "known": 0})));
    assert_eq!(post(&forge, "/7/objects", "root", &objects), (200, json!({"stored": 0, "known": 4})));

    let id = "ce013625030ba8dba906f756967f9e9ca394464a";
    for (body, why) in [
        (format!("{id} blob 6\nHello\n\n"), "another id"),
        (format!("{id} tree 6\nhello\n\n"), "another id"),
        (format!("{id} blob 6\nhello\n"), "ends within"),
        (format!("{id} blob 6\nhello\nx"), "longer than"),
        (format!("{id} blob 6"), "ends within"),
        (format!("{id} blob\nhello\n"), "not a line"),
        (format!("{id} missing\n"), "not a line"),
        ("x".repeat(5000), "too long"),
    ] {
        let (status, answer) = post(&forge, "/7/objects", "root", body.as_bytes());
        assert!(status == 400 && answer["message"].as_str().unwrap().contains(why), "{body}: {answer}");
    }
    assert!(!forge.store.keys().iter().any(|key| key.ends_with(id)));
    assert_eq!(post(&forge, "/7/objects", "root", format!("{id} blob 6\nhello\n\n").as_bytes()).1["stored"], 1);
}

#[test]
fn a_large_object_lies_in_chunks_and_comes_out_whole() {
    let forge = Forge::new();
    // Does not compress, so that it needs as many chunks as it has MiB.
    let mut noise = vec![0; 20_000_000];
    fastrand::Rng::with_seed(1).fill(&mut noise);
    let repository = Repository::with(&[("noise", &noise), ("small", b"s\n")]);
    forge.import(PUBLIC, &repository);
    assert!(forge.store.keys().iter().filter(|key| key.starts_with("suggestions/v1/chunk/")).count() >= 19);
    let clone = forge.clone(PUBLIC);
    assert!(clone.git(&["show", "main:noise"]) == noise);
    // A file of this size cannot be edited; others can.
    forge.merge_request(1, Value::Null);
    let head = forge.head(PUBLIC, "topic");
    let answer = forge.comment(1, "rep", super::comment(&head, "noise", 1, &super::block("", "x"))).expect(400);
    assert!(answer.text().contains("16777216 bytes"), "{}", answer.text());
    let id = forge.suggest(1, "small", 1, &super::block("", "t"))[0];
    assert_eq!(forge.apply(id, "dev", Value::Null).status, 200);
}

#[test]
fn a_ref_is_updated_if_it_has_the_expected_value() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a.txt", b"one\n")]);
    let first = repository.text(&["rev-parse", "HEAD"]);
    let second = repository.commit("second");
    forge.import(PUBLIC, &repository);
    let refs = |body: Value| post(&forge, "/7/refs", "root", body.to_string().as_bytes()).1;
    let one = |name: &str, old: Value, new: Value| refs(json!({"refs": [{"name": name, "old": old, "new": new}]}));
    assert_eq!(one("heads/main", json!(first), json!(second))["moved"], 1);
    assert_eq!(one("heads/main", json!(first), json!(second))["unchanged"], 1, "again");
    assert_eq!(one("heads/new", json!(null), json!(first))["moved"], 1);
    assert_eq!(one("tags/v1", json!(null), json!(first))["moved"], 1);
    for (name, old, new) in [
        ("heads/main", json!(null), json!(first)),
        ("heads/main", json!(first), json!(null)),
        ("heads/x", json!(first), json!(second)),
        ("heads/x", json!(null), json!("0".repeat(40))),
        ("heads/../x", json!(null), json!(second)),
        ("main", json!(null), json!(second)),
    ] {
        let answer = one(name, old, new);
        assert_eq!((&answer["moved"], answer["failed"].as_array().unwrap().len()), (&json!(0), 1), "{name}: {answer}");
    }
    assert_eq!(one("heads/new", json!(first), json!(null))["moved"], 1, "deleted");
    assert_eq!(one("heads/new", json!(null), json!(second))["moved"], 1, "and made again");
    for bad in ["", "{}", "[]", r#"{"refs":[{"name":"heads/x","new":"short"}]}"#] {
        assert_eq!(post(&forge, "/7/refs", "root", bad.as_bytes()).0, 400, "{bad}");
    }
}

#[test]
fn a_branch_below_the_name_of_a_former_branch() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a.txt", b"one\n")]);
    repository.git(&["branch", "a"]);
    forge.import(PUBLIC, &repository);
    forge.delete_branch(PUBLIC, "a");
    repository.git(&["branch", "-d", "a"]);
    repository.git(&["branch", "a/init"]);
    forge.import(PUBLIC, &repository);
    assert_eq!(forge.head(PUBLIC, "a/init"), forge.head(PUBLIC, "main"));
}

#[test]
fn deleted_branches_are_forgotten() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a.txt", b"one\n")]);
    forge.import(PUBLIC, &repository);
    let names = || ref_names::read(&forge.env(), RepositoryId::first(PUBLIC)).unwrap().names;
    let before = names();
    for round in 0..20 {
        let branch = format!("topic-{round}");
        repository.git(&["branch", &branch]);
        forge.import(PUBLIC, &repository);
        assert!(names().contains(&format!("heads/{branch}")));
        repository.git(&["branch", "-D", &branch]);
        forge.delete_branch(PUBLIC, &branch);
    }
    assert_eq!(names(), before);
}

#[test]
fn a_lock_of_discussions_that_is_not_imported_is_reported() {
    let forge = Forge::new();
    let line = |iid: u64, is_locked: Value| {
        json!({"kind": "merge_request", "id": iid, "iid": iid, "project_id": PUBLIC, "source_branch": "s",
            "target_branch": "t", "discussion_locked": is_locked})
    };
    let lines = [line(1, json!(null)), line(2, json!(true)), line(3, json!(false))].map(|line| line.to_string());
    let (status, report) = post(&forge, "", "root", lines.join("\n").as_bytes());
    assert_eq!((status, &report["imported"]), (200, &json!({"merge_request": 3})));
    let warning = "discussion_locked is not supported by this server: who may read the merge request may comment";
    assert_eq!(report["warnings"], json!([{"line": 2, "warning": warning}]));
}
