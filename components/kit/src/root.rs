//! Roots: the only keys whose value is ever rewritten, and only by compare-and-swap.
//!
//! Blobs are written first and the root last, so a crash leaves garbage but never half a fact,
//! and a reader of a root sees one consistent snapshot.

use crate::store::{Store, StoreError, SwapOutcome};
use serde::{Serialize, de::DeserializeOwned};

/// How many swaps [`update`] attempts. Each lost attempt means that another writer's swap succeeded,
/// so this bounds how many writers may overtake one.
const ATTEMPTS: u32 = 1000;

/// How many times [`update`] reads an absent root whose creation another writer has claimed, before
/// it takes that writer for dead and takes over the claim.
const CLAIM_READS: u32 = 64;

/// A rule's decision on the current value of a root.
pub enum Decision<R, T> {
    /// Nothing needs to be written, or the effect is already there; the result.
    Done(T),
    /// The new value, and the result if its swap succeeds.
    Write(R, T),
}

/// Reads a root. `None` if it is absent.
pub fn read<R: DeserializeOwned>(store: &dyn Store, key: &str) -> Result<Option<R>, StoreError> {
    store.get(key)?.map(|bytes| decode(key, &bytes)).transpose()
}

/// Reads a root, calls `decide`, and swaps; after a lost swap, reads and calls `decide` again.
///
/// `decide` MUST recognise its own effect (each change carries an id of its own): some hosts report a
/// swap as lost although it took place, and `update` must not apply it twice.
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
    let mut is_creator = false;
    let mut reads = 0;
    for _ in 0..ATTEMPTS {
        let bytes = root.current()?;
        let is_absent = bytes.is_none();
        let current = bytes.map(|bytes| decode(key, &bytes)).transpose()?;
        let (new, result) = match decide(current)? {
            Decision::Done(result) => return Ok(result),
            Decision::Write(new, result) => (new, result),
        };
        // On some hosts a swap of an absent key is a plain write, so that two creators would both
        // win. The counter elects one creator; the others wait for the root to appear.
        if is_absent && !is_creator {
            is_creator = match reads {
                0 => store.increment(&format!("{key}/init"), 1)? == 1,
                _ => reads == CLAIM_READS,
            };
            reads += 1;
            if !is_creator {
                root = store.compare(key)?;
                continue;
            }
        }
        let new = serde_json::to_vec(&new).map_err(|why| StoreError::corrupt(key, why))?;
        match root.swap(&new)? {
            SwapOutcome::Yes => return Ok(result),
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
    fn a_root_that_other_writers_always_win_is_given_up() {
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
    fn bytes_that_are_no_record_are_reported_with_their_key() {
        let store = MemoryStore::default();
        store.set("log", b"{").unwrap();
        let error = read::<Vec<u32>>(&store, "log").unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { key, .. } if key == "log"));
    }
}
