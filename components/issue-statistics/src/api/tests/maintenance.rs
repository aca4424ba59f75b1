//! Garbage collection and checks.

use super::*;
use kit::Timestamp;
use kit::gc::GRACE;
use kit::store::Store as _;
use kit::testing::{CountingEntropy, FailingStore, NOW};
use std::collections::BTreeSet;
use std::rc::Rc;

fn step(env: &Env, token: &str, task: &str, body: Value) -> TestResponse {
    let path = format!("/api/v4/maintenance/issue-statistics/{task}");
    send_body(env, Method::POST, &path, token, body.to_string().into())
}

/// Runs every step of a task. Returns the sum of the field `number`, and the keys of the problems.
#[track_caller]
fn run(env: &Env, task: &str, number: &str) -> (u64, Vec<String>) {
    let (mut body, mut sum, mut problems) = (json!({"no_wait": true}), 0, Vec::new());
    loop {
        let answer = step(env, "root", task, body.clone());
        assert_eq!(answer.status, 200, "{}", answer.body);
        sum += answer.body[number].as_u64().unwrap();
        let found = answer.body["problems"].as_array().into_iter().flatten();
        problems.extend(found.map(|found| found["key"].as_str().unwrap().to_owned()));
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
        // A truncated bitmap would be a valid, smaller set.
        let cut = if key.contains("/dead/") { &b"x"[..] } else { &good[..good.len() / 2] };
        store.set(key, cut).unwrap();
        assert_eq!(run(&env, "fsck", "failed").0, 1, "{key} is cut");
        store.set(key, &good).unwrap();
        damaged += 1;
    }
    assert!(damaged > 20);
    for damaged in [&b"{"[..], b""] {
        store.set("issue-statistics/v1/index", damaged).unwrap();
        assert_eq!(run(&env, "fsck", "failed").0, 1);
        let found = step(&env, "root", "gc", json!({})).status;
        assert_eq!(found, 409, "without a manifest no blob is known to be garbage");
        assert_eq!(get(&later(&env, 0), "root", "issues_statistics?scope=all").status, 500);
    }
}

/// The keys of all blobs in use except the headers of segments.
fn pages_and_tombstones(store: &MemoryStore) -> Vec<String> {
    let is_blob = |key: &String| key.contains("v1/segment/") && !key.ends_with("/head") || key.contains("v1/dead/");
    store.keys().into_iter().filter(is_blob).collect()
}

fn heads(store: &MemoryStore) -> Vec<String> {
    store.keys().into_iter().filter(|key| key.ends_with("/head")).collect()
}

/// Copies of a blob, each with one changed bit: in the first, a middle or the last byte.
fn with_changed_bits(good: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    [0, good.len() / 2, good.len() - 1].into_iter().flat_map(move |byte| {
        [1, 2, 0x40].into_iter().map(move |bit| {
            let mut changed = good.to_vec();
            changed[byte] ^= bit;
            changed
        })
    })
}

#[test]
fn a_check_finds_every_changed_bit() {
    let (store, env) = forge_with_garbage();
    let env = later(&env, GRACE + 1000);
    run(&env, "gc", "removed");
    for key in pages_and_tombstones(&store).into_iter().chain(heads(&store)) {
        let good = store.get(&key).unwrap().unwrap();
        for changed in with_changed_bits(&good) {
            store.set(&key, &changed).unwrap();
            assert_eq!(run(&env, "fsck", "failed"), (1, vec![key.clone()]));
        }
        store.set(&key, &good).unwrap();
    }
    let [first, second] = [0, 1].map(|number| pages_and_tombstones(&store)[number].clone());
    [&first, &second].iter().for_each(|key| store.set(key, b"damaged").unwrap());
    let mut found = run(&env, "fsck", "failed");
    found.1.sort_unstable();
    assert_eq!(found, (2, vec![first, second]), "each damaged page of a segment is named");
}

/// The counts of queries that together read each table. Each query has a new instance; `None` is 500.
fn counts_of_each_table(env: &Env) -> Vec<Option<Value>> {
    ["created_after=2020-01-01", "updated_before=2030-01-01", "search=text", "search=ex", "search=%22text+1%22"]
        .map(|query| {
            let answer = get(&later(env, 0), "root", &format!("issues_statistics?scope=all&{query}"));
            assert!(matches!(answer.status, 200 | 500), "{}", answer.status);
            (answer.status == 200).then_some(answer.body)
        })
        .to_vec()
}

