//! Repositories of deleted projects, and of projects that have their ids.

use super::*;

/// The branches and tags that git sees.
fn refs(forge: &Forge, project: u64) -> String {
    forge.get(&format!("projects/{project}/repository.git/info/refs"), "root").text()
}

/// Deletes a project and makes another one with its id.
fn replace(forge: &Forge, project: u64) {
    dependents::delete_project(&forge.env(), project).unwrap();
    forge.project(project, |_| {});
}

/// How many keys there are of a repository of the first project with an id: roots and loose objects.
fn first_keys(forge: &Forge, project: u64) -> usize {
    let kinds =
        ["branches", "object", "object2", "packs", "ref"].map(|kind| format!("suggestions/v1/{kind}/{project}"));
    let is_first = |key: &str| kinds.iter().any(|kind| key == kind || key.starts_with(&format!("{kind}/")));
    forge.store.keys().iter().filter(|key| is_first(key)).count()
}

#[test]
fn a_project_with_the_id_of_a_deleted_one_has_nothing_of_its_repository() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    let first = forge.clone(PUBLIC);
    let (before, blob) = (refs(forge, PUBLIC), first.text(&["rev-parse", "topic:a.txt"]));
    assert!(before.contains("refs/heads/topic") && first_keys(forge, PUBLIC) > 0);
    replace(forge, PUBLIC);
    assert_eq!(refs(forge, PUBLIC), "");
    let fetched = forge.git(&Repository::empty(), PUBLIC, "root", &["fetch", "-q", "URL", &blob]);
    assert!(fetched.is_err(), "an object of the deleted project's repository was sent");

    let repository = Repository::with(&[("other", b"1\n")]);
    forge.import(PUBLIC, &repository);
    forge.merge_request(1, json!({}));
    let id = forge.suggest(1, "other", 1, &block("", "one"))[0];
    assert_eq!(timed.forge.apply(id, "dev", Value::Null).status, 200);
    let after = refs(forge, PUBLIC);
    timed.is_sound();
    timed.sweep_both();
    assert_eq!((first_keys(forge, PUBLIC), timed.has(&blob)), (0, false));
    assert_eq!(refs(forge, PUBLIC), after);
    assert_eq!(forge.clone(PUBLIC).text(&["show", "topic:other"]), "one");
    timed.is_sound();
}

#[test]
fn a_repository_that_an_earlier_build_kept_for_the_next_project_stays_its_own() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    let before = refs(forge, PUBLIC);
    replace(forge, PUBLIC);
    // The record as that build wrote it.
    let key = format!("directory/v1/project/{PUBLIC}");
    let mut record: Value = serde_json::from_slice(&forge.store.get(&key).unwrap().unwrap()).unwrap();
    record.as_object_mut().unwrap().remove("repository_incarnation").expect("the field is there");
    forge.store.set(&key, record.to_string().as_bytes()).unwrap();
    assert_eq!(refs(forge, PUBLIC), before);
    timed.sweep_both();
    assert_eq!(refs(forge, PUBLIC), before);
    forge.clone(PUBLIC);
    timed.is_sound();
}

/// A fork that merge request 3 comes from, and a suggestion on a file of it.
fn suggestion_on_fork(forge: &Forge) -> (Repository, u64) {
    let fork = example();
    fork.write("a.txt", b"one\ntwo\nthree\nfour\n");
    fork.commit("a fork's");
    forge.import(FORK, &fork);
    forge.merge_request(3, json!({"source_project_id": FORK}));
    let id = forge.suggest(3, "a.txt", 4, &block("", "vier"))[0];
    (fork, id)
}

#[test]
fn comments_on_a_deleted_fork_are_shown_without_its_files() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    let (fork, id) = suggestion_on_fork(forge);
    assert_eq!(forge.flags(id), (true, false));
    replace(forge, FORK);
    // The next project has a branch of that name, and the same file.
    forge.import(FORK, &fork);
    let look = || {
        assert_eq!(forge.flags(id), (false, false));
        assert_eq!(forge.apply(id, "root", Value::Null).status, 403);
        let discussions = forge.get(&format!("projects/{PUBLIC}/merge_requests/3/discussions"), "otto");
        assert_eq!((discussions.status, discussions.json().as_array().unwrap().len()), (200, 1));
        let shown = forge.get(&format!("projects/{PUBLIC}/merge_requests/3"), "otto").json();
        assert_eq!(shown["sha"], Value::Null);
    };
    timed.sweep_both();
    look();
    assert_eq!(first_keys(forge, FORK), 0);
    timed.is_sound();
}

