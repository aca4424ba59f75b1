//! Publications at the same time on stores of other hosts.

use super::*;
use kit::store::Store as _;
use kit::testing::{Behaviour, FailingStore, Simulation};

/// Several first publications of one package at once.
fn first_publications(seed: u64, behaviour: &Behaviour, publishers: u64) {
    let forge = Forge::new();
    let store = Simulation::new(seed, behaviour.clone());
    for key in forge.store.keys() {
        store.env(99).store.set(&key, &forge.store.get(&key).unwrap().unwrap()).unwrap();
    }
    let publisher = |number: u64| {
        move |env: Env| {
            let name = if number.is_multiple_of(2) { "lib" } else { "other" };
            TestResponse::of(env, publication(name, &format!("1.0.{number}")).to(PUBLIC)).status
        }
    };
    let statuses = store.run((0..publishers).map(publisher).collect());
    assert_eq!(statuses, vec![200; publishers as usize], "seed {seed}, {behaviour:?}");
    store.env(0).clock.sleep(std::time::Duration::from_secs(10));
    let get = |path: &str| TestResponse::of(store.env(99), request(Method::GET, path)).json();
    for (name, versions) in [("lib", publishers.div_ceil(2)), ("other", publishers / 2)] {
        let served = get(&format!("/groups/100/-/packages/npm/{name}"));
        let listed = served["versions"].as_object().map_or(0, |versions| versions.len() as u64);
        assert_eq!(listed, versions, "seed {seed}, {behaviour:?}, {name}");
    }
    let found = get("/projects/7/packages/npm/-/v1/search?text=");
    assert_eq!(found["total"], publishers.min(2), "the project's listing has every name");
}

#[test]
fn first_publications_at_once_lose_no_version_and_no_listing() {
    let file = Behaviour { read: 5..50, write: 1_300..4_000, seen_after: 0, stalls: 0, stall: 0 };
    let slow = Behaviour { read: 1_000..20_000, write: 300_000..700_000, ..file.clone() };
    for behaviour in [file, slow] {
        for (seed, publishers) in (0..8).zip([2, 3, 4, 8].into_iter().cycle()) {
            first_publications(seed, &behaviour, publishers);
        }
    }
}

const TAKEN: &str = "Validation failed: Package already exists";

/// Projects of one top-level group that may publish a name publish one version at once. Exactly one of them wins.
fn same_version_in_several_projects(seed: u64, behaviour: &Behaviour, name: &'static str, policy: &'static str) {
    let mut forge = Forge::new();
    let projects = [PUBLIC, INTERNAL, PRIVATE];
    let variables = vec![UNLIMITED, ("registry_name_policy", policy)];
    if policy == "owner" || seed.is_multiple_of(2) {
        // Each project has the name, as in a store of before names had owners.
        forge.variables.push(("registry_name_policy", "shared"));
        projects.iter().for_each(|id| drop(forge.publish(*id, name, &format!("0.0.{id}"))));
    }
    let store = Simulation::new(seed, behaviour.clone());
    for key in forge.store.keys() {
        store.env(99).store.set(&key, &forge.store.get(&key).unwrap().unwrap()).unwrap();
    }
    let publisher = |project: u64| {
        let variables = variables.clone();
        move |mut env: Env| {
            env.variables = testing::env(MemoryStore::default(), &variables).variables;
            let answer = TestResponse::of(env, publication(name, "1.0.0").to(project));
            (answer.status, answer.text())
        }
    };
    let answers = store.run(projects.map(publisher).into());
    let of_run = format!("seed {seed}, {behaviour:?}, {name}, {policy}: {answers:?}");
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 1, "{of_run}");
    assert!(
        answers.iter().all(|(status, text)| *status == 200 || (*status == 400 && text.contains(TAKEN))),
        "{of_run}"
    );
    let listed = |project: &u64| {
        let path = format!("/projects/{project}/packages/npm/{}/1.0.0", name.replace('/', "%2f"));
        TestResponse::of(store.env(99), request(Method::GET, &path)).status
    };
    let statuses: Vec<u16> = projects.iter().map(listed).collect();
    assert_eq!(statuses, answers.iter().map(|(status, _)| if *status == 200 { 200 } else { 404 }).collect::<Vec<_>>());
}

#[test]
fn of_projects_that_publish_one_version_at_once_one_wins() {
    let file = Behaviour { read: 5..50, write: 1_300..4_000, seen_after: 0, stalls: 0, stall: 0 };
    let slow = Behaviour { read: 1_000..20_000, write: 300_000..700_000, ..file.clone() };
    let slowest = Behaviour { read: 1_000..20_000, write: 1_500_000..2_500_000, ..file.clone() };
    let stalling = Behaviour { stalls: 50, stall: 5_000_000, ..file.clone() };
    for (behaviour, runs) in [(file, 20), (slow, 20), (slowest, 10), (stalling, 200)] {
        for seed in 0..runs {
            same_version_in_several_projects(seed, &behaviour, "@acme/lib", "shared");
            for name in ["@acme/lib", "lib", "@far/lib"].into_iter().filter(|_| seed < 20) {
                same_version_in_several_projects(seed, &behaviour, name, "owner");
            }
        }
    }
}

/// A broken-off publication leaves the version to later projects.
#[test]
fn whichever_operation_a_publication_breaks_off_at_another_project_can_publish_the_version() {
    for has_package in [false, true] {
        for operations in 0.. {
            let forge = Forge::shared();
            if has_package {
                [PUBLIC, INTERNAL].iter().for_each(|id| drop(forge.publish(*id, "@acme/lib", &format!("0.0.{id}"))));
            }
            let failing = FailingStore::after(operations, forge.store.clone());
            let publish = |env: Env, project: u64| TestResponse::of(env, publication("@acme/lib", "1.0.0").to(project));
            let first = publish(forge.env_over(failing.clone()), PUBLIC);
            if !failing.failed() {
                assert_eq!(first.status, 200);
                break;
            }
            assert_eq!(first.status, 500, "operation {operations}");
            let has_version = forge.get("/projects/7/packages/npm/@acme%2flib/1.0.0").status == 200;
            assert!(!has_version, "operation {operations}");
            assert_eq!(publish(forge.env(), INTERNAL).status, 200, "operation {operations}");
            publish(forge.env(), PUBLIC).is_refused(400, TAKEN);
        }
    }
}
