//! Test doubles of the ports: stores in memory, with faults and with counts, repeatable randomness, simulated writers.

mod counting;
mod simulation;
mod watched;

pub use counting::CountingStore;
pub use simulation::{Behaviour, Simulation};
pub use watched::WatchedStore;

use crate::blob::BlobCache;
use crate::clock::Timestamp;
use crate::env::Env;
use crate::id::Entropy;
use crate::outbound::{Client, NoNetwork, OutboundError, OutboundRequest, OutboundResponse};
use crate::store::{CompareAndSwap, Store, StoreError, SwapOutcome};
use crate::variables::Variables;
use futures::future::LocalBoxFuture;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

/// The longest key of a host, in bytes.
const MAX_KEY: usize = 1024;

/// A store in memory. It refuses the keys that a host refuses. Clones share their contents.
#[derive(Clone, Default)]
pub struct MemoryStore {
    records: Rc<RefCell<BTreeMap<String, Vec<u8>>>>,
}

impl MemoryStore {
    /// Every key, sorted.
    pub fn keys(&self) -> Vec<String> {
        self.records.borrow().keys().cloned().collect()
    }

    /// An independent copy of the present state.
    pub fn snapshot(&self) -> MemoryStore {
        MemoryStore { records: Rc::new(RefCell::new(self.records.borrow().clone())) }
    }
}

fn check_key(key: &str) -> Result<(), StoreError> {
    match (1..=MAX_KEY).contains(&key.len()) && !key.contains('\0') {
        true => Ok(()),
        false => Err(StoreError::Other(format!("a key of {} bytes that no host takes", key.len()))),
    }
}

impl Store for MemoryStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        check_key(key)?;
        Ok(self.records.borrow().get(key).cloned())
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        check_key(key)?;
        self.records.borrow_mut().insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        check_key(key)?;
        self.records.borrow_mut().remove(key);
        Ok(())
    }

    fn exists(&self, key: &str) -> Result<bool, StoreError> {
        check_key(key)?;
        Ok(self.records.borrow().contains_key(key))
    }

    fn increment(&self, key: &str, delta: i64) -> Result<i64, StoreError> {
        check_key(key)?;
        let mut records = self.records.borrow_mut();
        let counter = records.entry(key.to_owned()).or_insert_with(|| 0_i64.to_le_bytes().to_vec());
        let old: [u8; 8] = counter.as_slice().try_into().map_err(|_| StoreError::corrupt(key, "not a counter"))?;
        let new = i64::from_le_bytes(old).wrapping_add(delta);
        *counter = new.to_le_bytes().to_vec();
        Ok(new)
    }

    fn begin_cas(&self, key: &str) -> Result<Box<dyn CompareAndSwap>, StoreError> {
        let expected = self.get(key)?;
        Ok(Box::new(MemoryCas { store: self.clone(), key: key.to_owned(), expected }))
    }

    fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let start = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let records = self.records.borrow();
        let below = records.range::<str, _>((start, Bound::Unbounded)).map(|(key, _)| key);
        Ok(below.take_while(|key| key.starts_with(prefix)).take(limit).cloned().collect())
    }
}

struct MemoryCas {
    store: MemoryStore,
    key: String,
    expected: Option<Vec<u8>>,
}

impl CompareAndSwap for MemoryCas {
    fn current(&self) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.expected.clone())
    }

    fn swap(self: Box<Self>, value: &[u8]) -> Result<SwapOutcome, StoreError> {
        if self.store.get(&self.key)? != self.expected {
            return Ok(SwapOutcome::No(self.store.begin_cas(&self.key)?));
        }
        self.store.set(&self.key, value)?;
        Ok(SwapOutcome::Yes)
    }
}

/// The reply of a store to a swap.
#[derive(Clone, Copy)]
pub enum SwapReply {
    /// The outcome.
    Told,
    /// The swap is reported lost although it took place, as on some hosts.
    Denied,
    /// The outcome is reported as unknown.
    Unknown { took_place: bool },
}

/// A store that loses replies to swaps.
#[derive(Clone)]
pub struct LostReplyStore {
    inner: MemoryStore,
    swaps: Rc<Cell<u32>>,
    reply: fn(u32) -> SwapReply,
}

impl LostReplyStore {
    /// Denies every second swap.
    pub fn over(inner: MemoryStore) -> Self {
        let reply = |number: u32| if number.is_multiple_of(2) { SwapReply::Denied } else { SwapReply::Told };
        LostReplyStore::with(inner, reply)
    }

    /// `reply` gets the number of earlier swaps.
    pub fn with(inner: MemoryStore, reply: fn(u32) -> SwapReply) -> Self {
        LostReplyStore { inner, swaps: Rc::default(), reply }
    }
}

impl Store for LostReplyStore {
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

    fn begin_cas(&self, key: &str) -> Result<Box<dyn CompareAndSwap>, StoreError> {
        Ok(Box::new(LostReplyCas { key: key.to_owned(), inner: self.inner.begin_cas(key)?, store: self.clone() }))
    }

    fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.inner.list(prefix, after, limit)
    }
}

struct LostReplyCas {
    key: String,
    inner: Box<dyn CompareAndSwap>,
    store: LostReplyStore,
}

impl CompareAndSwap for LostReplyCas {
    fn current(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.current()
    }

