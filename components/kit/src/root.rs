//! Roots: the only keys whose value is ever rewritten, and only by compare-and-swap.
//!
//! A writer writes blobs first and the root last. So a crash leaves garbage but never a partial change, and a reader of
//! a root sees one consistent snapshot.

mod backoff;
mod creation;

use crate::env::Env;
use crate::lru::ByteLru;
pub use crate::root::backoff::Backoff;
use crate::root::creation::{Claim, Election};
pub use crate::root::creation::{counter, time_write};
use crate::store::{CompareAndSwap, Store, StoreError, SwapOutcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::rc::Rc;

/// The most swaps that [`update`] attempts. After each lost attempt another writer's swap has succeeded, so this bounds
/// how many writers may overtake one. With the pauses between them, the attempts take at most half a minute.
const MAX_ATTEMPTS: u32 = 300;

/// The most lost swaps that are repeated without a pause. Some hosts report swaps as lost that took place.
const IMMEDIATE_RETRIES: u32 = 2;

/// The most swaps of an [`update`] without a known outcome. The host waits for its store before the next read.
const MAX_UNKNOWN: u32 = 3;

/// An [`update`] that has taken longer, in milliseconds, does not swap again after an unknown outcome. The store is
/// waiting for a replica that is away, and the next swap would queue behind the first one.
const UNKNOWN_DEADLINE: i64 = 5_000;

/// The decision of a writer on the current value of a root.
pub enum Decision<R, T> {
    /// Nothing needs to be written, or the value already has the effect. Holds the result.
    Keep(T),
    /// The new value, and the result of the update if the swap succeeds.
    Replace(R, T),
}

/// Reads a root; `None` if it is absent. [`StoreError::Corrupt`] if it does not decode.
pub fn read<R: DeserializeOwned>(store: &dyn Store, key: &str) -> Result<Option<R>, StoreError> {
    store.get(key)?.map(|bytes| decode(key, &bytes)).transpose()
}

/// Reads a root and converts it. An instance decodes and converts the same bytes once. Each kind of root needs its own
/// `T`.
pub fn read_cached<R: DeserializeOwned, T: 'static>(
    env: &Env,
    key: &str,
    convert: impl FnOnce(R) -> Result<T, StoreError>,
) -> Result<Option<Rc<T>>, StoreError> {
    let Some(bytes) = env.store.get(key)? else { return Ok(None) };
    get_or_decode(env, key, bytes, |bytes| convert(decode(key, bytes)?)).map(Some)
}

/// Reads a root that this request changes later by [`update_compared`].
pub fn read_for_update<R: DeserializeOwned>(
    env: &Env,
    key: &str,
) -> Result<(Option<R>, Box<dyn CompareAndSwap>), StoreError> {
    let root = env.store.begin_cas(key)?;
    let bytes = root.current()?;
    let value = bytes.as_deref().map(|bytes| decode(key, bytes)).transpose()?;
    Ok((value, Box::new(RootAtRead { bytes, root })))
}

/// A root that was read for a swap, with the value at that time.
struct RootAtRead {
    bytes: Option<Vec<u8>>,
    root: Box<dyn CompareAndSwap>,
}

impl CompareAndSwap for RootAtRead {
    fn current(&self) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.bytes.clone())
    }

    fn swap(self: Box<Self>, value: &[u8]) -> Result<SwapOutcome, StoreError> {
        self.root.swap(value)
    }
}

/// Reads a root, calls `decide`, and swaps. After a lost swap it reads and calls `decide` again.
/// [`StoreError::Contended`] after 300 attempts.
///
/// `decide` MUST recognise its own effect, so each change carries a unique id. Some hosts report a swap as lost or
/// unknown although it took place, and `update` must not apply a change twice.
///
/// Without contention, an update reads once and swaps once. If it creates the root, it also increments a counter beside
/// it ([`creation`]). Some hosts open a connection for each swap and for the read before it. So a writer that has lost
/// more than twice pauses before it tries again.
pub fn update<R, T, E>(env: &Env, key: &str, decide: impl FnMut(Option<R>) -> Result<Decision<R, T>, E>) -> Result<T, E>
where
    R: Serialize + DeserializeOwned,
    E: From<StoreError>,
{
    update_compared(env, key, env.store.begin_cas(key)?, decide)
}

