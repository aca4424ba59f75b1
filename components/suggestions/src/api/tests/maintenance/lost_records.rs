//! Checks of records that others name, and of counters.

use super::*;
use crate::api::tests::merge_requests::LIST;

/// A check of a copy of the store, after `damage`. Returns the problems.
fn check(forge: &Forge, damage: impl FnOnce(&MemoryStore)) -> Vec<String> {
    let timed = TimedForge::of(forge.copy());
    damage(&timed.forge.store);
    timed.run("fsck", "failed").1
}

/// The problems that a check reports for a store without this key.
fn without(forge: &Forge, key: &str) -> Vec<String> {
    check(forge, |store| store.delete(&format!("suggestions/v1/{key}")).unwrap())
}

/// A merge request with a suggestion and a reply, and one that was made here.
fn forge() -> Forge {
    let TimedForge { forge, .. } = TimedForge::new();
    forge.suggest(1, "a.txt", 2, &block("", "zwei"));
    let discussions = forge.get(&format!("{LIST}/1/discussions"), "").json();
    let reply = format!("{LIST}/1/discussions/{}/notes", discussions[0]["id"].as_str().unwrap());
    assert_eq!(forge.send(Method::POST, &reply, "rep", json!({"body": "really"})).status, 201);
    forge.refs_to_main(&["other"]);
    assert_eq!(create(&forge, "other").status, 201);
    assert_eq!(check(&forge, |_| ()), [""; 0]);
    forge
}

fn create(forge: &Forge, source: &str) -> TestResponse {
    let body = json!({"title": "A change", "source_branch": source, "target_branch": "main"});
    forge.send(Method::POST, LIST, "dev", body)
}

impl Forge {
    /// Creates branches at the commit of `main`.
    pub fn refs_to_main(&self, branches: &[&str]) {
        let head = self.head(PUBLIC, "main");
        let refs: Vec<Value> =
            branches.iter().map(|branch| json!({"name": format!("heads/{branch}"), "new": head})).collect();
        let path = format!("import/suggestions/{PUBLIC}/refs");
        let answer = self.send(Method::POST, &path, "root", json!({"refs": refs}));
        assert_eq!(answer.json()["failed"], json!([]));
    }
}

#[test]
fn a_lost_merge_request_with_comments_is_reported() {
    let forge = forge();
    let found = without(&forge, "merge_request/7/1");
    assert!(found.len() == 1 && found[0].contains("suggestions/v1/merge_request/7/1\""), "{found:?}");
    // Of a deleted project, the merge requests are removed first.
    dependents::delete_project(&forge.env(), PUBLIC).unwrap();
    assert_eq!(without(&forge, "merge_request/7/1"), [""; 0]);
}

#[test]
fn a_listed_merge_request_whose_writer_died_is_sound() {
    let forge = forge();
    forge.refs_to_main(&["third"]);
    let mut unwritten = 0;
    forge.fail_at_each_operation(|operations, after, failing| {
        let body = json!({"title": "T", "source_branch": "third", "target_branch": "main"}).to_string().into_bytes();
        send(after.env_over(failing), Method::POST, LIST, "dev", "application/json", body);
        let list = String::from_utf8(after.store.get("suggestions/v1/merge_requests/7").unwrap().unwrap()).unwrap();
        let is_written = after.store.exists("suggestions/v1/merge_request/7/3").unwrap();
        unwritten += usize::from(list.contains("third") && !is_written);
        assert_eq!(check(after, |_| ()), [""; 0], "after {operations} operations");
    });
    assert!(unwritten > 0);
}

