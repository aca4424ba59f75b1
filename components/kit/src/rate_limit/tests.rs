use super::*;
use crate::testing::{self, FailingStore, LostReplyStore, MemoryStore, NOW, SwapReply};

const LIMIT: RateLimit = RateLimit { variable: "limit", seconds: 15, keys: "a/rate/" };

fn ask(store: &MemoryStore, limit: &str, caller: &str, after: i64) -> bool {
    let mut env = testing::env(store.clone(), &[("limit", limit)]);
    env.now = Timestamp::from_millis(NOW.millis() + after);
    match check(&env, &LIMIT, caller) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.status, 429);
            false
        }
    }
}

#[test]
fn a_window_begins_with_its_first_request_and_ends() {
    let store = MemoryStore::default();
    let asked = [0, 1, 2, 14_999, 15_000, 15_001, 29_999].map(|after| ask(&store, "2", "u", after));
    assert_eq!(asked, [true, true, false, false, true, true, false]);
}

#[test]
fn callers_do_not_count_for_each_other() {
    let store = MemoryStore::default();
    for n in 0..5000 {
        assert!(ask(&store, "1", &format!("u{n}"), 0), "{n}");
    }
    assert!(!ask(&store, "1", "u0", 0));
}

#[test]
fn slots_do_not_grow_with_former_callers() {
    let store = MemoryStore::default();
    for n in 0..20_000 {
        assert!(ask(&store, "1", &format!("u{n}"), n * 15_000));
    }
    let slots = store.keys().into_iter().filter(|key| !key.ends_with("/init"));
    let largest = slots.map(|key| crate::store::Store::get(&store, &key).unwrap().unwrap().len()).max();
    assert!(largest < Some(100), "{largest:?}");
}

#[test]
fn without_a_limit_nothing_is_read() {
    for limit in ["", "0", "many"] {
        let env = testing::env(FailingStore::after(0, MemoryStore::default()), &[("limit", limit)]);
        assert_eq!(check(&env, &LIMIT, "u"), Ok(()), "{limit}");
    }
}

#[test]
fn leases_grow_with_the_instance_and_are_never_more_than_allowed() {
    let store = MemoryStore::default();
    let ask = |env: &Env| check_leased(env, &LIMIT, 20, 4, "u").is_ok();
    let [one, other] = [(), ()].map(|()| testing::env(store.clone(), &[]));
    let offline = |env: &Env| Env { store: Rc::new(FailingStore::after(0, store.clone())), ..env.clone() };
    // Eight single permits, and then two at once.
    assert!((0..9).all(|_| ask(&one)));
    assert!(ask(&offline(&one)), "leased");
    assert_eq!((0..20).filter(|_| ask(&other)).count(), 10);
    assert_eq!((0..20).filter(|_| ask(&one)).count(), 0);
    assert!(known_refusal(&one, &LIMIT, "u").is_some() && known_refusal(&one, &LIMIT, "v").is_none());
    let refusal = check_leased(&offline(&one), &LIMIT, 20, 4, "u");
    assert_eq!(refusal, Err(Error::too_many_requests("limit", 15)), "a refusal is remembered");
    let later = Env { now: Timestamp::from_millis(NOW.millis() + 15_000), ..one.clone() };
    assert!(known_refusal(&later, &LIMIT, "u").is_none() && ask(&later));
}

#[test]
fn instances_of_any_life_lose_a_fifth_of_the_permits_at_most() {
    for requests in [1, 2, 3, 5, 9, 20, 100] {
        let store = MemoryStore::default();
        let instance = || testing::env(store.clone(), &[]);
        let passed = |env: &Env| (0..requests).filter(|_| check_leased(env, &LIMIT, 120, 100, "u").is_ok()).count();
        let passed: usize = (0..200).map(|_| passed(&instance())).sum();
        assert!((96..=120).contains(&passed), "{passed} with {requests} for each instance");
        assert!(requests > 7 || passed == 120, "{passed} with {requests} for each instance");
    }
}

#[test]
fn equal_items_count_once_and_are_not_refused() {
    let store = MemoryStore::default();
    let count = |env: &Env, item| check_distinct(env, &LIMIT, 3, "u", item).is_ok();
    let env = testing::env(store.clone(), &[]);
    assert!((0..50).all(|_| count(&env, 7)));
    let offline = Env { store: Rc::new(FailingStore::after(0, store.clone())), ..env.clone() };
    assert!(count(&offline, 7), "the instance remembers it");
    assert_eq!([8, 9, 10].map(|item| count(&env, item)), [true, true, false]);
    assert!(known_refusal(&env, &LIMIT, "u").is_some());
    for instance in [env, testing::env(store.clone(), &[])] {
        assert_eq!([7, 8, 9, 10, 11].map(|item| count(&instance, item)), [true, true, true, false, false]);
    }
    let full = testing::env(FailingStore::after(0, store), &[]);
    assert_eq!([7, 7, 8, 9, 10, 7].map(|item| count(&full, item)), [true, true, true, true, false, true]);
}

