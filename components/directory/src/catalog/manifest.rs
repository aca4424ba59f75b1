//! The stored form of the catalog's root, of a revision's manifest, and of intents.

use crate::store::{self, Key};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The root of the catalog.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Root {
    /// The id of the blob with the [`Manifest`].
    pub revision: String,
    /// The id of the last batch of changes. It also changes with fields that no table has. So records can be cached
    /// under the root ([`crate::record_cache`]).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub batch: String,
}

/// The parts of a revision.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    #[serde(default)]
    pub namespaces: Vec<Part>,
    #[serde(default)]
    pub projects: Vec<Part>,
    #[serde(default)]
    pub members: Vec<Part>,
    /// Blobs of former revisions that slow readers may still read.
    #[serde(default)]
    pub retired: Vec<RetiredBlobs>,
}

/// A blob of a table: its first key and the number of its rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub first: RowKey,
    pub rows: usize,
    pub blob: String,
}

/// Blobs that were replaced at the same time.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RetiredBlobs {
    #[serde(rename = "at")]
    pub retired_at: Timestamp,
    pub blobs: Vec<String>,
}

/// A writer's intent to change records. The blob has their ids ([`super::changes::Changes`]).
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Intent {
    #[serde(rename = "at")]
    pub logged_at: Timestamp,
    pub blob: String,
}

/// A row's key in its table: an id and 0; for a member the code of its source ([`super::row::source_code`]) and the
/// user's id.
pub(crate) type RowKey = (u64, u64);

/// New rows by key; `None` removes a row.
pub(crate) type Rows<R> = BTreeMap<RowKey, Option<R>>;

/// The most attempts of a reader that is slower than the blobs of a former revision are retained.
const MAX_ATTEMPTS: usize = 5;

/// The result of `read` for the present revision. After an error it is called again, because the revision's blobs may
/// have been deleted meanwhile. 1 read for each attempt.
pub(crate) fn read_latest<T>(env: &Env, read: impl Fn(&str) -> Result<T, StoreError>) -> Result<T, StoreError> {
    let mut outcome = Err(StoreError::Contended(Key::Catalog.to_string()));
    for _ in 0..MAX_ATTEMPTS {
        let revision = store::read::<Root>(env, &Key::Catalog)?.map(|root| root.revision).unwrap_or_default();
        outcome = read(&revision);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// The manifest of a revision. The empty revision, before the first import, has an empty manifest.
pub(crate) fn manifest(env: &Env, revision: &str) -> Result<Manifest, StoreError> {
    if revision.is_empty() {
        return Ok(Manifest::default());
    }
    let blob = blob(env, revision)?;
    serde_json::from_slice(&blob).map_err(|error| StoreError::corrupt(&Key::CatalogBlob(revision).to_string(), error))
}

/// The decoded blob of a part.
pub(crate) fn decode<T>(env: &Env, part: &Part, decode: impl FnOnce(&[u8]) -> Option<T>) -> Result<T, StoreError> {
    let corrupt = || StoreError::corrupt(&Key::CatalogBlob(&part.blob).to_string(), "no such rows");
    decode(&blob(env, &part.blob)?).ok_or_else(corrupt)
}

pub(crate) fn blob(env: &Env, id: &str) -> Result<Vec<u8>, StoreError> {
    let key = Key::CatalogBlob(id).to_string();
    env.store.get(&key)?.ok_or_else(|| StoreError::corrupt(&key, "the blob is missing"))
}
