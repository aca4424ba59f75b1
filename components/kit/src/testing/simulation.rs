//! Concurrent writers on a store of another host, in simulated time.
//!
//! Each writer is a thread with its own environment, and only one thread runs at a time. An operation or a pause ends
//! at a moment of the simulated time, and the writer with the earliest moment continues. So a run depends only on its
//! seed, and takes no real time.

use super::NOW;
use crate::blob::BlobCache;
use crate::clock::{Clock, Timestamp};
use crate::env::Env;
use crate::id::Entropy;
use crate::outbound::NoNetwork;
use crate::store::{CompareAndSwap, Store, StoreError, SwapOutcome};
use crate::variables::Variables;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The behaviour of a store. Times are in microseconds.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// The time of an operation that reads, and of one that writes.
    pub read: Range<u64>,
    pub write: Range<u64>,
    /// The delay after a writer's reply until reads see the write. A writer that reads a key after writing it first
    /// waits for the delay of that write. After a lost swap it waits for the delay of all earlier writes.
    pub seen_after: u64,
    /// The number of operations in a thousand after which the writer stalls, and the length of a stall.
    pub stalls: u64,
    pub stall: u64,
}

/// A store on which a swap of an absent key is a plain write, and a clock.
#[derive(Clone)]
pub struct Simulation(Arc<Shared>);

struct Shared {
    behaviour: Behaviour,
    state: Mutex<State>,
    /// Signalled when a writer ends its turn.
    idle: Condvar,
}

/// The moment at which a writer continues, and a number that distinguishes equal moments.
type Turn = (u64, u64);

/// The moment from which reads see a value, and the value; `None` if it was deleted.
type Version = (u64, Option<Vec<u8>>);

struct State {
    /// Microseconds since [`NOW`].
    now: u64,
    rng: fastrand::Rng,
    records: BTreeMap<String, Vec<Version>>,
    turns: BTreeSet<Turn>,
    next: u64,
    /// The number of running threads: writers, or the thread that starts them.
    running: usize,
    operations: u64,
}

impl Simulation {
    /// An empty store. Equal seeds give equal runs.
    pub fn new(seed: u64, behaviour: Behaviour) -> Self {
        let state = State {
            now: 0,
            rng: fastrand::Rng::with_seed(seed),
            records: BTreeMap::new(),
            turns: BTreeSet::new(),
            next: 0,
            running: 1,
            operations: 0,
        };
        Simulation(Arc::new(Shared { behaviour, state: Mutex::new(state), idle: Condvar::new() }))
    }

    /// Runs these writers at the same time, and returns their results.
    pub fn run<T: Send>(&self, writers: Vec<impl FnOnce(Env) -> T + Send>) -> Vec<T> {
        let turns: Vec<Turn> = writers.iter().map(|_| self.lock().turn_after(0)).collect();
        self.lock().running = 0;
        let results = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (number, (writer, turn)) in (1..).zip(writers.into_iter().zip(turns)) {
                let simulation = self.clone();
                threads.push(scope.spawn(move || {
                    drop(simulation.wait(simulation.lock(), turn));
                    let _end = WriterEnd(simulation.clone());
                    writer(simulation.env(number))
                }));
            }
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        self.lock().running = 1;
        results
    }

    /// An environment whose ids differ from the ids of other numbers.
    pub fn env(&self, number: u64) -> Env {
        // The generator's states follow each other by addition, so two streams with similar seeds may overlap.
        let seed = fastrand::Rng::with_seed(self.lock().rng.get_seed() ^ (number << 32)).u64(..);
        Env {
            store: Rc::new(Writer { simulation: self.clone(), unseen: Rc::default(), lost_at: Rc::default() }),
            blobs: Rc::new(BlobCache::new(1 << 20)),
            instance_cache: Rc::default(),
            snapshot: None,
            variables: Rc::new(Variables::default()),
            entropy: Rc::new(SeededEntropy(RefCell::new(fastrand::Rng::with_seed(seed)))),
            outbound: Rc::new(NoNetwork),
            clock: Rc::new(self.clone()),
            now: self.now(),
            caller_headers: Rc::default(),
            has_known_caller: Rc::default(),
        }
    }

    /// The number of store operations so far, and the simulated time that has passed.
    pub fn totals(&self) -> (u64, Duration) {
        let state = self.lock();
        (state.operations, Duration::from_micros(state.now))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the writer's turn and continues it after `micros` microseconds.
    fn yield_for(&self, micros: u64) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        let turn = state.turn_after(micros);
        state.running -= 1;
        self.0.idle.notify_all();
        self.wait(state, turn)
    }

    /// Waits until no writer runs and this turn is the next.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State>, turn: Turn) -> MutexGuard<'a, State> {
        let is_early = |state: &mut State| state.running > 0 || state.turns.first() != Some(&turn);
        let mut state = self.0.idle.wait_while(state, is_early).unwrap_or_else(PoisonError::into_inner);
        state.turns.remove(&turn);
        state.now = turn.0;
        state.running += 1;
        state
    }

    /// Passes half of an operation's time, applies the operation, and passes the rest.
    fn operate<T>(&self, time: &Range<u64>, apply: impl FnOnce(&mut State) -> T) -> T {
        let (before, after) = {
            let mut state = self.lock();
            let time = time.start + state.rng.u64(..(time.end - time.start).max(1));
            let stalls = state.rng.u64(..1000) < self.0.behaviour.stalls;
            (time / 2, time - time / 2 + if stalls { self.0.behaviour.stall } else { 0 })
        };
        let result = {
            let mut state = self.yield_for(before);
            state.operations += 1;
            apply(&mut state)
        };
        drop(self.yield_for(after));
        result
    }
}

