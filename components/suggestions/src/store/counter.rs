//! Counters of ids: how ids are taken, and whether a counter is behind an id in use.

use crate::store::key::Key;
use bytes::Bytes;
use kit::Env;
use kit::reachability::Tracer;
use kit::store::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Takes `count` consecutive ids and returns the first. 1 increment. Ids begin with 1; a counter below 0 is damaged. It
/// is left as it was, or else the next request would find a counter that seems sound, and take ids in use.
pub fn take(env: &Env, counter: &Key, count: i64) -> Result<u64, StoreError> {
    let key = counter.to_string();
    let before = env.store.increment(&key, count)?.saturating_sub(count);
    match u64::try_from(before) {
        Ok(before) => Ok(before + 1),
        Err(_) => {
            env.store.increment(&key, -count)?;
            Err(StoreError::corrupt(&key, format!("it is {before}")))
        }
    }
}

/// Compares counters with the ids that a check comes across.
#[derive(Default)]
pub struct CounterCheck(RefCell<BTreeMap<String, KnownCounter>>);

struct KnownCounter {
    value: i64,
    /// The greatest id that was reported. Smaller ids need no report.
    reported: u64,
}

impl CounterCheck {
    /// Reports a counter that is behind an id in use, because it would give that id again. An id is taken before it is
    /// used, so the counter is read again before the report. 1 increment by 0 for each step, and 1 for each report.
    pub fn compare(&self, env: &Env, counter: &Key, used: u64, tracer: &mut Tracer) -> Result<(), StoreError> {
        let key = counter.to_string();
        let is_behind = |value: i64| u64::try_from(value).ok().is_none_or(|value| value < used);
        let mut known = self.0.borrow_mut();
        let known = known.entry(key.clone()).or_insert(KnownCounter { value: -1, reported: 0 });
        if !is_behind(known.value) || used < known.reported {
            return Ok(());
        }
        match tracer.tolerate(env.store.increment(&key, 0))? {
            Some(value) if is_behind(value) => {
                tracer.report(&key, format!("it is {value}, and id {used} is in use"));
                known.reported = used;
            }
            Some(value) => known.value = value,
            // The counter cannot be read, which was reported.
            None => known.reported = used,
        }
        Ok(())
    }
}

/// The record of a blob; `None` if there is no such blob. 1 read.
pub fn read<R: DeserializeOwned>(env: &Env, key: &Key) -> Result<Option<R>, StoreError> {
    let key = key.to_string();
    let Some(bytes) = env.blob(&key)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|why| StoreError::corrupt(&key, why))
}

pub fn write(env: &Env, key: &Key, record: &impl Serialize) -> Result<(), StoreError> {
    let key = key.to_string();
    let bytes = serde_json::to_vec(record).map_err(|why| StoreError::corrupt(&key, why))?;
    env.store.set(&key, &bytes)?;
    env.blobs.put(&key, Bytes::from(bytes));
    Ok(())
}