#[test]
fn the_merge_requests_of_a_deleted_project_are_removed_in_steps() {
    const COUNT: usize = 3_000;
    let timed = TimedForge::new();
    let forge = &timed.forge;
    let list = format!("suggestions/v1/merge_requests/{PUBLIC}");
    let record = |iid: usize| format!("suggestions/v1/merge_request/{PUBLIC}/{iid}");
    let iids: Vec<usize> = (1..=COUNT).collect();
    forge.store.set(&list, json!({"iids": iids}).to_string().as_bytes()).unwrap();
    iids.iter().for_each(|iid| forge.store.set(&record(*iid), b"null").unwrap());
    dependents::delete_project(&forge.env(), PUBLIC).unwrap();
    timed.advance(25 * HOUR);
    let left = || iids.iter().filter(|iid| forge.store.get(&record(**iid)).unwrap().is_some()).count();
    let (mut body, mut largest) = (json!({}), 0);
    loop {
        let before = left();
        let answer = timed.step("gc", &body).expect(200);
        let answer = answer.json();
        largest = largest.max(before - left());
        assert_eq!(forge.store.get(&list).unwrap().is_some(), left() > 0, "the list is the last");
        timed.advance(answer["wait_seconds"].as_i64().unwrap_or_default() * 1000);
        if answer["cursor"].is_null() {
            break;
        }
        body["cursor"] = answer["cursor"].clone();
    }
    assert_eq!(left(), 0);
    assert!((1..COUNT / 2).contains(&largest), "{largest} in one step");
}

#[test]
fn everything_of_a_project_whose_record_is_damaged_is_kept_and_the_run_goes_on() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    forge.import(FORK, &example());
    let id = forge.suggest(1, "a.txt", 1, &block("", "one!"))[0];
    assert_eq!(timed.forge.apply(id, "dev", Value::Null).status, 200);
    dependents::delete_project(&forge.env(), FORK).unwrap();
    let (before, key) = (refs(forge, PUBLIC), format!("directory/v1/project/{PUBLIC}"));
    let record = forge.store.get(&key).unwrap().unwrap();
    forge.store.set(&key, b"{").unwrap();
    for _ in 0..8 {
        timed.advance(25 * HOUR);
        let (failed, problems) = timed.run("gc", "failed");
        assert!(failed > 0 && problems.iter().all(|problem| problem.contains(&key)), "{problems:?}");
    }
    assert_eq!(first_keys(forge, FORK), 0, "the deleted project's repository is removed all the same");
    forge.store.set(&key, &record).unwrap();
    assert_eq!(refs(forge, PUBLIC), before);
    assert_eq!(forge.clone(PUBLIC).text(&["show", "topic:a.txt"]).lines().next(), Some("one!"));
    assert_eq!(forge.get(&format!("suggestions/{id}"), "dev").status, 200);
    timed.is_sound();
}

#[test]
fn comments_on_a_fork_whose_record_is_damaged_keep_its_files() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    let (_, id) = suggestion_on_fork(forge);
    let key = format!("directory/v1/project/{FORK}");
    let record = forge.store.get(&key).unwrap().unwrap();
    forge.store.set(&key, b"{").unwrap();
    timed.sweep_both();
    forge.store.set(&key, &record).unwrap();
    assert_eq!(forge.flags(id), (true, false));
    timed.is_sound();
}

#[test]
fn a_damaged_list_of_merge_requests_of_a_deleted_project_does_not_end_the_run() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    dependents::delete_project(&forge.env(), PUBLIC).unwrap();
    forge.store.set(&format!("suggestions/v1/merge_requests/{PUBLIC}"), b"{").unwrap();
    timed.advance(25 * HOUR);
    timed.gc();
    let left = |key: &String| key.starts_with("suggestions/v1/merge_request");
    assert_eq!(forge.store.keys().into_iter().filter(left).count(), 0);
    timed.is_sound();
}