#[test]
fn a_branch_that_lost_its_name_or_its_record_is_reported() {
    let forge = forge();
    let found = without(&forge, "branches/7");
    assert_eq!(found.len(), 3, "main, other and topic: {found:?}");
    assert!(found.iter().all(|problem| problem.contains("suggestions/v1/branches/7\"")), "{found:?}");
    let found = check(&forge, |store| {
        let key = "suggestions/v1/branches/7";
        let names = String::from_utf8(store.get(key).unwrap().unwrap()).unwrap();
        store.set(key, names.replace("\"heads/topic\"", "\"heads/topi\"").as_bytes()).unwrap();
    });
    assert!(found.len() == 1 && found[0].contains("branches/7") && found[0].contains("heads%2Ftopic"), "{found:?}");
    let found = without(&forge, "ref/7/heads%2Fmain");
    assert!(found.len() == 1 && found[0].contains("suggestions/v1/ref/7/heads%2Fmain\""), "{found:?}");

    dependents::delete_project(&forge.env(), PUBLIC).unwrap();
    for key in ["branches/7", "ref/7/heads%2Fmain"] {
        assert_eq!(without(&forge, key), [""; 0], "{key} of a deleted project");
    }
}

/// Earlier builds listed a name before they created its ref.
#[test]
fn a_listed_name_whose_ref_was_never_created_is_sound() {
    let forge = forge();
    let found = check(&forge, |store| {
        let key = "suggestions/v1/branches/7";
        let record = json!({"names": ["heads/main", "heads/never", "heads/other", "heads/topic"]});
        store.set(key, record.to_string().as_bytes()).unwrap();
    });
    assert_eq!(found, [""; 0]);
}

#[test]
fn refs_are_sound_wherever_a_request_dies() {
    let forge = forge();
    let head = forge.head(PUBLIC, "main");
    let changes = json!({"refs": [
        {"name": "heads/new", "new": head},
        {"name": "tags/v1", "new": head},
        {"name": "heads/other", "old": head},
    ]});
    forge.fail_at_each_operation(|_, copy, failing| {
        let path = format!("import/suggestions/{PUBLIC}/refs");
        send(copy.env_over(failing), Method::POST, &path, "root", "application/json", changes.to_string().into_bytes());
        let after = TimedForge::of(copy.over(copy.store.clone()));
        after.is_sound();
        // The next creation drops reservations of requests that died.
        after.advance(GRACE + 1000);
        after.refs(json!([{"name": "heads/next", "new": head}]));
        after.is_sound();
    });
}

#[test]
fn a_counter_that_is_behind_the_ids_in_use_is_reported() {
    let forge = forge();
    for counter in ["note", "suggestion", "merge_request"] {
        let key = format!("suggestions/v1/counter/{counter}");
        let values: [Option<&[u8]>; 4] = [None, Some(&[0; 8]), Some(&[0xff; 8]), Some(&[1])];
        for value in values {
            let found = check(&forge, |store| match value {
                Some(value) => store.set(&key, value).unwrap(),
                None => store.delete(&key).unwrap(),
            });
            assert!(!found.is_empty() && found.iter().all(|problem| problem.contains(&key)), "{value:?}: {found:?}");
        }
    }
}

#[test]
fn no_id_is_given_by_a_damaged_counter() {
    let forge = forge();
    let comment = || forge.comment(1, "rep", comment(&forge.head(PUBLIC, "topic"), "a.txt", 2, &block("", "x")));
    forge.refs_to_main(&["third"]);
    let create = || create(&forge, "third");
    let requests: [(&str, &dyn Fn() -> TestResponse); 3] =
        [("note", &comment), ("suggestion", &comment), ("merge_request", &create)];
    for (counter, request) in requests {
        let key = format!("suggestions/v1/counter/{counter}");
        let good = forge.store.get(&key).unwrap().unwrap();
        for bad in [&[0xff; 8][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x80], &[1]] {
            forge.store.set(&key, bad).unwrap();
            // The first request does not leave a counter that seems sound.
            for _ in 0..3 {
                assert_eq!(request().status, 500, "{counter} {bad:?}");
            }
            assert_eq!(forge.store.get(&key).unwrap().unwrap(), bad);
        }
        forge.store.set(&key, &good).unwrap();
        assert_eq!(request().status, 201);
    }
    assert_eq!(check(&forge, |_| ()), [""; 0]);
}
