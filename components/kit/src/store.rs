//! The key-value port: the operations that components use.
//!
//! They are synchronous, as the hosts' interface (`wasi:keyvalue@0.2.0-draft2`) is. The batch interface is not used,
//! because it loses or refuses entries on several hosts.

use std::fmt;
use thiserror::Error;

/// A key-value store. Keys are UTF-8; values are opaque bytes.
pub trait Store {
    /// `None` if the key is absent.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Writes unconditionally. Only for blobs: no two writers give a key different bytes.
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError>;

    /// Deletes a key; an absent key is not an error.
    fn delete(&self, key: &str) -> Result<(), StoreError>;

    /// Whether the key is present.
    fn exists(&self, key: &str) -> Result<bool, StoreError>;

    /// Adds `delta` to a counter and returns the new value; an absent counter is 0. Hosts store counters in different
    /// forms, so a counter must not be read with `get`.
    fn increment(&self, key: &str, delta: i64) -> Result<i64, StoreError>;

    /// Reads `key` for a compare-and-swap against its present value.
    fn begin_cas(&self, key: &str) -> Result<Box<dyn CompareAndSwap>, StoreError>;

    /// Up to `limit` keys that start with `prefix` and sort after `after`, in the order of their bytes. Fewer than
    /// `limit` keys mean that no more exist. For maintenance only: a host that cannot seek reads every key of the store
    /// for each page.
    fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError>;
}

/// The store of a component without storage. It denies every operation.
pub struct NoStore;

impl Store for NoStore {
    fn get(&self, _: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Err(StoreError::NoSuchStore)
    }

    fn set(&self, _: &str, _: &[u8]) -> Result<(), StoreError> {
        Err(StoreError::NoSuchStore)
    }

    fn delete(&self, _: &str) -> Result<(), StoreError> {
        Err(StoreError::NoSuchStore)
    }

    fn exists(&self, _: &str) -> Result<bool, StoreError> {
        Err(StoreError::NoSuchStore)
    }

    fn increment(&self, _: &str, _: i64) -> Result<i64, StoreError> {
        Err(StoreError::NoSuchStore)
    }

    fn begin_cas(&self, _: &str) -> Result<Box<dyn CompareAndSwap>, StoreError> {
        Err(StoreError::NoSuchStore)
    }

    fn list(&self, _: &str, _: &str, _: usize) -> Result<Vec<String>, StoreError> {
        Err(StoreError::NoSuchStore)
    }
}

/// [`Store::list`] over several prefixes. The prefixes are sorted, and no prefix starts with another.
pub fn list_all(store: &dyn Store, prefixes: &[&str], after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
    let mut keys = Vec::new();
    for prefix in prefixes {
        let is_past = after > *prefix && !after.starts_with(prefix);
        if !is_past && keys.len() < limit {
            keys.extend(store.list(prefix, after, limit - keys.len())?);
        }
    }
    Ok(keys)
}

/// A compare-and-swap on one key, against the value that the key had at [`Store::begin_cas`].
pub trait CompareAndSwap {
    /// The expected value; `None` if the key was absent.
    fn current(&self) -> Result<Option<Vec<u8>>, StoreError>;

    /// Writes `value` if the key still has the expected value.
    fn swap(self: Box<Self>, value: &[u8]) -> Result<SwapOutcome, StoreError>;
}

/// The outcome of a swap. A lost race is an outcome, not an error.
pub enum SwapOutcome {
    Yes,
    /// Another writer was first. Some hosts report this although the swap took place, so the caller must check whether
    /// its own write is there ([`crate::root::update`] does).
    No(Box<dyn CompareAndSwap>),
}

/// A failed storage operation. Its text is for the log, never for a client.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The component has no store.
    #[error("no key-value store labelled `default` is granted")]
    NoSuchStore,
    /// The key or the store is outside this component's grants.
    #[error("access to `{0}` is denied")]
    Denied(String),
    /// Stored bytes that this build cannot read.
    #[error("`{key}` cannot be read: {why}")]
    Corrupt { key: String, why: String },
    /// The request took so long that garbage collection may have removed its blobs.
    #[error("the request took too long to be carried out")]
    TooLate,
    /// Other writers won every swap of this root.
    #[error("`{0}` was changed by others on every attempt")]
    Contended(String),
    /// The host lost its store during a write. The write may have taken place, or may still take place.
    #[error("storage failed: {0}")]
    Unknown(String),
    /// Any other failure, in the host's words.
    #[error("storage failed: {0}")]
    Other(String),
}

impl StoreError {
    /// The value of `key` cannot be read.
    pub fn corrupt(key: &str, why: impl fmt::Display) -> Self {
        StoreError::Corrupt { key: key.to_owned(), why: why.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemoryStore;

    #[test]
    fn pages_over_several_prefixes_give_each_key_once() {
        let store = MemoryStore::default();
        for key in ["a/1", "a/2", "ab", "b/1", "c/1", "c/2", "c/3"] {
            store.set(key, b"").unwrap();
        }
        for limit in 1..8 {
            let (mut keys, mut after) = (Vec::new(), String::new());
            loop {
                let page = list_all(&store, &["a/", "c/", "d/"], &after, limit).unwrap();
                let is_last = page.len() < limit;
                keys.extend(page);
                after = keys.last().cloned().unwrap_or_default();
                if is_last {
                    break;
                }
            }
            assert_eq!(keys, ["a/1", "a/2", "c/1", "c/2", "c/3"], "{limit} a page");
        }
    }
}
