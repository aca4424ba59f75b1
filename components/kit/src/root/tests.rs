use super::*;
use crate::clock::{Clock, Timestamp};
use crate::testing::{Behaviour, LostReplyStore, MemoryStore, Simulation, SwapReply, env};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Appends `event` once, even if it is called again.
fn append(env: &Env, event: u32) -> Result<(), StoreError> {
    update(env, "log", |log: Option<Vec<u32>>| {
        let mut log = log.unwrap_or_default();
        if log.contains(&event) {
            return Ok(Decision::Keep(()));
        }
        log.push(event);
        Ok(Decision::Replace(log, ()))
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
    let reply = |number| match number % 3 {
        0 => SwapReply::Told,
        1 => SwapReply::Unknown { took_place: true },
        _ => SwapReply::Unknown { took_place: false },
    };
    let env = env(LostReplyStore::with(store.clone(), reply), &[]);
    for event in 0..20 {
        append(&env, event).unwrap();
    }
    assert_eq!(log(&store), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_store_that_never_tells_the_outcome_is_given_up() {
    let never = |_| SwapReply::Unknown { took_place: false };
    let env = env(LostReplyStore::with(MemoryStore::default(), never), &[]);
    assert!(matches!(append(&env, 1), Err(StoreError::Unknown(_))));
}

/// A clock that advances by ten seconds with each read.
#[derive(Default)]
struct SlowClock(Cell<i64>);

impl Clock for SlowClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.replace(self.0.get() + 10_000))
    }

    fn sleep(&self, _: Duration) {}
}

#[test]
fn after_a_long_wait_for_an_unknown_outcome_there_is_one_look_and_no_other_swap() {
    for (took_place, expected) in [(false, Err(())), (true, Ok(()))] {
        let reply = match took_place {
            true => |_| SwapReply::Unknown { took_place: true },
            false => |_| SwapReply::Unknown { took_place: false },
        };
        let store = MemoryStore::default();
        store.set("log", b"[0]").unwrap();
        let env = Env { clock: Rc::new(SlowClock::default()), ..env(LostReplyStore::with(store, reply), &[]) };
        let mut looks = 0;
        let outcome: Result<(), StoreError> = update(&env, "log", |current: Option<Vec<u32>>| {
            looks += 1;
            Ok(if current == Some(vec![1]) { Decision::Keep(()) } else { Decision::Replace(vec![1], ()) })
        });
        assert_eq!((outcome.map_err(drop), looks), (expected, 2));
    }
}

#[test]
fn a_root_that_other_writers_always_win_is_given_up() {
    let store = MemoryStore::default();
    let mut rivals = 0_u32;
    let outcome: Result<(), StoreError> = update(&env(store.clone(), &[]), "log", |_: Option<Vec<u32>>| {
        rivals += 1;
        store.set("log", format!("[{rivals}]").as_bytes())?;
        Ok(Decision::Replace(vec![], ()))
    });
    assert_eq!(outcome, Err(StoreError::Contended("log".into())));
    assert_eq!(rivals, MAX_ATTEMPTS);
}

#[test]
fn bytes_that_are_no_record_are_reported_with_their_key() {
    let store = MemoryStore::default();
    store.set("log", b"{").unwrap();
    let error = read::<Vec<u32>>(&store, "log").unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { key, .. } if key == "log"));
}

/// Stores of other hosts:
/// - one in a file, as under Spin;
/// - one with a commit of half a second;
/// - one whose every operation takes more than a second;
/// - one whose writes are seen half a second late;
/// - one whose writers stall for longer than the election timeout.
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
    let mut events = log(&*store.env(9).store);
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
            store.env(9).store.increment("log/init", 1).unwrap();
            append_at_once(&store, 5);
        }
    }
}

#[test]
fn a_writer_waits_seconds_for_a_creator_that_died_and_looks_seldom() {
    let store = Simulation::new(1, stores()[4].clone());
    store.env(9).store.increment("log/init", 1).unwrap();
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
    assert_eq!(log(&*store.env(9).store).len(), 65);
    assert!(operations < 64 * 40, "{operations} operations");
}

#[test]
fn a_creator_that_always_dies_is_not_waited_for_for_ever() {
    let store = Simulation::new(1, stores()[4].clone());
    store.env(9).store.increment("log/init", 1).unwrap();
    // The rival begins another term every half second.
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
