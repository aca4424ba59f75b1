use super::*;
use crate::blob::BlobCache;
use crate::store::Store;
use crate::testing::{
    Behaviour, CountingStore, FailingStore, LostReplyStore, MemoryStore, Simulation, SwapReply, WatchedStore, env,
};
use fastrand::Rng;
use std::cell::Cell;
use std::rc::Rc;

type Model = BTreeMap<String, String>;

fn list<F: FormerList>() -> List<F> {
    List { pages: Pages { prefix: "page/".into(), max_page: 512 }, ..List::new("root".into(), String::new()) }
}

fn plain() -> List {
    list()
}

fn put(keys: impl IntoIterator<Item = String>) -> BTreeMap<String, Change> {
    keys.into_iter().map(|key| (key, Change::Put(String::new()))).collect()
}

fn key(number: u64) -> String {
    format!("key {number:06}")
}

/// The environment of another instance, whose ids differ.
fn uncached(env: &Env) -> Env {
    Env { blobs: Rc::new(BlobCache::new(1 << 20)), ..env.clone() }
}

fn all(list: &List, env: &Env) -> Model {
    list.after(env, "", usize::MAX).unwrap().into_iter().collect()
}

/// Changes of up to `most` keys of a hundred or so.
fn random_changes(rng: &mut Rng, most: usize, model: &Model) -> BTreeMap<String, Change> {
    let removes = rng.bool();
    let change = |rng: &mut Rng| {
        let key = key(rng.u64(..120));
        let value = "v".repeat(rng.usize(..40));
        let known = model.get(&key).cloned().filter(|_| rng.u8(..8) > 0);
        (key, if removes { Change::Remove(known.unwrap_or(value)) } else { Change::Put(value) })
    };
    (0..rng.usize(1..=most)).map(|_| change(rng)).collect()
}

fn apply_to_model(model: &mut Model, changes: &BTreeMap<String, Change>) {
    for (key, change) in changes {
        match change {
            Change::Put(value) => drop(model.insert(key.clone(), value.clone())),
            Change::Remove(value) if model.get(key) == Some(value) => drop(model.remove(key)),
            Change::Remove(_) => {}
        }
    }
}

/// Checks that a list is sound and has exactly these entries. Returns the ids of its pages.
#[track_caller]
fn assert_is(list: &List, env: &Env, store: &MemoryStore, model: &Model) -> usize {
    assert_eq!(all(list, env), *model);
    assert_eq!(list.count(env).unwrap(), model.len() as u64);
    let mut tracer = Tracer::new(true);
    list.trace(env, &mut tracer).unwrap();
    assert_eq!(tracer.problems(), []);
    let bytes = |key: &String| store.get(key).unwrap().unwrap().len();
    let largest = store.keys().iter().filter(|key| !key.ends_with("/init")).map(bytes).max();
    assert!(largest <= Some(2 * list.pages.max_page), "{largest:?} bytes");
    store.keys().iter().filter(|key| key.starts_with("page/")).count()
}

#[test]
fn a_list_is_a_sorted_map() {
    for seed in 0..30 {
        let store = MemoryStore::default();
        let (env, list) = (env(store.clone(), &[]), plain());
        let (mut rng, mut model) = (Rng::with_seed(seed), Model::new());
        for _ in 0..150 {
            let changes = random_changes(&mut rng, 30, &model);
            list.apply(&env, &changes).unwrap();
            apply_to_model(&mut model, &changes);
            let pages = assert_is(&list, &env, &store, &model);
            assert!(pages <= 2 + 8 * model.len() / 10, "{pages} pages for {} entries", model.len());
            let after = key(rng.u64(..120));
            let limit = rng.usize(..40);
            let range = model.range::<String, _>((std::ops::Bound::Excluded(&after), std::ops::Bound::Unbounded));
            let expected: Vec<_> = range.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect();
            assert_eq!(list.after(&env, &after, limit).unwrap(), expected);
            assert_eq!(list.get(&env, &after).unwrap(), model.get(&after).cloned());
        }
        let rest = model.iter().map(|(key, value)| (key.clone(), Change::Remove(value.clone()))).collect();
        list.apply(&env, &rest).unwrap();
        assert_eq!(assert_is(&list, &env, &store, &Model::new()), 0, "an empty list has no page");
    }
}

