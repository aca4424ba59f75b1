//! Garbage collection and checks.

use super::*;
use kit::Timestamp;
use kit::gc::GRACE;
use kit::store::Store as _;
use kit::testing::{CountingEntropy, FailingStore, NOW};
use std::rc::Rc;

fn step(env: &Env, token: &str, task: &str, body: Value) -> TestResponse {
    let path = format!("/api/v4/maintenance/issue-statistics/{task}");
    send_body(env, Method::POST, &path, token, body.to_string().into())
}

/// Runs every step of a task. Returns the sum of the field `number`, and the problems.
#[track_caller]
fn run(env: &Env, task: &str, number: &str) -> (u64, Vec<String>) {
    let (mut body, mut sum, mut problems) = (json!({"no_wait": true}), 0, Vec::new());
    loop {
        let answer = step(env, "root", task, body.clone());
        assert_eq!(answer.status, 200, "{}", answer.body);
        sum += answer.body[number].as_u64().unwrap();
        let found = answer.body["problems"].as_array().into_iter().flatten();
        problems.extend(found.map(|found| found["problem"].as_str().unwrap().to_owned()));
        if answer.body["cursor"].is_null() {
            return (sum, problems);
        }
        body["cursor"] = answer.body["cursor"].clone();
    }
}

fn later(env: &Env, millis: i64) -> Env {
    let now = Timestamp::from_millis(env.now.millis() + millis);
    Env { now, clock: Rc::new(now), instance_cache: Rc::default(), ..env.clone() }
}

/// Some segments, two of them with tombstones, and the blobs of failed imports.
fn forge_with_garbage() -> (MemoryStore, Env) {
    let store = MemoryStore::default();
    let env = forge_on(store.clone());
    let many = |ids: std::ops::Range<u64>| ids.map(|id| issue(id, json!({"title": format!("text {id}")})));
    import(&env, &many(1..40).collect::<Vec<_>>());
    import(&env, &many(30..50).collect::<Vec<_>>());
    import(&env, &many(45..55).collect::<Vec<_>>());
    let keys = store.keys().len();
    let lines: String = many(40..55).map(|line| format!("{line}\n")).collect();
    for operations in 15..25 {
        let failing = FailingStore::after(operations, store.clone());
        let env = Env { entropy: Rc::new(CountingEntropy::default()), ..kit::testing::env(failing, &[]) };
        env.entropy.fill(&mut vec![0; 10_000 * operations as usize]);
        assert_eq!(send_body(&env, Method::POST, "/api/v4/import/issues", "root", lines.clone().into()).status, 500);
    }
    assert!(store.keys().len() > keys + 20, "garbage of {} keys", store.keys().len() - keys);
    (store, env)
}

fn sample_counts(env: &Env) -> Vec<u64> {
    ["", "&search=text", "&search=7", "&author_id=2"]
        .map(|filter| all(&later(env, 0), "root", &format!("issues_statistics?scope=all{filter}")))
        .to_vec()
}

#[test]
fn garbage_is_removed_and_counts_stay() {
    let (store, env) = forge_with_garbage();
    let before = sample_counts(&env);
    assert_eq!(before[0], 54, "{before:?}");
    assert_eq!(run(&env, "gc", "removed").0, 0, "all blobs are too young");
    let env = later(&env, GRACE + 1000);
    let keys = store.keys().len() as u64;
    let removed = run(&env, "gc", "removed").0;
    assert!(removed > 20);
    assert_eq!(store.keys().len() as u64, keys - removed);
    assert_eq!(sample_counts(&env), before);
    assert_eq!(run(&env, "gc", "removed").0, 0);
    assert_eq!(run(&env, "fsck", "failed"), (0, vec![]));
}

#[test]
fn every_damaged_blob_is_reported() {
    let (store, env) = forge_with_garbage();
    let env = later(&env, GRACE + 1000);
    run(&env, "gc", "removed");
    assert!(run(&env, "fsck", "bytes").0 > 1000);
    let blobs = |key: &&String| key.contains("v1/segment/") || key.contains("v1/dead/");
    let mut damaged = 0;
    for key in store.keys().iter().filter(blobs) {
        let good = store.get(key).unwrap().unwrap();
        store.delete(key).unwrap();
        assert_eq!(run(&env, "fsck", "failed").0, 1, "{key} is missing");
        // A cut bitmap would be a valid shorter set.
        let cut = if key.contains("/dead/") { &b"x"[..] } else { &good[..good.len() / 2] };
        store.set(key, cut).unwrap();
        assert_eq!(run(&env, "fsck", "failed").0, 1, "{key} is cut");
        store.set(key, &good).unwrap();
        damaged += 1;
    }
    assert!(damaged > 20);
    store.set("issue-statistics/v1/index", b"{").unwrap();
    assert_eq!(run(&env, "fsck", "failed").0, 1);
    assert_eq!(step(&env, "root", "gc", json!({})).status, 409, "without a manifest no blob is known to be garbage");
}

#[test]
fn a_damaged_record_of_a_project_does_not_end_the_run() {
    let (store, env) = forge_with_garbage();
    let env = later(&env, GRACE + 1000);
    let keys: Vec<String> = store.keys().into_iter().filter(|key| key.starts_with("directory/v1/project/")).collect();
    assert!(!keys.is_empty());
    keys.iter().for_each(|key| store.set(key, b"{").unwrap());
    assert!(run(&env, "gc", "removed").0 > 20);
    assert_eq!(run(&env, "fsck", "failed"), (0, vec![]));
}

#[test]
fn a_batch_that_took_too_long_is_refused() {
    let store = MemoryStore::default();
    let env = forge_on(store.clone());
    let slow = Rc::new(Timestamp::from_millis(NOW.millis() + GRACE));
    let store_of = |env: &Env| crate::store::IndexStore::new(env);
    let late = store_of(&Env { clock: slow, ..env.clone() }).update_manifest(|manifest| {
        manifest.record_change("x");
        Ok((true, ()))
    });
    assert_eq!(late, Err(kit::store::StoreError::TooLate));
    import(&Env { now: Timestamp::from_millis(NOW.millis() - GRACE), ..env }, &[issue(1, json!({}))]);
}

#[test]
fn tasks_are_for_administrators() {
    let env = forge_on(MemoryStore::default());
    for task in ["gc", "fsck"] {
        assert_eq!(step(&env, "", task, json!({})).status, 401);
        assert_eq!(step(&env, "alice", task, json!({})).status, 403);
        assert_eq!(step(&env, "root", task, json!({"cursor": "x"})).status, 400);
    }
}