/// Like [`update`], for a root that the request has already read for a swap. Without contention it reads nothing: after
/// a swap that was lost to uncommitted values, a host waits for a flush before the next read.
pub fn update_compared<R, T, E>(
    env: &Env,
    key: &str,
    mut root: Box<dyn CompareAndSwap>,
    mut decide: impl FnMut(Option<R>) -> Result<Decision<R, T>, E>,
) -> Result<T, E>
where
    R: Serialize + DeserializeOwned,
    E: From<StoreError>,
{
    let mut election = Election::new(env, key);
    let mut backoff = Backoff::new(env);
    let began = env.clock.now();
    let (mut unknown, mut last) = (0, None);
    for attempt in 1..=MAX_ATTEMPTS {
        let bytes = root.current()?;
        let is_absent = bytes.is_none();
        let current = bytes.map(|bytes| decode(key, &bytes)).transpose()?;
        let (new, result) = match decide(current)? {
            Decision::Keep(result) => return Ok(result),
            Decision::Replace(new, result) => (new, result),
        };
        if let Some(error) = last.take() {
            return Err(E::from(error));
        }
        if is_absent && election.claim()? == Claim::ReadAgain {
            root = env.store.begin_cas(key)?;
            continue;
        }
        let new = serde_json::to_vec(&new).map_err(|why| StoreError::corrupt(key, why))?;
        let outcome = match root.swap(&new) {
            // The next read shows whether the swap took place: if so, `decide` recognises its own effect.
            Err(error @ StoreError::Unknown(_)) if unknown < MAX_UNKNOWN => {
                unknown += 1;
                last = (env.clock.now().millis() - began.millis() > UNKNOWN_DEADLINE).then_some(error);
                root = env.store.begin_cas(key)?;
                continue;
            }
            Err(error) => return Err(error.into()),
            Ok(outcome) => outcome,
        };
        match outcome {
            SwapOutcome::Yes => return Ok(result),
            SwapOutcome::No(latest) if attempt <= IMMEDIATE_RETRIES => root = latest,
            SwapOutcome::No(_) => {
                backoff.pause();
                root = env.store.begin_cas(key)?;
            }
        }
    }
    Err(StoreError::Contended(key.to_owned()).into())
}

fn decode<R: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<R, StoreError> {
    serde_json::from_slice(bytes).map_err(|why| StoreError::corrupt(key, why))
}

/// The most bytes of values of one type that an instance caches.
const CAPACITY: usize = 4 * 1024 * 1024;

/// The estimated bytes in memory for each stored byte: the decoded value and the stored byte.
const SIZE_PER_BYTE: usize = 4;

/// The size of an entry beyond its bytes and its value, in bytes.
const OVERHEAD: usize = 256;

struct DecodedValue<T> {
    bytes: Vec<u8>,
    value: Rc<T>,
}

/// The cached values of one type, by key.
struct DecodedCache<T>(ByteLru<String, Rc<DecodedValue<T>>>);

/// The value of these bytes of `key`, from the cache or else by `decode`.
pub fn get_or_decode<T: 'static>(
    env: &Env,
    key: &str,
    bytes: Vec<u8>,
    decode: impl FnOnce(&[u8]) -> Result<T, StoreError>,
) -> Result<Rc<T>, StoreError> {
    let cache = env.instance_cache.get_or_insert_with(|| DecodedCache::<T>(ByteLru::new(CAPACITY)));
    if let Some(cached) = cache.0.get(key).filter(|cached| cached.bytes == bytes) {
        return Ok(cached.value.clone());
    }
    let value = Rc::new(decode(&bytes)?);
    let size = bytes.len() * SIZE_PER_BYTE + key.len() + OVERHEAD;
    cache.0.put(key.to_owned(), size, Rc::new(DecodedValue { bytes, value: value.clone() }));
    Ok(value)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod decoded_tests {
    use super::*;
    use crate::testing::{MemoryStore, env};
    use std::cell::Cell;

    #[test]
    fn the_same_bytes_of_a_key_are_decoded_once() {
        let env = env(MemoryStore::default(), &[]);
        let decodings = Cell::new(0);
        let get = |key: &str, bytes: &str| {
            let decoded = get_or_decode(&env, key, bytes.as_bytes().to_vec(), |bytes| {
                decodings.set(decodings.get() + 1);
                Ok(bytes.len())
            });
            (*decoded.unwrap(), decodings.get())
        };
        assert_eq!((get("a", "1"), get("a", "1")), ((1, 1), (1, 1)));
        assert_eq!(get("a", "22"), (2, 2), "it has changed");
        assert_eq!((get("a", "1"), get("b", "1")), ((1, 3), (1, 4)), "one value for each key");
    }

    #[test]
    fn a_value_that_cannot_be_decoded_is_not_cached() {
        let env = env(MemoryStore::default(), &[]);
        let failed = get_or_decode::<u8>(&env, "a", vec![1], |_| Err(StoreError::corrupt("a", "why")));
        assert!(failed.is_err());
        assert_eq!(get_or_decode::<u8>(&env, "a", vec![1], |_| Ok(7)).as_deref(), Ok(&7));
    }
}