#[test]
fn a_change_that_storage_ends_anywhere_took_place_as_a_whole_or_not_at_all() {
    let mut cut = [0; 2];
    for seed in 0..20 {
        let store = MemoryStore::default();
        let (healthy, list) = (env(store.clone(), &[]), plain());
        let (mut rng, mut model) = (Rng::with_seed(seed), Model::new());
        for _ in 0..12 {
            let changes = random_changes(&mut rng, 30, &model);
            let before = model.clone();
            apply_to_model(&mut model, &changes);
            for operations in 0.. {
                let failing = FailingStore::after(operations, store.clone());
                let outcome = list.apply(&Env { store: Rc::new(failing.clone()), ..healthy.clone() }, &changes);
                assert_eq!(outcome.is_err(), failing.failed());
                let is_applied = all(&list, &healthy) == model;
                assert_is(&list, &healthy, &store, if is_applied { &model } else { &before });
                if outcome.is_ok() {
                    break;
                }
                cut[usize::from(is_applied)] += 1;
            }
            assert_is(&list, &healthy, &store, &model);
        }
    }
    assert!(cut[0] > 100 && cut[1] > 10, "{cut:?}");
}

#[test]
fn replies_that_are_lost_do_not_change_the_outcome() {
    let replies: [fn(u32) -> SwapReply; 3] = [
        |number| if number.is_multiple_of(2) { SwapReply::Denied } else { SwapReply::Told },
        |number| if number.is_multiple_of(3) { SwapReply::Unknown { took_place: true } } else { SwapReply::Told },
        |number| if number.is_multiple_of(3) { SwapReply::Unknown { took_place: false } } else { SwapReply::Told },
    ];
    for reply in replies {
        let store = MemoryStore::default();
        let (healthy, list) = (env(store.clone(), &[]), plain());
        let losing = Env { store: Rc::new(LostReplyStore::with(store.clone(), reply)), ..healthy.clone() };
        let (mut rng, mut model) = (Rng::with_seed(7), Model::new());
        for _ in 0..200 {
            let changes = random_changes(&mut rng, 20, &model);
            list.apply(&losing, &changes).unwrap();
            apply_to_model(&mut model, &changes);
            assert_is(&list, &healthy, &store, &model);
        }
    }
}

#[test]
fn writers_at_once_lose_no_key() {
    let behaviour = Behaviour { read: 5..50, write: 1_300..4_000, seen_after: 0, stalls: 0, stall: 0 };
    let late = Behaviour { seen_after: 500_000, ..behaviour.clone() };
    for behaviour in [behaviour, late] {
        for (seed, writers) in [(0, 2), (1, 8), (2, 64)] {
            let store = Simulation::new(seed, behaviour.clone());
            plain().apply(&store.env(900), &put((0..40).map(|number| key(number * 100)))).unwrap();
            let writer = |number| move |env: Env| plain().apply(&env, &put([key(2001 + number)]));
            assert_eq!(store.run((0..writers).map(writer).collect()), vec![Ok(()); writers as usize]);
            let reader = store.env(901);
            reader.clock.sleep(std::time::Duration::from_secs(10));
            let found = all(&plain(), &reader);
            assert_eq!(found.len() as u64, 40 + writers, "{writers} writers");
            assert!((0..writers).all(|number| found.contains_key(&key(2001 + number))));
        }
    }
}

#[test]
fn readers_and_writers_whose_pages_are_replaced_meanwhile_read_the_root_again() {
    for first in 0..40 {
        let store = MemoryStore::default();
        let (quiet, list) = (env(store.clone(), &[]), plain());
        list.apply(&quiet, &put((0..200).map(key))).unwrap();
        let (rival, operations) = (Rc::new(quiet.clone()), Cell::new(0));
        let watch = move |_: &str, _: &str| {
            operations.set(operations.get() + 1);
            if operations.get() > first && operations.get() < first + 20 {
                let number = operations.get() % 100 * 2;
                plain().apply(&rival, &BTreeMap::from([(key(number), Change::Put(first.to_string()))])).unwrap();
            }
        };
        let watched = Rc::new(WatchedStore::over(store.clone(), watch));
        let disturbed = Env { store: watched, ..uncached(&quiet) };
        assert_eq!(all(&list, &disturbed).len(), 200);
        list.apply(&disturbed, &put((500..520).map(key))).unwrap();
        assert_eq!(list.get(&disturbed, &key(7)).unwrap().as_deref(), Some(""));
        assert_eq!(all(&list, &quiet).len(), 220);
    }
}

#[test]
fn a_page_that_is_missing_for_good_is_reported_by_its_key() {
    let store = MemoryStore::default();
    let (env, list) = (env(store.clone(), &[]), plain());
    list.apply(&env, &put((0..200).map(key))).unwrap();
    let page = store.keys().into_iter().find(|key| key.starts_with("page/")).unwrap();
    store.delete(&page).unwrap();
    let fresh = uncached(&env);
    for error in [
        list.after(&fresh, "", 500).unwrap_err(),
        list.apply(&fresh, &put((0..200).map(|number| format!("key {number:06} more")))).unwrap_err(),
        list.trace(&fresh, &mut Tracer::new(true)).unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::Corrupt { key, .. } if *key == page), "{error}");
    }
}

