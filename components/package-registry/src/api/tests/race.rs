//! Publications at the same time on stores of other hosts.

use super::*;
use kit::store::Store as _;
use kit::testing::{Behaviour, Simulation};

/// Several first publications of one package at once.
fn first_publications(seed: u64, behaviour: &Behaviour, publishers: u64) {
    let forge = Forge::new();
    let store = Simulation::new(seed, behaviour.clone());
    for key in forge.store.keys() {
        store.set(&key, &forge.store.get(&key).unwrap().unwrap()).unwrap();
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
