//! A store that reports each operation before it is done.

use super::MemoryStore;
use crate::store::{CompareAndSwap, Store, StoreError, SwapOutcome};
use std::cell::Cell;
use std::rc::Rc;

/// Gets the name of an operation, and the key.
type Watch = dyn Fn(&str, &str);

/// Calls a function before each operation, with the operation's name and the key.
#[derive(Clone)]
pub struct WatchedStore {
    inner: MemoryStore,
    watch: Rc<Watch>,
}

impl WatchedStore {
    pub fn over(inner: MemoryStore, watch: impl Fn(&str, &str) + 'static) -> Self {
        WatchedStore { inner, watch: Rc::new(watch) }
    }

    /// Counts the operations that `is_counted` accepts.
    pub fn counting(inner: &MemoryStore, is_counted: impl Fn(&str, &str) -> bool + 'static) -> (Self, Rc<Cell<usize>>) {
        let count = Rc::new(Cell::new(0));
        let counted = count.clone();
        let watch = move |operation: &str, key: &str| {
            counted.set(counted.get() + usize::from(is_counted(operation, key)));
        };
        (WatchedStore::over(inner.clone(), watch), count)
    }
}

impl Store for WatchedStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        (self.watch)("get", key);
        self.inner.get(key)
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        (self.watch)("set", key);
        self.inner.set(key, value)
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        (self.watch)("delete", key);
        self.inner.delete(key)
    }

    fn exists(&self, key: &str) -> Result<bool, StoreError> {
        (self.watch)("exists", key);
        self.inner.exists(key)
    }

    fn increment(&self, key: &str, delta: i64) -> Result<i64, StoreError> {
        (self.watch)("increment", key);
        self.inner.increment(key, delta)
    }

    fn begin_cas(&self, key: &str) -> Result<Box<dyn CompareAndSwap>, StoreError> {
        (self.watch)("compare", key);
        Ok(Box::new(WatchedCas { inner: self.inner.begin_cas(key)?, key: key.to_owned(), store: self.clone() }))
    }

    fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        (self.watch)("list", prefix);
        self.inner.list(prefix, after, limit)
    }
}

struct WatchedCas {
    inner: Box<dyn CompareAndSwap>,
    key: String,
    store: WatchedStore,
}

impl CompareAndSwap for WatchedCas {
    fn current(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.current()
    }

    fn swap(self: Box<Self>, value: &[u8]) -> Result<SwapOutcome, StoreError> {
        (self.store.watch)("swap", &self.key);
        self.inner.swap(value)
    }
}
