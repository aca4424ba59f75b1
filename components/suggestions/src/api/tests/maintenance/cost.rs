//! The reads of a collection, and how long it keeps packs that were joined.

use super::*;
use crate::api::tests::ref_names::{Change, body, push};
use crate::store::packs::Packs;

/// A forge with a pushed repository of many tags, and no loose object.
fn pushed() -> TimedForge {
    let timed = TimedForge::of(Forge::new());
    let repository = example();
    timed.forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "main"]).unwrap();
    let head = ObjectId::parse(&repository.text(&["rev-parse", "main"]));
    let names: Vec<String> = (0..500).map(|number| format!("tags/v{number}")).collect();
    let changes: Vec<Change> = names.iter().map(|name| (name.as_str(), None, head)).collect();
    assert!(push(timed.forge.env(), &body(&changes, "")).contains("ok refs/tags/v499"));
    timed
}

/// A whole run. Returns how often each kind of key was read.
fn run(timed: &TimedForge) -> BTreeMap<String, usize> {
    let counts: Rc<RefCell<BTreeMap<String, usize>>> = Rc::default();
    let mut request = json!({});
    loop {
        let watch = {
            let counts = counts.clone();
            move |operation: &str, key: &str| {
                let kind = key.split('/').take(3).collect::<Vec<_>>().join("/");
                if operation == "get" {
                    *counts.borrow_mut().entry(kind).or_default() += 1;
                }
            }
        };
        let env = timed.env_over(WatchedStore::over(timed.forge.store.clone(), watch));
        let path = "maintenance/suggestions/gc";
        let answer = send(env, Method::POST, path, "root", "application/json", request.to_string().into_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        timed.advance(answer["wait_seconds"].as_i64().unwrap_or_default() * 1000);
        request["cursor"] = answer["cursor"].clone();
        if request["cursor"].is_null() {
            return counts.take();
        }
    }
}

#[test]
fn a_collection_reads_refs_and_objects_only_if_garbage_may_exist() {
    let timed = pushed();
    let read = |counts: &BTreeMap<String, usize>, kind: &str| counts.get(kind).copied().unwrap_or_default();
    // The semispaces exchange their roles; then the other one is due, and has no objects.
    for hours in [0, 25, 25, 25] {
        timed.advance(hours * HOUR);
        let counts = run(&timed);
        assert_eq!(read(&counts, "suggestions/v1/ref"), 0, "{counts:?}");
        assert_eq!(read(&counts, "suggestions/v1/pack"), 0, "{counts:?}");
        // A step visits 200 roots.
        assert!(read(&counts, "directory/v1/project") <= 12, "{counts:?}");
    }
    // A transaction that is old enough to be garbage, unless a ref names it.
    let id = timed.env().id();
    let key = format!("suggestions/v1/ref_transaction/{id}");
    timed.forge.store.set(&key, b"\"aborted\"").unwrap();
    timed.advance(HOUR);
    assert_eq!(read(&run(&timed), "suggestions/v1/ref"), 0);
    timed.advance(2 * HOUR);
    assert_eq!(read(&run(&timed), "suggestions/v1/ref"), 501);
    assert!(!timed.forge.store.keys().contains(&key));
    // A loose object.
    timed.objects_of(&example());
    for _ in 0..6 {
        timed.advance(25 * HOUR);
        run(&timed);
    }
    assert_eq!(timed.objects(), 0);
    timed.is_sound();
    timed.forge.clone(PUBLIC);
}

#[test]
fn packs_that_were_joined_are_kept_for_clones_that_have_begun() {
    let timed = pushed();
    let repository = example();
    let (mut listed, mut seen): (BTreeSet<String>, BTreeSet<String>) = Default::default();
    for number in 0..9 {
        repository.write("a.txt", format!("{number}\n").as_bytes());
        repository.commit("next");
        let env = timed.env();
        timed.forge.git_over(env.clone(), &repository, PUBLIC, "mia", &["push", "-q", "URL", "topic"]).unwrap();
        let packs = Packs::load(&env, RepositoryId::first(PUBLIC)).unwrap();
        listed = packs.list().packs.iter().map(|pack| pack.id.clone()).collect();
        seen.extend(listed.iter().cloned());
    }
    let replaced: Vec<&String> = seen.difference(&listed).collect();
    assert!(replaced.len() >= 7, "{replaced:?}");
    let stored = |id: &String| timed.forge.store.keys().contains(&format!("suggestions/v1/pack/{id}/0"));
    timed.advance(3 * HOUR);
    timed.gc();
    assert!(replaced.iter().all(|id| stored(id)));
    timed.advance(2 * HOUR);
    timed.gc();
    assert!(replaced.iter().all(|id| stored(id)));
    // One run removes the record that keeps the packs, and the next removes the packs.
    for _ in 0..2 {
        timed.advance(2 * HOUR);
        timed.gc();
    }
    assert!(!replaced.iter().any(|id| stored(id)));
    assert!(!timed.forge.store.keys().iter().any(|key| key.contains("/replaced_packs/")));
    timed.is_sound();
    timed.forge.clone(PUBLIC);
}
