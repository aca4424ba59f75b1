use super::*;
use crate::store::CompareAndSwap;
use crate::testing::{Behaviour, LostReplyStore, MemoryStore, Simulation, env};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Appends `event` once, however often it is asked.
fn append(env: &Env, event: u32) -> Result<(), StoreError> {
    update(env, "log", |log: Option<Vec<u32>>| {
        let mut log = log.unwrap_or_default();
        if log.contains(&event) {
            return Ok(Decision::Done(()));
        }
        log.push(event);
        Ok(Decision::Write(log, ()))
    })
}

fn log(store: &dyn Store) -> Vec<u32> {
    read(store, "log").unwrap().unwrap_or_default()
}

#[test]
fn creates_then_appends() {
    let env = env(MemoryStore::default(), &[]);
    append(&env, 1).unwrap();
    append(&env, 2).unwrap();
    assert_eq!(log(&*env.store), [1, 2]);
}

#[test]
fn a_swap_that_took_place_but_was_reported_lost_is_applied_once() {
    let env = env(LostReplyStore::over(MemoryStore::default()), &[]);
    for event in 0..5 {
        append(&env, event).unwrap();
    }
    assert_eq!(log(&*env.store), [0, 1, 2, 3, 4]);
}

#[test]
fn a_swap_without_a_known_outcome_is_applied_once() {
    let store = MemoryStore::default();
    let unknown = UnknownStore { inner: store.clone(), swaps: Rc::default() };
    let env = env(unknown, &[]);
    for event in 0..20 {
        append(&env, event).unwrap();
    }
    assert_eq!(log(&store), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_store_that_never_tells_the_outcome_is_given_up() {
    let store = UnknownStore { inner: MemoryStore::default(), swaps: Rc::new(Cell::new(NEVER)) };
    assert!(matches!(append(&env(store, &[]), 1), Err(StoreError::Unknown(_))));
}

/// From so many swaps on, none takes place and none has a reply.
const NEVER: u32 = 1000;

/// A store that loses replies to swaps: of those that took place, and of those that did not.
#[derive(Clone)]
struct UnknownStore {
    inner: MemoryStore,
    swaps: Rc<Cell<u32>>,
}

struct UnknownCas {
    inner: Box<dyn CompareAndSwap>,
    swaps: Rc<Cell<u32>>,
}

impl Store for UnknownStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.get(key)
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.inner.set(key, value)
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.inner.delete(key)
    }

    fn exists(&self, key: &str) -> Result<bool, StoreError> {
        self.inner.exists(key)
    }

    fn increment(&self, key: &str, delta: i64) -> Result<i64, StoreError> {
        self.inner.increment(key, delta)
    }

    fn compare(&self, key: &str) -> Result<Box<dyn CompareAndSwap>, StoreError> {
        Ok(Box::new(UnknownCas { inner: self.inner.compare(key)?, swaps: self.swaps.clone() }))
    }

    fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.inner.list(prefix, after, limit)
    }
}

impl CompareAndSwap for UnknownCas {
    fn current(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.current()
    }

    fn swap(self: Box<Self>, value: &[u8]) -> Result<SwapOutcome, StoreError> {
        let number = self.swaps.replace(self.swaps.get() + 1);
        if number < NEVER && number.is_multiple_of(3) {
            return self.inner.swap(value);
        }
        if number < NEVER && number % 3 == 1 {
            self.inner.swap(value)?;
        }
        Err(StoreError::Unknown("no reply".into()))
    }
}

#[test]
fn a_root_that_other_writers_always_win_is_given_up() {
    let store = MemoryStore::default();
    let mut rivals = 0_u32;
    let outcome: Result<(), StoreError> = update(&env(store.clone(), &[]), "log", |_: Option<Vec<u32>>| {
        rivals += 1;
        store.set("log", format!("[{rivals}]").as_bytes())?;
        Ok(Decision::Write(vec![], ()))
    });
    assert_eq!(outcome, Err(StoreError::Contended("log".into())));
    assert_eq!(rivals, ATTEMPTS);
}

#[test]
fn bytes_that_are_no_record_are_reported_with_their_key() {
    let store = MemoryStore::default();
    store.set("log", b"{").unwrap();
    let error = read::<Vec<u32>>(&store, "log").unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { key, .. } if key == "log"));
}

