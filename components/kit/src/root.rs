//! Roots: the only keys whose value is ever rewritten, and only by compare-and-swap.
//!
//! Blobs are written first and the root last, so a crash leaves garbage but never half a fact,
//! and a reader of a root sees one consistent snapshot.

use crate::store::{Store, StoreError, SwapOutcome};
use serde::{Serialize, de::DeserializeOwned};

/// How often [`update`] asks before it gives up. Each lost attempt means that somebody else's
/// write succeeded, so this is a bound on how many writers may overtake one.
const ATTEMPTS: u32 = 1000;

/// How often an absent root whose creation another writer has claimed is looked at again before
/// that writer is taken for dead and its claim is taken over.
const CLAIM_PATIENCE: u32 = 64;

/// What a rule decides about the current value of a root.
pub enum Decision<R, T> {
    /// Nothing is to be written (or it is already there); the answer.
    Done(T),
    /// Write this, and if that succeeds this is the answer.
    Write(R, T),
}

/// Reads a root; `None` if it does not exist.
pub fn read<R: DeserializeOwned>(store: &dyn Store, key: &str) -> Result<Option<R>, StoreError> {
    store.get(key)?.map(|bytes| decode(key, &bytes)).transpose()
}

/// Loads a root, lets `decide` decide, swaps; on a lost swap loads again and asks again.
///
/// `decide` MUST recognise its own effect (each change carries an id of its own): some hosts
/// report a lost swap although it took place, and a lost reply must not be applied twice.
pub fn update<R, T, E>(
    store: &dyn Store,
    key: &str,
    mut decide: impl FnMut(Option<R>) -> Result<Decision<R, T>, E>,
) -> Result<T, E>
where
    R: Serialize + DeserializeOwned,
    E: From<StoreError>,
{
    let mut root = store.compare(key)?;
    let mut creator = false;
    let mut waited = 0;
    for _ in 0..ATTEMPTS {
        let bytes = root.current()?;
        let absent = bytes.is_none();
        let current = bytes.map(|bytes| decode(key, &bytes)).transpose()?;
        let (new, answer) = match decide(current)? {
            Decision::Done(answer) => return Ok(answer),
            Decision::Write(new, answer) => (new, answer),
        };
        // On some hosts a swap of an absent key is a plain write, so that two creators would both
        // win. The counter lets one of them create; the others wait for the root to appear.
        if absent && !creator {
            creator = match waited {
                0 => store.increment(&format!("{key}/init"), 1)? == 1,
                _ => waited == CLAIM_PATIENCE,
            };
            waited += 1;
            if !creator {
                root = store.compare(key)?;
                continue;
            }
        }
        let new = serde_json::to_vec(&new).map_err(|why| StoreError::corrupt(key, why))?;
        match root.swap(&new)? {
            SwapOutcome::Yes => return Ok(answer),
            SwapOutcome::No(latest) => root = latest,
        }
    }
    Err(StoreError::Contended(key.to_owned()).into())
}

fn decode<R: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<R, StoreError> {
    serde_json::from_slice(bytes).map_err(|why| StoreError::corrupt(key, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LostReplyStore, MemoryStore};

    /// Appends `event` once, however often it is asked.
    fn append(store: &dyn Store, event: u32) -> Result<(), StoreError> {
        update(store, "log", |log: Option<Vec<u32>>| {
            let mut log = log.unwrap_or_default();
            if log.contains(&event) {
                return Ok(Decision::Done(()));
            }
            log.push(event);
            Ok(Decision::Write(log, ()))
        })
    }

    #[test]
    fn creates_then_appends() {
        let store = MemoryStore::default();
        append(&store, 1).unwrap();
        append(&store, 2).unwrap();
        assert_eq!(read::<Vec<u32>>(&store, "log").unwrap(), Some(vec![1, 2]));
    }

    #[test]
    fn a_swap_that_took_place_but_was_reported_lost_is_applied_once() {
        let store = LostReplyStore::over(MemoryStore::default());
        for event in 0..5 {
            append(&store, event).unwrap();
        }
        assert_eq!(read::<Vec<u32>>(&store, "log").unwrap(), Some(vec![0, 1, 2, 3, 4]));
    }

    #[test]
    fn a_writer_that_died_after_claiming_does_not_block_the_root_for_ever() {
        let store = MemoryStore::default();
        store.increment("log/init", 1).unwrap();
        append(&store, 7).unwrap();
        assert_eq!(read::<Vec<u32>>(&store, "log").unwrap(), Some(vec![7]));
    }

    #[test]
    fn a_root_that_is_never_ours_is_given_up() {
        let store = MemoryStore::default();
        let mut rivals = 0_u32;
        let outcome: Result<(), StoreError> = update(&store, "log", |_: Option<Vec<u32>>| {
            rivals += 1;
            store.set("log", format!("[{rivals}]").as_bytes())?;
            Ok(Decision::Write(vec![], ()))
        });
        assert_eq!(outcome, Err(StoreError::Contended("log".into())));
        assert_eq!(rivals, ATTEMPTS);
    }

    #[test]
    fn bytes_that_are_no_record_are_named() {
        let store = MemoryStore::default();
        store.set("log", b"{").unwrap();
        let fault = read::<Vec<u32>>(&store, "log").unwrap_err();
        assert!(matches!(fault, StoreError::Corrupt { key, .. } if key == "log"));
    }
}
