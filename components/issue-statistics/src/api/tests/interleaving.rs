//! Another request interrupts a request at each of its store operations.

use super::*;
use crate::store::RETENTION_MILLIS;
use kit::Timestamp;
use kit::store::Store;
use kit::testing::WatchedStore;
use std::cell::Cell;
use std::rc::Rc;

/// A store that calls `interrupt` once, after so many operations, and whether it was called.
#[derive(Clone)]
struct InterruptedStore {
    store: WatchedStore,
    is_done: Rc<Cell<bool>>,
}

impl InterruptedStore {
    fn new(inner: MemoryStore, operations: u64, interrupt: impl Fn() + 'static) -> Self {
        let (is_done, count) = (Rc::new(Cell::new(false)), Cell::new(0));
        let done = is_done.clone();
        let watch = move |_: &str, _: &str| {
            if count.replace(count.get() + 1) == operations {
                done.set(true);
                interrupt();
            }
        };
        InterruptedStore { store: WatchedStore::over(inner, watch), is_done }
    }

    fn is_done(&self) -> bool {
        self.is_done.get()
    }
}

/// The environment of another instance, with an empty cache and other ids.
fn instance(store: impl Store + 'static, number: usize) -> Env {
    let env = kit::testing::env(store, &[]);
    env.entropy.fill(&mut vec![0; 8 + 80_000 * number]);
    env
}

fn lines(ids: std::ops::Range<u64>, title: &str) -> Vec<Value> {
    ids.map(|id| issue(id, json!({"title": format!("{title} {id}")}))).collect()
}

/// Three segments. One more import merges them.
fn forge_before_a_merge() -> MemoryStore {
    let store = MemoryStore::default();
    let env = forge_on(store.clone());
    (0..3).for_each(|number| _ = import(&env, &lines(number * 5 + 1..number * 5 + 6, "old text")));
    store
}

/// Calls `check` once for each store operation and interrupts it there, until a call ends without interruption.
fn at_every_operation(interrupt: fn(&MemoryStore), check: impl Fn(&InterruptedStore, &MemoryStore)) {
    at_every_operation_on(forge_before_a_merge, interrupt, check);
}

fn at_every_operation_on(
    forge: fn() -> MemoryStore,
    interrupt: fn(&MemoryStore),
    check: impl Fn(&InterruptedStore, &MemoryStore),
) {
    for operations in 0.. {
        let store = forge();
        let other = store.clone();
        let interrupted = InterruptedStore::new(store.clone(), operations, move || interrupt(&other));
        check(&interrupted, &store);
        if !interrupted.is_done() {
            return assert!(operations > 10, "interrupted {operations} times");
        }
    }
}

const SEARCH: &str = "issues_statistics?scope=all&search=%22text+1%22&labels=None";

/// Imports twice and so replaces all earlier segments.
fn replace_segments(store: &MemoryStore) {
    let env = instance(store.clone(), 1);
    import(&env, &lines(1..6, "new text"));
    import(&env, &lines(3..6, "new text"));
}

/// The second import comes so late that it also deletes the replaced segments.
fn replace_and_delete_segments(store: &MemoryStore) {
    let env = instance(store.clone(), 1);
    import(&env, &lines(1..6, "new text"));
    let now = Timestamp::from_millis(env.now.millis() + RETENTION_MILLIS);
    import(&Env { now, clock: Rc::new(now), ..env }, &lines(3..6, "new text"));
}

#[test]
fn a_count_is_right_whenever_segments_are_replaced() {
    for interrupt in [replace_segments, replace_and_delete_segments] {
        at_every_operation(interrupt, |interrupted, _| {
            let answer = get(&instance(interrupted.store.clone(), 2), "root", SEARCH);
            assert_eq!(answer.status, 200, "{}", answer.body);
            // Issue 1 and issues 10 to 15, in their old or new texts.
            assert_eq!(answer.body["statistics"]["counts"]["all"], 7);
        });
    }
}

#[test]
fn imports_at_the_same_time_lose_nothing() {
    at_every_operation(replace_segments, |interrupted, store| {
        let env = instance(interrupted.store.clone(), 2);
        let report = import(&env, &lines(20..25, "third text"));
        assert_eq!(report["imported"]["issue"], 5);
        if interrupted.is_done() {
            let fresh = instance(store.clone(), 3);
            let count = |query: &str| all(&fresh, "root", &format!("issues_statistics?scope=all&search={query}"));
            assert_eq!(["text", "old", "new", "third"].map(count), [20, 10, 5, 5]);
        }
    });
}

/// Alice is a Reporter of a private project with an issue.
fn forge_with_a_reporter() -> MemoryStore {
    let store = MemoryStore::default();
    let env = forge_on(store.clone());
    join(&env, 2, Source::Project(101), Role::Reporter);
    import(&env, &[issue(1, json!({"project_id": 101}))]);
    store
}

fn end_the_role(store: &MemoryStore) {
    let env = instance(store.clone(), 1);
    list_member(&env, 2, Source::Project(101), None);
}

/// An instance caches the access of a user for one revision of the catalog.
#[test]
fn a_role_that_ends_during_a_count_is_not_remembered() {
    at_every_operation_on(forge_with_a_reporter, end_the_role, |interrupted, _| {
        let env = instance(interrupted.store.clone(), 2);
        for path in ["projects/101/issues_statistics?scope=all", "issues_statistics?scope=all"] {
            let status = get(&env, "alice", path).status;
            assert!([200, 404].contains(&status), "{status}");
        }
        let had_ended = interrupted.is_done();
        let remembered = all(&env, "alice", "issues_statistics?scope=all");
        assert!(remembered == 0 || !had_ended);
    });
}