/// Operations and bytes of one insertion into a list with so many keys.
fn cost_of_insertion(keys: u64) -> (u64, u64) {
    let store = MemoryStore::default();
    let list: List = List::new("root".into(), "page/".into());
    let filling = env(store.clone(), &[]);
    list.apply(&filling, &put((0..keys).map(|number| key(number * 2)))).unwrap();
    let counting = CountingStore::over(store);
    let env = Env { store: Rc::new(counting.clone()), ..uncached(&filling) };
    list.apply(&env, &put([key(keys | 1)])).unwrap();
    (counting.operations(), counting.bytes())
}

#[test]
fn a_change_costs_the_same_in_a_long_list() {
    let (operations, bytes) = cost_of_insertion(200_000);
    let small = cost_of_insertion(5_000);
    assert!(operations <= small.0 + 4, "{operations} operations, and {small:?} for a short list");
    assert!(bytes <= 5 * 2 * MAX_PAGE as u64, "{bytes} bytes");
}

#[test]
fn a_batch_writes_each_page_once() {
    let counting = CountingStore::over(MemoryStore::default());
    let (env, list) = (env(counting.clone(), &[]), List::<NoFormerList>::new("root".into(), "page/".into()));
    list.apply(&env, &put((0..100_000).map(key))).unwrap();
    let before = counting.operations();
    list.apply(&env, &put((0..10_000).map(|number| format!("key {number:06} more")))).unwrap();
    assert!(counting.operations() - before < 100, "{} operations", counting.operations() - before);
    let unchanged = counting.bytes();
    list.apply(&env, &put((0..10).map(key))).unwrap();
    assert!(counting.bytes() - unchanged < 2 * MAX_PAGE as u64, "without an effect nothing is written");
}

#[test]
fn long_keys_that_differ_in_the_last_character_are_kept_apart_and_too_long_ones_are_refused() {
    let store = MemoryStore::default();
    let (env, list) = (env(store.clone(), &[]), List::<NoFormerList>::new("root".into(), "page/".into()));
    let long = |number: u32| format!("{}{:03}", "k".repeat(252), number);
    list.apply(&env, &put((0..900).map(long))).unwrap();
    assert_eq!(list.after(&env, &long(300), 2).unwrap(), [(long(301), String::new()), (long(302), String::new())]);
    let error = list.apply(&env, &put(["k".repeat(MAX_TEXT + 1)])).unwrap_err();
    let text =
        "storage failed: `page/`: keys and values of a list have at most 4096 bytes; a key of 4097 bytes does not fit";
    assert_eq!(error.to_string(), text);
    list.apply(&env, &put((0..9).map(|number| format!("{number}{}", "k".repeat(MAX_TEXT - 1))))).unwrap();
    assert_eq!(list.count(&env).unwrap(), 909);
}

/// The form of an earlier build.
#[derive(Deserialize)]
struct Numbers {
    numbers: Vec<u64>,
}

impl FormerList for Numbers {
    fn into_entries(self, _: &Env, _: &str) -> Result<Vec<(String, String)>, StoreError> {
        Ok(self.numbers.into_iter().map(|number| (key(number), String::new())).collect())
    }
}

#[test]
fn a_former_list_is_read_and_rewritten_at_its_next_change_in_a_form_that_the_build_before_cannot_read() {
    let store = MemoryStore::default();
    let former = serde_json::json!({"numbers": (0..300).rev().collect::<Vec<u64>>()}).to_string();
    store.set("root", former.as_bytes()).unwrap();
    let (env, list) = (env(store.clone(), &[]), list::<Numbers>());
    assert_eq!(list.count(&env).unwrap(), 300);
    assert_eq!(list.after(&env, &key(297), 9).unwrap().len(), 2);
    list.apply(&env, &put([key(5)])).unwrap();
    assert_eq!(store.get("root").unwrap().unwrap(), former.as_bytes(), "nothing has changed");
    list.apply(&env, &put([key(300)])).unwrap();
    let stored = store.get("root").unwrap().unwrap();
    assert!(serde_json::from_slice::<Numbers>(&stored).is_err() && stored.len() < 1024, "{} bytes", stored.len());
    let model: Model = (0..=300).map(|number| (key(number), String::new())).collect();
    assert_is(&plain(), &env, &store, &model);
}
