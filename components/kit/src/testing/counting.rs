//! A store that counts its operations.

use super::MemoryStore;
use crate::store::{CompareAndSwap, Store, StoreError, SwapOutcome};
use std::cell::Cell;
use std::rc::Rc;

/// A store that counts operations and the bytes of their values. Clones share their counts.
#[derive(Clone)]
pub struct CountingStore {
    inner: MemoryStore,
    operations: Rc<Cell<u64>>,
    bytes: Rc<Cell<u64>>,
}

impl CountingStore {
    /// Counts from 0.
    pub fn over(inner: MemoryStore) -> Self {
        CountingStore { inner, operations: Rc::default(), bytes: Rc::default() }
    }

    /// The number of operations, including swaps and reads of expected values.
    pub fn operations(&self) -> u64 {
        self.operations.get()
    }

    /// The bytes of values and listed keys.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    fn count(&self, bytes: usize) -> &MemoryStore {
        self.operations.set(self.operations.get() + 1);
        self.bytes.set(self.bytes.get() + bytes as u64);
        &self.inner
    }
}

impl Store for CountingStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.inner.get(key)?;
        self.count(value.as_ref().map_or(0, Vec::len));
        Ok(value)
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.count(value.len()).set(key, value)
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.count(0).delete(key)
    }

    fn exists(&self, key: &str) -> Result<bool, StoreError> {
        self.count(0).exists(key)
    }

    fn increment(&self, key: &str, delta: i64) -> Result<i64, StoreError> {
        self.count(0).increment(key, delta)
    }

    fn begin_cas(&self, key: &str) -> Result<Box<dyn CompareAndSwap>, StoreError> {
        let inner = self.count(0).begin_cas(key)?;
        Ok(Box::new(CountingCas { inner, store: self.clone() }))
    }

    fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let keys = self.inner.list(prefix, after, limit)?;
        self.count(keys.iter().map(String::len).sum());
        Ok(keys)
    }
}

struct CountingCas {
    inner: Box<dyn CompareAndSwap>,
    store: CountingStore,
}

impl CompareAndSwap for CountingCas {
    fn current(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.inner.current()?;
        self.store.count(value.as_ref().map_or(0, Vec::len));
        Ok(value)
    }

    fn swap(self: Box<Self>, value: &[u8]) -> Result<SwapOutcome, StoreError> {
        self.store.count(value.len());
        self.inner.swap(value)
    }
}
