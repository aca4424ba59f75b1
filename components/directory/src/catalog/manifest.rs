//! The stored form of the catalog's root and of what a revision is made of.

use crate::store::Key;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::{Deserialize, Serialize};

/// The root.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Root {
    /// The id of the blob with the [`Manifest`].
    pub revision: String,
}

/// Everything that a revision is made of.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    #[serde(default)]
    pub namespaces: Vec<Part>,
    #[serde(default)]
    pub projects: Vec<Part>,
    #[serde(default)]
    pub members: Vec<Part>,
    /// Blobs of former revisions, which a slow reader may still be reading.
    #[serde(default)]
    pub retired: Vec<RetiredBlobs>,
}

/// A blob of a table: its first key, how many rows it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub first: RowKey,
    pub rows: usize,
    pub blob: String,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RetiredBlobs {
    pub at: Timestamp,
    pub blobs: Vec<String>,
}

/// What is being changed by somebody: the ids are in a blob.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Intent {
    pub at: Timestamp,
    pub blob: String,
}

/// A row's key in its table: an id and 0, or for a member the code of its source
/// ([`super::row::source_code`]) and the user's id.
pub(crate) type RowKey = (u64, u64);

/// What a revision is made of; the empty one is made of nothing.
pub(crate) fn manifest(env: &Env, revision: &str) -> Result<Manifest, StoreError> {
    if revision.is_empty() {
        return Ok(Manifest::default());
    }
    let blob = blob(env, revision)?;
    serde_json::from_slice(&blob).map_err(|why| StoreError::corrupt(&Key::CatalogBlob(revision).to_string(), why))
}

pub(crate) fn blob(env: &Env, id: &str) -> Result<Vec<u8>, StoreError> {
    let key = Key::CatalogBlob(id).to_string();
    env.store.get(&key)?.ok_or_else(|| StoreError::corrupt(&key, "the blob is missing"))
}
