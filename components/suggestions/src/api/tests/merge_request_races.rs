//! Requests that open merge requests of the same branches at the same time, and requests that die in between.

use super::merge_requests::{LIST, create, forge};
use super::*;
use crate::store::merge_requests as store;
use kit::testing::{Behaviour, Simulation};
use std::time::Duration;

/// A request of `dev`: its method, its path, and its body.
type TestRequest = (Method, &'static str, Value);

fn creation(target: &str) -> TestRequest {
    (Method::POST, LIST, json!({"title": "A change", "source_branch": "topic", "target_branch": target}))
}

/// A forge with the branches `topic`, `main` and `other`.
fn forge_with_branches() -> Forge {
    let (forge, repository) = forge();
    repository.git(&["branch", "other", "main"]);
    forge.import(PUBLIC, &repository);
    forge
}

/// The iids of the open merge requests from `topic` into `main`.
fn open(env: &Env) -> Vec<u64> {
    let project = ProjectKey::parse("7").unwrap();
    let is_open = |iid: &u64| {
        let found = store::read(env, &project, *iid).unwrap();
        found.is_some_and(|found| found.is_open() && found.target_branch == "main")
    };
    store::list(env, &project).unwrap().iids.into_iter().filter(is_open).collect()
}

/// Sends the requests at the same time, in many orders of their operations on the store. Returns their statuses, with the
/// iids that are open in the end, each of which has to be listed as open.
fn race(forge: &Forge, requests: &[TestRequest], seeds: std::ops::Range<u64>) -> Vec<(Vec<u16>, Vec<u64>)> {
    let records: Vec<(String, Vec<u8>)> =
        forge.store.keys().into_iter().map(|key| (key.clone(), forge.store.get(&key).unwrap().unwrap())).collect();
    let run = |seed: u64| {
        let behaviour =
            Behaviour { read: 100..3_000, write: 500..4_000, seen_after: seed % 2 * 5_000, stalls: 50, stall: 20_000 };
        let simulation = Simulation::new(seed, behaviour);
        let env = simulation.env(0);
        records.iter().for_each(|(key, value)| env.store.set(key, value).unwrap());
        env.clock.sleep(Duration::from_millis(10));
        let writers = requests.iter().cloned().map(|(method, path, body)| {
            move |env: Env| {
                let answer = send(env, method, path, "dev", "application/json", body.to_string().into_bytes());
                assert!(matches!(answer.status, 200 | 201 | 409), "seed {seed}: {}", answer.text());
                answer.status
            }
        });
        let statuses = simulation.run(writers.collect());
        env.clock.sleep(Duration::from_millis(10));
        let open = open(&env);
        let listed = store::list(&env, &ProjectKey::parse("7").unwrap()).unwrap().open;
        assert!(open.iter().all(|iid| listed.iter().any(|one| one.iid == *iid)), "seed {seed}: {open:?} {listed:?}");
        (statuses, open)
    };
    seeds.map(run).collect()
}

#[test]
fn of_requests_that_make_the_same_merge_request_one_succeeds() {
    let forge = forge_with_branches();
    let requests = [creation("main"), creation("main"), creation("main")];
    for (seed, (statuses, open)) in race(&forge, &requests, 0..150).into_iter().enumerate() {
        let made = statuses.iter().filter(|status| **status == 201).count();
        assert_eq!((made, open.len()), (1, 1), "seed {seed}: {statuses:?} {open:?}");
    }
}

#[test]
fn of_requests_that_open_a_merge_request_of_the_same_branches_one_succeeds() {
    let forge = forge_with_branches();
    assert_eq!(create(&forge, "dev", json!({})).status, 201);
    let close = |iid: u64| {
        let closed = forge.send(Method::PUT, &format!("{LIST}/{iid}"), "dev", json!({"state_event": "close"}));
        assert_eq!(closed.status, 200);
    };
    close(1);
    assert_eq!(create(&forge, "dev", json!({})).status, 201);
    close(2);
    assert_eq!(create(&forge, "dev", json!({"target_branch": "other"})).status, 201);
    let put = |iid: u64, body: Value| -> TestRequest {
        let path = ["projects/7/merge_requests/1", "projects/7/merge_requests/2", "projects/7/merge_requests/3"];
        (Method::PUT, path[iid as usize - 1], body)
    };
    let requests = [
        put(1, json!({"state_event": "reopen"})),
        put(2, json!({"state_event": "reopen"})),
        put(3, json!({"target_branch": "main"})),
        creation("main"),
    ];
    let mut winners = BTreeSet::new();
    for (seed, (statuses, open)) in race(&forge, &requests, 0..300).into_iter().enumerate() {
        let succeeded = statuses.iter().filter(|status| **status != 409).count();
        assert_eq!((succeeded, open.len()), (1, 1), "seed {seed}: {statuses:?} {open:?}");
        winners.extend(open);
    }
    assert!(winners.len() > 2, "{winners:?}");
}

#[test]
fn a_merge_request_that_is_closed_and_reopened_meanwhile_is_open_once() {
    let forge = forge_with_branches();
    assert_eq!(create(&forge, "dev", json!({})).status, 201);
    let put = |body: Value| -> TestRequest { (Method::PUT, "projects/7/merge_requests/1", body) };
    let requests = [
        put(json!({"state_event": "close"})),
        put(json!({"state_event": "reopen"})),
        put(json!({"title": "Another"})),
        put(json!({"target_branch": "other"})),
        creation("main"),
    ];
    for (seed, (statuses, open)) in race(&forge, &requests, 0..100).into_iter().enumerate() {
        assert!(open.len() <= 1, "seed {seed}: {statuses:?} {open:?}");
    }
}

#[test]
fn a_request_that_dies_leaves_no_branches_that_are_taken() {
    let forge = forge_with_branches();
    let mut left = 0;
    let failures = forge.fail_at_each_operation(|operations, forge, failing| {
        let (method, path, body) = creation("main");
        let body = body.to_string().into_bytes();
        let env = forge.env_over(failing.clone());
        let first = send(env, method.clone(), path, "dev", "application/json", body.clone());
        if !failing.failed() {
            return assert_eq!(first.status, 201);
        }
        let before = open(&forge.env());
        left += before.len();
        let second = send(forge.env(), method, path, "dev", "application/json", body);
        let expected = if before.is_empty() { 201 } else { 409 };
        assert_eq!(second.status, expected, "after {operations} operations: {}", second.text());
        assert_eq!(open(&forge.env()).len(), 1, "after {operations} operations");
    });
    assert!(failures > 15 && left > 0, "{failures} {left}");
}
