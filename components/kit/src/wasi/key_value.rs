//! The storage port over `wasi:keyvalue`.

use super::bindings::wasi::keyvalue::atomics::{self, Cas, CasError};
use super::bindings::wasi::keyvalue::store::{self, Bucket, Error};
use crate::store::{CompareAndSwap, Store, StoreError, SwapOutcome};

/// The label of the store. Hosts provide a store `default` without run-time configuration.
const LABEL: &str = "default";

/// The granted bucket, or the error of opening it.
pub struct KeyValue(Result<Bucket, StoreError>);

impl KeyValue {
    pub fn open() -> Self {
        KeyValue(store::open(LABEL).map_err(|error| store_error(LABEL, error)))
    }

    pub fn is_open(&self) -> bool {
        self.0.is_ok()
    }

    fn bucket(&self) -> Result<&Bucket, StoreError> {
        self.0.as_ref().map_err(Clone::clone)
    }
}

impl Store for KeyValue {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.bucket()?.get(key).map_err(|error| store_error(key, error))
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.bucket()?.set(key, value).map_err(|error| store_error(key, error))
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.bucket()?.delete(key).map_err(|error| store_error(key, error))
    }

    fn exists(&self, key: &str) -> Result<bool, StoreError> {
        self.bucket()?.exists(key).map_err(|error| store_error(key, error))
    }

    fn increment(&self, key: &str, delta: i64) -> Result<i64, StoreError> {
        atomics::increment(self.bucket()?, key, delta).map_err(|error| store_error(key, error))
    }

    fn begin_cas(&self, key: &str) -> Result<Box<dyn CompareAndSwap>, StoreError> {
        let cas = Cas::new(self.bucket()?, key).map_err(|error| store_error(key, error))?;
        Ok(Box::new(WasiCas { key: key.to_owned(), cas }))
    }

    /// The interface has neither prefixes nor order. hexad takes a key as a cursor and lists the keys after it in
    /// order. A host without cursors returns all keys at once.
    fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let bucket = self.bucket()?;
        // All keys with a prefix sort after the prefix without its last character.
        let start = prefix.get(..prefix.len().saturating_sub(1)).unwrap_or_default();
        let page = match bucket.list_keys(Some(start.max(after))) {
            Err(Error::Other(_)) => bucket.list_keys(None),
            page => page,
        };
        let mut page = page.map_err(|error| store_error(prefix, error))?;
        let mut keys = Vec::new();
        loop {
            let is_past = page.keys.last().is_some_and(|key| key.as_str() > prefix && !key.starts_with(prefix));
            keys.extend(page.keys.into_iter().filter(|key| key.starts_with(prefix) && key.as_str() > after));
            match page.cursor {
                Some(cursor) if !is_past && keys.len() < limit => {
                    page = bucket.list_keys(Some(&cursor)).map_err(|error| store_error(prefix, error))?;
                }
                _ => break,
            }
        }
        keys.sort_unstable();
        keys.truncate(limit);
        Ok(keys)
    }
}

/// The beginning of the host's error text if a write may have taken place.
const UNKNOWN: &str = "it is not known whether the write took place";

struct WasiCas {
    key: String,
    cas: Cas,
}

impl CompareAndSwap for WasiCas {
    fn current(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.cas.current().map_err(|error| store_error(&self.key, error))
    }

    fn swap(self: Box<Self>, value: &[u8]) -> Result<SwapOutcome, StoreError> {
        match atomics::swap(self.cas, value) {
            Ok(()) => Ok(SwapOutcome::Yes),
            Err(CasError::CasFailed(cas)) => Ok(SwapOutcome::No(Box::new(WasiCas { key: self.key, cas }))),
            Err(CasError::StoreError(error)) => Err(store_error(&self.key, error)),
        }
    }
}

/// A part of the host's error text if a counter holds another value.
const NOT_A_COUNTER: &str = "is not a counter";

fn store_error(key: &str, error: Error) -> StoreError {
    match error {
        Error::NoSuchStore => StoreError::NoSuchStore,
        Error::AccessDenied => StoreError::Denied(key.to_owned()),
        Error::Other(why) if why.starts_with(UNKNOWN) => StoreError::Unknown(format!("`{key}`: {why}")),
        Error::Other(why) if why.contains(NOT_A_COUNTER) => StoreError::corrupt(key, why),
        Error::Other(why) => StoreError::Other(format!("`{key}`: {why}")),
    }
}
