//! Blobs of JSON, cached by the instance.

use super::key::Key;
use bytes::Bytes;
use kit::Env;
use kit::store::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;

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
