//! Roots: the only keys whose value is ever rewritten, and only by compare-and-swap.
//!
//! Blobs are written first and the root last, so a crash leaves garbage but never half a fact,
//! and a reader of a root sees one consistent snapshot.

mod backoff;
mod creation;
mod decoded;

use crate::env::Env;
use crate::store::{CompareAndSwap, Store, StoreError, SwapOutcome};
pub use backoff::Backoff;
use creation::{Claim, Creation};
pub use creation::{counter, time_write};
use serde::{Serialize, de::DeserializeOwned};
use std::rc::Rc;

/// How many swaps [`update`] attempts. Each lost attempt means that another writer's swap succeeded,
/// so this bounds how many writers may overtake one. With the pauses between them that takes half a
/// minute at most.
const ATTEMPTS: u32 = 300;

/// How many lost swaps are repeated at once. Some hosts report every swap as lost, and the next look
/// shows that it took place.
const IMMEDIATE_ATTEMPTS: u32 = 2;

/// How many swaps of one [`update`] may end without a known outcome. The host waits for its store before
/// the next look.
const MAX_UNKNOWN: u32 = 3;

/// How long an [`update`] may have taken, in milliseconds, for another swap after one without a known outcome. A store
/// that took longer to say nothing waits for a copy that is away, and so would the next swap: behind the first one.
const MAX_WAIT: i64 = 5_000;

/// A rule's decision on the current value of a root.
pub enum Decision<R, T> {
    /// Nothing needs to be written, or the effect is already there; the result.
    Keep(T),
    /// The new value, and the result if its swap succeeds.
    Replace(R, T),
}

/// Reads a root. `None` if it is absent.
pub fn read<R: DeserializeOwned>(store: &dyn Store, key: &str) -> Result<Option<R>, StoreError> {
    store.get(key)?.map(|bytes| decode(key, &bytes)).transpose()
}

/// Reads a root, as `convert` makes a value of it. As long as its bytes stay the same, an instance decodes
/// and converts them once. `T` belongs to this one kind of root.
pub fn read_cached<R: DeserializeOwned, T: 'static>(
    env: &Env,
    key: &str,
    convert: impl FnOnce(R) -> Result<T, StoreError>,
) -> Result<Option<Rc<T>>, StoreError> {
    let Some(bytes) = env.store.get(key)? else { return Ok(None) };
    decoded::get_or_decode(env, key, bytes, |bytes| convert(decode(key, bytes)?)).map(Some)
}

/// Reads a root, to change it later in this request by [`update_compared`].
pub fn read_for_update<R: DeserializeOwned>(
    env: &Env,
    key: &str,
) -> Result<(Option<R>, Box<dyn CompareAndSwap>), StoreError> {
    let root = env.store.begin_cas(key)?;
    let bytes = root.current()?;
    let value = bytes.as_deref().map(|bytes| decode(key, bytes)).transpose()?;
    Ok((value, Box::new(ReadRoot { bytes, root })))
}

/// A root with the value that it had when it was compared.
struct ReadRoot {
    bytes: Option<Vec<u8>>,
    root: Box<dyn CompareAndSwap>,
}

impl CompareAndSwap for ReadRoot {
    fn current(&self) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.bytes.clone())
    }

    fn swap(self: Box<Self>, value: &[u8]) -> Result<SwapOutcome, StoreError> {
        self.root.swap(value)
    }
}

/// Reads a root, calls `decide`, and swaps; after a lost swap, reads and calls `decide` again.
///
/// `decide` MUST recognise its own effect (each change carries an id of its own): some hosts report a
/// swap as lost or unknown although it took place, and `update` must not apply it twice.
///
/// An uncontended update reads once and swaps once; if it creates the root, it also increments a
/// counter beside it ([`creation`]). Some hosts open a connection for each swap and for the read before
/// it, so a writer that has lost twice pauses before it tries again.
pub fn update<R, T, E>(env: &Env, key: &str, decide: impl FnMut(Option<R>) -> Result<Decision<R, T>, E>) -> Result<T, E>
where
    R: Serialize + DeserializeOwned,
    E: From<StoreError>,
{
    update_compared(env, key, env.store.begin_cas(key)?, decide)
}

/// Like [`update`], of a root that the request has read for a swap before. An uncontended one reads nothing: after a
/// swap that was lost to uncommitted values, a host waits for a flush before the next read.
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
    let mut creation = Creation::of(env, key);
    let mut backoff = Backoff::new(env);
    let began = env.clock.now();
    let (mut unknown, mut last) = (0, None);
    for attempt in 1..=ATTEMPTS {
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
        if is_absent && creation.claim()? == Claim::LookAgain {
            root = env.store.begin_cas(key)?;
            continue;
        }
        let new = serde_json::to_vec(&new).map_err(|why| StoreError::corrupt(key, why))?;
        let outcome = match root.swap(&new) {
            // The next look shows whether it took place: if so, `decide` recognises its own effect.
            Err(error @ StoreError::Unknown(_)) if unknown < MAX_UNKNOWN => {
                unknown += 1;
                last = (env.clock.now().millis() - began.millis() > MAX_WAIT).then_some(error);
                root = env.store.begin_cas(key)?;
                continue;
            }
            Err(error) => return Err(error.into()),
            Ok(outcome) => outcome,
        };
        match outcome {
            SwapOutcome::Yes => return Ok(result),
            SwapOutcome::No(latest) if attempt <= IMMEDIATE_ATTEMPTS => root = latest,
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

#[cfg(test)]
mod tests;