/// Stores of other hosts: one in a file, as under Spin; one with a commit of half a second; one whose
/// every operation takes more than a second; one whose writes are seen half a second late; and one whose
/// writers stall for longer than the patience.
fn stores() -> [Behaviour; 5] {
    let file = Behaviour { read: 5..50, write: 1_300..4_000, seen_after: 0, stalls: 0, stall: 0 };
    [
        Behaviour { read: 1_000..20_000, write: 300_000..700_000, ..file.clone() },
        Behaviour { read: 1_000_000..1_300_000, write: 1_100_000..1_500_000, ..file.clone() },
        Behaviour { read: 50..500, write: 50..500, seen_after: 500_000, ..file.clone() },
        Behaviour { stalls: 60, stall: 3_000_000, ..file.clone() },
        file,
    ]
}

fn append_at_once(store: &Simulation, writers: u32) {
    let writer = |event| move |env: Env| append(&env, event);
    let outcomes = store.run((0..writers).map(writer).collect());
    assert_eq!(outcomes, vec![Ok(()); writers as usize]);
    // Late enough to see every write.
    store.env(0).clock.sleep(Duration::from_secs(10));
    let mut events = log(store);
    events.sort_unstable();
    assert_eq!(events, (0..writers).collect::<Vec<_>>());
}

#[test]
fn no_writer_is_lost_when_several_create_a_root_at_once() {
    for behaviour in stores() {
        for seed in 0..100 {
            for writers in [2, 3, 4, 8] {
                append_at_once(&Simulation::new(seed, behaviour.clone()), writers);
            }
        }
    }
}

#[test]
fn a_creator_that_died_is_replaced_by_one_writer() {
    for behaviour in stores() {
        for seed in 0..30 {
            let store = Simulation::new(seed, behaviour.clone());
            store.increment("log/init", 1).unwrap();
            append_at_once(&store, 5);
        }
    }
}

#[test]
fn a_writer_waits_seconds_for_a_creator_that_died_and_looks_seldom() {
    let store = Simulation::new(1, stores()[4].clone());
    store.increment("log/init", 1).unwrap();
    let (operations, before) = store.totals();
    append(&store.env(1), 7).unwrap();
    let (all, end) = store.totals();
    let waited = end - before;
    assert!((Duration::from_secs(2)..Duration::from_secs(3)).contains(&waited), "{waited:?}");
    assert!(all - operations < 60, "{} operations", all - operations);
}

#[test]
fn an_uncontended_creation_is_a_read_an_increment_and_a_swap() {
    let store = Simulation::new(1, stores()[4].clone());
    append(&store.env(1), 7).unwrap();
    assert_eq!(store.totals().0, 3);
    append(&store.env(1), 8).unwrap();
    assert_eq!(store.totals().0, 5, "a read and a swap");
}

#[test]
fn writers_of_one_root_at_once_open_few_swaps() {
    let store = Simulation::new(1, stores()[4].clone());
    append(&store.env(0), 64).unwrap();
    let (before, _) = store.totals();
    store.run((0..64).map(|event| move |env: Env| append(&env, event).unwrap()).collect());
    let operations = store.totals().0 - before;
    assert_eq!(log(&store).len(), 65);
    assert!(operations < 64 * 40, "{operations} operations");
}

#[test]
fn a_creator_that_always_dies_is_not_waited_for_for_ever() {
    let store = Simulation::new(1, stores()[4].clone());
    store.increment("log/init", 1).unwrap();
    // Another term begins at once, whichever writer this one waits for.
    let rival = |env: Env| {
        for _ in 0..100 {
            env.clock.sleep(Duration::from_millis(500));
            env.store.increment("log/init", 1 << 32).unwrap();
        }
        Ok(())
    };
    let writer: Box<dyn FnOnce(Env) -> Result<(), StoreError> + Send> = Box::new(|env: Env| append(&env, 1));
    let outcomes = store.run(vec![writer, Box::new(rival)]);
    assert_eq!(outcomes, [Err(StoreError::Contended("log".into())), Ok(())]);
}