#[test]
fn no_changed_bit_gives_another_count() {
    let (store, env) = forge_with_garbage();
    let env = later(&env, GRACE + 1000);
    run(&env, "gc", "removed");
    let right = counts_of_each_table(&env);
    assert!(right.iter().all(Option::is_some), "{right:?}");
    let mut found = BTreeSet::new();
    for key in pages_and_tombstones(&store).into_iter().chain(heads(&store)) {
        let good = store.get(&key).unwrap().unwrap();
        for changed in with_changed_bits(&good) {
            store.set(&key, &changed).unwrap();
            let counts = counts_of_each_table(&env);
            let is_right = |(count, right): (&Option<Value>, &Option<Value>)| count.is_none() || count == right;
            assert!(counts.iter().zip(&right).all(is_right), "{key}: {counts:?}");
            if counts != right {
                found.insert(key.split('/').nth(4).unwrap_or("tombstones").to_owned());
            }
        }
        store.set(&key, &good).unwrap();
    }
    let texts = ["grams", "title-documents", "title-lengths", "title-places", "words"];
    let others = ["created", "head", "terms", "tombstones", "updated"];
    assert_eq!(found, texts.into_iter().chain(others).map(str::to_owned).collect());
}

#[test]
fn a_damaged_page_of_ids_ends_an_import() {
    let (store, env) = forge_with_garbage();
    for key in pages_and_tombstones(&store).iter().filter(|key| key.ends_with("/ids/0")) {
        let mut page = store.get(key).unwrap().unwrap();
        let middle = page.len() / 2;
        page[middle] ^= 1;
        store.set(key, &page).unwrap();
    }
    let line = format!("{}\n", issue(1, json!({})));
    let env = later(&env, 0);
    assert_eq!(send_body(&env, Method::POST, "/api/v4/import/issues", "root", line.into()).status, 500);
}

/// Removes all checksums, as in an index of an earlier build.
fn remove_checksums(store: &MemoryStore) {
    fn remove(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| !name.starts_with("checksum"));
                fields.values_mut().for_each(remove);
            }
            Value::Array(values) => values.iter_mut().for_each(remove),
            _ => {}
        }
    }
    for key in heads(store).into_iter().chain(["issue-statistics/v1/index".to_owned()]) {
        let mut value = serde_json::from_slice(&store.get(&key).unwrap().unwrap()).unwrap();
        remove(&mut value);
        store.set(&key, &serde_json::to_vec(&value).unwrap()).unwrap();
    }
}

#[test]
fn segments_without_checksums_are_read_and_their_tables_compared() {
    let (store, env) = forge_with_garbage();
    let right = counts_of_each_table(&env);
    let env = later(&env, GRACE + 1000);
    run(&env, "gc", "removed");
    remove_checksums(&store);
    assert_eq!((counts_of_each_table(&env), run(&env, "fsck", "failed")), (right, (0, vec![])));
    for table in ["ids", "created", "updated", "words", "title-lengths", "title-documents", "title-places"] {
        let key = pages_and_tombstones(&store).into_iter().find(|key| key.ends_with(&format!("/{table}/0"))).unwrap();
        let good = store.get(&key).unwrap().unwrap();
        let found = (0..good.len()).filter(|byte| {
            let mut changed = good.clone();
            changed[*byte] ^= 4;
            store.set(&key, &changed).unwrap();
            let (failed, keys) = run(&env, "fsck", "failed");
            assert_eq!((failed as usize, keys.len() < 2), (keys.len(), true));
            failed == 1
        });
        assert!(found.count() > good.len() * 3 / 4, "{table}");
        store.set(&key, &good).unwrap();
    }
}

#[test]
fn a_merge_gives_checksums() {
    let store = MemoryStore::default();
    let env = forge_on(store.clone());
    for id in 1..=3 {
        import(&env, &[issue(id, json!({"title": "old"}))]);
    }
    remove_checksums(&store);
    assert!(heads(&store).iter().all(|key| !has_checksums(&store, key)));
    let env = later(&env, 0);
    import(&env, &[issue(4, json!({"title": "new"}))]);
    let manifest: Value = serde_json::from_slice(&store.get("issue-statistics/v1/index").unwrap().unwrap()).unwrap();
    let [merged] = manifest["segments"].as_array().unwrap().as_slice() else { panic!("{manifest}") };
    let head = format!("issue-statistics/v1/segment/{}/head", merged["id"].as_str().unwrap());
    assert!(merged["checksum"].is_u64() && has_checksums(&store, &head));
    assert_eq!(all(&env, "root", "issues_statistics?scope=all&search=old"), 3);
}

/// Whether each table of a segment has a checksum for each page.
fn has_checksums(store: &MemoryStore, head: &str) -> bool {
    let head: Value = serde_json::from_slice(&store.get(head).unwrap().unwrap()).unwrap();
    let count = |table: &Value, list: &str| table[list].as_array().map_or(0, Vec::len);
    head["tables"].as_object().unwrap().values().all(|table| count(table, "pages") == count(table, "checksums"))
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