/// Callers that share a full root evict each other and are not refused.
#[test]
fn a_flood_of_callers_has_nobody_refused() {
    let store = MemoryStore::default();
    let env = testing::env(store.clone(), &[("limit", "5")]);
    let of_victim = slot(&env, &LIMIT, "victim").unwrap();
    let mut strangers = (0..).map(|n| format!("s{n}")).filter(|name| slot(&env, &LIMIT, name) == Ok(of_victim));
    let heavy = strangers.next().unwrap();
    assert_eq!([(); 6].map(|()| check(&env, &LIMIT, &heavy).is_ok()), [true, true, true, true, true, false]);
    let full = Slot {
        callers: strangers
            .take(MAX_CALLERS - 1)
            .map(|name| (name, Window { began: NOW, count: 2, last: None, items: Vec::new() }))
            .chain([(heavy.clone(), Window { began: NOW, count: 5, last: None, items: Vec::new() })])
            .collect(),
    };
    let key = format!("{}{of_victim}", LIMIT.keys);
    crate::store::Store::set(&store, &key, &serde_json::to_vec(&full).unwrap()).unwrap();
    assert!((0..3).all(|_| check(&env, &LIMIT, "victim").is_ok()));
    assert!(check(&env, &LIMIT, &heavy).is_err());
    let slot: Slot = root::read(&store, &key).unwrap().unwrap();
    assert_eq!(slot.callers.len(), MAX_CALLERS);
}

#[test]
fn each_store_chooses_slots_by_a_key_of_its_own() {
    let slots = |entropy: u8| {
        let env = testing::env(MemoryStore::default(), &[]);
        env.entropy.fill(&mut vec![0; usize::from(entropy) * 8]);
        (0..50).map(|n| slot(&env, &LIMIT, &format!("u{n}")).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(slots(1), slots(1));
    assert_ne!(slots(1), slots(2));
    let store = MemoryStore::default();
    let of_instance = || slot(&testing::env(store.clone(), &[]), &LIMIT, "u");
    assert_eq!(of_instance(), of_instance(), "all instances of a store agree");
}

/// Spin with Redis reports every swap as lost.
#[test]
fn a_swap_that_is_reported_as_lost_is_counted_once() {
    let store = MemoryStore::default();
    let env = testing::env(LostReplyStore::with(store.clone(), |_| SwapReply::Denied), &[("limit", "3")]);
    let asked = [(); 5].map(|()| check(&env, &LIMIT, "u").is_ok());
    assert_eq!(asked, [true, true, true, false, false]);
    let asked = [(); 12].map(|()| check_leased(&env, &LIMIT, 10, 4, "v").is_ok());
    assert_eq!(asked.iter().filter(|passed| **passed).count(), 3, "the variable is set");
    let env = testing::env(LostReplyStore::with(store, |_| SwapReply::Denied), &[]);
    let asked = [(); 12].map(|()| check_leased(&env, &LIMIT, 10, 4, "w").is_ok());
    assert_eq!(asked.iter().filter(|passed| **passed).count(), 10);
}

#[test]
fn while_the_store_cannot_count_each_instance_does() {
    let store = MemoryStore::default();
    let full = || testing::env(FailingStore::after(0, store.clone()), &[("limit", "3")]);
    let env = full();
    assert_eq!([(); 5].map(|()| check(&env, &LIMIT, "u").is_ok()), [true, true, true, false, false]);
    assert_eq!([(); 4].map(|()| check_leased(&env, &LIMIT, 10, 2, "v").is_ok()), [true, true, true, false]);
    let later = Env { now: Timestamp::from_millis(NOW.millis() + 15_000), ..env.clone() };
    assert!(check(&later, &LIMIT, "u").is_ok());
    let again = Env { store: Rc::new(store.clone()), ..env };
    assert_eq!([(); 4].map(|()| check(&again, &LIMIT, "u").is_ok()), [true, true, true, false]);
}

#[test]
fn counts_stored_by_an_earlier_build_are_continued() {
    let store = MemoryStore::default();
    assert!(ask(&store, "2", "u", 0));
    let is_slot = |key: &String| !key.ends_with("/init") && !key.ends_with("/key");
    let key = store.keys().into_iter().find(is_slot).unwrap();
    let earlier = format!(r#"{{"callers":{{"u":{{"began":{},"count":2}}}}}}"#, serde_json::to_string(&NOW).unwrap());
    crate::store::Store::set(&store, &key, earlier.as_bytes()).unwrap();
    assert!(!ask(&store, "2", "u", 0) && ask(&store, "3", "u", 0));
}

#[test]
fn a_default_holds_until_the_variable_is_set() {
    for (variable, allowed) in [("", 2), ("0", 20), ("5", 5)] {
        let env = testing::env(MemoryStore::default(), &[("limit", variable)]);
        let passed = (0..20).filter(|_| check_leased(&env, &LIMIT, 2, 3, "u").is_ok()).count();
        assert_eq!(passed, allowed, "{variable}");
    }
}

#[test]
fn a_refused_request_writes_nothing() {
    let store = MemoryStore::default();
    assert!(ask(&store, "1", "u", 0));
    let env = testing::env(FailingStore::after(3, store), &[("limit", "1")]);
    assert_eq!(check(&env, &LIMIT, "u"), Err(Error::too_many_requests("limit", 15)));
}