/// The store as one writer sees it.
struct Writer {
    simulation: Simulation,
    /// The keys that the writer has written, and the moments from which reads see them.
    unseen: Rc<RefCell<BTreeMap<String, u64>>>,
    /// The moment from which reads see everything that was written before the writer lost a swap.
    lost_at: Rc<Cell<u64>>,
}

impl Writer {
    fn read(&self, key: &str) -> Option<Vec<u8>> {
        let unseen = self.unseen.borrow().get(key).copied().unwrap_or_default().max(self.lost_at.get());
        let now = self.simulation.lock().now;
        if unseen > now {
            drop(self.simulation.yield_for(unseen - now));
        }
        self.simulation.operate(&self.simulation.0.behaviour.read, |state| state.seen(key))
    }

    fn write<T>(&self, key: &str, apply: impl FnOnce(&mut State, u64) -> T) -> T {
        let seen_after = self.simulation.0.behaviour.seen_after;
        self.simulation.operate(&self.simulation.0.behaviour.write, |state| {
            let seen = state.now + seen_after;
            self.unseen.borrow_mut().insert(key.to_owned(), seen);
            apply(state, seen)
        })
    }
}

impl State {
    fn turn_after(&mut self, micros: u64) -> Turn {
        self.next += 1;
        let turn = (self.now + micros, self.next);
        self.turns.insert(turn);
        turn
    }

    /// The value that reads see now.
    fn seen(&self, key: &str) -> Option<Vec<u8>> {
        let versions = self.records.get(key)?;
        versions.iter().rfind(|(seen, _)| *seen <= self.now).and_then(|(_, value)| value.clone())
    }

    fn latest(&self, key: &str) -> Option<&Vec<u8>> {
        self.records.get(key)?.last().and_then(|(_, value)| value.as_ref())
    }

    fn put(&mut self, key: &str, seen: u64, value: &[u8]) {
        self.records.entry(key.to_owned()).or_default().push((seen, Some(value.to_vec())));
    }
}

/// Ends a writer's turn when the writer returns or panics.
struct WriterEnd(Simulation);

impl Drop for WriterEnd {
    fn drop(&mut self) {
        if let Ok(mut state) = self.0.0.state.lock() {
            state.running -= 1;
        }
        self.0.0.idle.notify_all();
    }
}

struct SeededEntropy(RefCell<fastrand::Rng>);

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.borrow_mut().fill(bytes);
    }
}

impl Clock for Simulation {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(NOW.millis() + self.lock().now as i64 / 1000)
    }

    fn sleep(&self, time: Duration) {
        drop(self.yield_for(time.as_micros() as u64));
    }
}

impl Store for Writer {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.read(key))
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.write(key, |state, seen| state.put(key, seen, value));
        Ok(())
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.write(key, |state, seen| state.records.entry(key.to_owned()).or_default().push((seen, None)));
        Ok(())
    }

    fn exists(&self, key: &str) -> Result<bool, StoreError> {
        Ok(self.read(key).is_some())
    }

    fn increment(&self, key: &str, delta: i64) -> Result<i64, StoreError> {
        self.write(key, |state, seen| {
            let count = match state.latest(key) {
                Some(value) => i64::from_le_bytes(
                    value.as_slice().try_into().map_err(|_| StoreError::corrupt(key, "not a counter"))?,
                ),
                None => 0,
            };
            state.put(key, seen, &(count + delta).to_le_bytes());
            Ok(count + delta)
        })
    }

    fn begin_cas(&self, key: &str) -> Result<Box<dyn CompareAndSwap>, StoreError> {
        let Writer { simulation, unseen, lost_at } = self;
        let writer = Writer { simulation: simulation.clone(), unseen: unseen.clone(), lost_at: lost_at.clone() };
        Ok(Box::new(SimulatedCas { writer, key: key.to_owned(), expected: self.read(key) }))
    }

    fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        Ok(self.simulation.operate(&self.simulation.0.behaviour.read, |state| {
            let below = state.records.keys().filter(|key| key.starts_with(prefix) && key.as_str() > after);
            below.filter(|key| state.latest(key).is_some()).take(limit).cloned().collect()
        }))
    }
}

struct SimulatedCas {
    writer: Writer,
    key: String,
    expected: Option<Vec<u8>>,
}

impl CompareAndSwap for SimulatedCas {
    fn current(&self) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.expected.clone())
    }

    fn swap(self: Box<Self>, value: &[u8]) -> Result<SwapOutcome, StoreError> {
        let SimulatedCas { writer, key, expected } = *self;
        let found = writer.write(&key, |state, seen| {
            let found = state.latest(&key).cloned();
            if expected.is_none() || found == expected {
                state.put(&key, seen, value);
                return None;
            }
            writer.lost_at.set(seen);
            Some(found)
        });
        Ok(match found {
            None => SwapOutcome::Yes,
            Some(expected) => SwapOutcome::No(Box::new(SimulatedCas { writer, key, expected })),
        })
    }
}
