//! Blobs: written once, and read through the instance's cache.

use super::key::Key;
use bytes::Bytes;
use kit::Env;
use kit::store::StoreError;

/// A blob that a root or another blob names, so its absence is damage.
pub fn read(env: &Env, key: &Key) -> Result<Bytes, StoreError> {
    let key = key.text();
    env.blob(&key)?.ok_or_else(|| StoreError::corrupt(&key, "it is missing"))
}

/// Like [`read`], with a check of a blob from the store: the instance caches intact blobs only.
pub fn read_checked(
    env: &Env,
    key: &Key,
    check: impl FnOnce(&[u8]) -> Result<(), String>,
) -> Result<Bytes, StoreError> {
    let text = key.text();
    if let Some(bytes) = env.blobs.peek(&text) {
        return Ok(bytes);
    }
    let bytes = Bytes::from(read_uncached(env, key)?);
    check(&bytes).map_err(|why| StoreError::corrupt(&text, why))?;
    env.blobs.put(&text, bytes.clone());
    Ok(bytes)
}

/// Like [`read`], from the store and not from the instance's cache.
pub fn read_uncached(env: &Env, key: &Key) -> Result<Vec<u8>, StoreError> {
    let key = key.text();
    env.store.get(&key)?.ok_or_else(|| StoreError::corrupt(&key, "it is missing"))
}

/// Writes a blob and caches it.
pub fn write(env: &Env, key: &Key, bytes: Bytes) -> Result<(), StoreError> {
    let key = key.text();
    env.store.set(&key, &bytes)?;
    env.blobs.put(&key, bytes);
    Ok(())
}

/// `None` for a damaged record.
pub fn unless_damaged<T>(outcome: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match outcome {
        Err(StoreError::Corrupt { .. }) => Ok(None),
        outcome => outcome.map(Some),
    }
}