    fn swap(self: Box<Self>, value: &[u8]) -> Result<SwapOutcome, StoreError> {
        let reply = (self.store.reply)(self.store.swaps.replace(self.store.swaps.get() + 1));
        let outcome = match reply {
            SwapReply::Unknown { took_place: false } => None,
            _ => Some(self.inner.swap(value)?),
        };
        match (reply, outcome) {
            (SwapReply::Told, Some(SwapOutcome::Yes)) => Ok(SwapOutcome::Yes),
            (SwapReply::Told | SwapReply::Denied, _) => Ok(SwapOutcome::No(self.store.begin_cas(&self.key)?)),
            (SwapReply::Unknown { .. }, _) => Err(StoreError::Unknown("no reply".into())),
        }
    }
}

/// A store whose operations fail after a number of operations, as when the host's storage fails during a request.
#[derive(Clone)]
pub struct FailingStore {
    inner: MemoryStore,
    remaining: Rc<Cell<u64>>,
    failed: Rc<Cell<bool>>,
}

impl FailingStore {
    /// Fails every operation after the first `operations`.
    pub fn after(operations: u64, inner: MemoryStore) -> Self {
        FailingStore { inner, remaining: Rc::new(Cell::new(operations)), failed: Rc::default() }
    }

    /// Whether an operation has failed.
    pub fn failed(&self) -> bool {
        self.failed.get()
    }

    fn next_operation(&self) -> Result<&MemoryStore, StoreError> {
        let Some(remaining) = self.remaining.get().checked_sub(1) else {
            self.failed.set(true);
            return Err(StoreError::Other("injected".into()));
        };
        self.remaining.set(remaining);
        Ok(&self.inner)
    }
}

impl Store for FailingStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.next_operation()?.get(key)
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.next_operation()?.set(key, value)
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.next_operation()?.delete(key)
    }

    fn exists(&self, key: &str) -> Result<bool, StoreError> {
        self.next_operation()?.exists(key)
    }

    fn increment(&self, key: &str, delta: i64) -> Result<i64, StoreError> {
        self.next_operation()?.increment(key, delta)
    }

    fn begin_cas(&self, key: &str) -> Result<Box<dyn CompareAndSwap>, StoreError> {
        Ok(Box::new(FailingCas { inner: self.next_operation()?.begin_cas(key)?, store: self.clone() }))
    }

    fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.next_operation()?.list(prefix, after, limit)
    }
}

struct FailingCas {
    inner: Box<dyn CompareAndSwap>,
    store: FailingStore,
}

impl CompareAndSwap for FailingCas {
    fn current(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.next_operation()?;
        self.inner.current()
    }

    fn swap(self: Box<Self>, value: &[u8]) -> Result<SwapOutcome, StoreError> {
        self.store.next_operation()?;
        self.inner.swap(value)
    }
}

/// Bytes from a counter: every id differs, and every test run has the same ids.
#[derive(Default)]
pub struct CountingEntropy(Cell<u64>);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            self.0.set(self.0.get() + 1);
            let count = self.0.get().to_be_bytes();
            chunk.iter_mut().zip(count.iter().rev()).for_each(|(byte, count)| *byte = *count);
        }
    }
}

/// A server for outbound requests. It records each request, and a function answers it.
#[derive(Clone)]
pub struct Upstream {
    calls: Rc<RefCell<Vec<OutboundRequest>>>,
    answer: Answer,
}

type Answer = Rc<dyn Fn(&OutboundRequest) -> Result<OutboundResponse, OutboundError>>;

impl Upstream {
    /// A server that answers by `answer`.
    pub fn new(answer: impl Fn(&OutboundRequest) -> Result<OutboundResponse, OutboundError> + 'static) -> Self {
        Upstream { calls: Rc::default(), answer: Rc::new(answer) }
    }

    /// The requests since the last call.
    pub fn take_calls(&self) -> Vec<OutboundRequest> {
        self.calls.take()
    }
}

impl Client for Upstream {
    fn send(&self, request: OutboundRequest) -> LocalBoxFuture<'static, Result<OutboundResponse, OutboundError>> {
        let answer = (self.answer)(&request);
        self.calls.borrow_mut().push(request);
        Box::pin(std::future::ready(answer))
    }
}

/// The time in every [`env`].
pub const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

/// An environment over `store`, at [`NOW`], with these variables.
pub fn env(store: impl Store + 'static, variables: &[(&str, &str)]) -> Env {
    Env {
        store: Rc::new(store),
        blobs: Rc::new(BlobCache::new(1 << 20)),
        instance_cache: Rc::default(),
        snapshot: None,
        variables: Rc::new(variables.iter().copied().collect::<Variables>()),
        entropy: Rc::new(CountingEntropy::default()),
        outbound: Rc::new(NoNetwork),
        has_known_caller: Rc::default(),
        clock: Rc::new(NOW),
        now: NOW,
        caller_headers: Rc::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_refuses_the_keys_that_a_host_refuses() {
        let store = MemoryStore::default();
        for (key, is_key) in [
            ("a".to_owned(), true),
            ("a".repeat(1024), true),
            ("a".repeat(1025), false),
            (String::new(), false),
            ("\0".to_owned(), false),
        ] {
            assert_eq!(store.get(&key).is_ok(), is_key, "{} bytes", key.len());
            assert_eq!(store.exists(&key).is_ok(), is_key, "{} bytes", key.len());
            assert_eq!(store.begin_cas(&key).is_ok(), is_key, "{} bytes", key.len());
            assert_eq!(store.set(&key, b"").is_ok(), is_key, "{} bytes", key.len());
            assert_eq!(store.delete(&key).is_ok(), is_key, "{} bytes", key.len());
            assert_eq!(store.increment(&key, 1).is_ok(), is_key, "{} bytes", key.len());
        }
    }
}
