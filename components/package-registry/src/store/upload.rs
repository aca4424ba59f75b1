//! Uploads: published files, and what belongs to each.

use super::blob;
use super::key::Key;
use crate::integrity::Integrity;
use bytes::Bytes;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// Size of the pieces in which files are stored, in bytes; only the last one is shorter. Hosts
/// hand values over as a whole, so this bounds the memory of a download.
pub const CHUNK: usize = 1024 * 1024;

/// A published file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Bytes.
    pub size: u64,
    pub integrity: Integrity,
    /// The id of the caller who published it (see `api/request.rs`).
    pub publisher: String,
    pub created: Timestamp,
    /// A checksum for each chunk.
    pub checksums: Vec<u64>,
    /// The tag that it was published with; `None` in records of old builds.
    pub tag: Option<String>,
}

impl Upload {
    pub fn chunks(&self) -> usize {
        self.checksums.len()
    }
}

/// The record of an upload.
pub fn upload(env: &Env, id: &str) -> Result<Upload, StoreError> {
    read_upload(id, |key| blob::read(env, key))
}

/// The record of an upload as it is stored now.
pub fn upload_uncached(env: &Env, id: &str) -> Result<Upload, StoreError> {
    read_upload(id, |key| blob::read_uncached(env, key).map(Bytes::from))
}

fn read_upload(id: &str, read: impl Fn(&Key) -> Result<Bytes, StoreError>) -> Result<Upload, StoreError> {
    let key = Key::Upload(id);
    let bytes = read(&key)?;
    let record: UploadRecord =
        serde_json::from_slice(&bytes).map_err(|why| StoreError::corrupt(&key.to_string(), why))?;
    record.read(&key.to_string())
}

/// A chunk of a file, verified. Chunks are not cached: they are large, and other blobs are read more
/// often.
///
/// The checksum detects damage, not malice: a writer of chunks can write checksums as well. Clients
/// verify the file by the digests in the metadata.
pub fn chunk(env: &Env, id: &str, upload: &Upload, number: usize) -> Result<Bytes, StoreError> {
    let key = Key::Chunk(id, number).to_string();
    let bytes = env.store.get(&key)?.ok_or_else(|| StoreError::corrupt(&key, "it is missing"))?;
    if upload.checksums.get(number) != Some(&checksum(&bytes)) {
        return Err(StoreError::corrupt(&key, "its checksum differs"));
    }
    Ok(bytes.into())
}

/// Removes the chunks of a file that no package names any more. Chunks that cannot be removed stay as
/// garbage. The upload's record stays for requests that have read an earlier revision of the package.
pub fn remove_chunks(env: &Env, id: &str) {
    let Ok(upload) = upload(env, id) else { return };
    for number in 0..upload.chunks() {
        if env.store.delete(&Key::Chunk(id, number).to_string()).is_err() {
            return;
        }
    }
}

pub fn checksum(chunk: &[u8]) -> u64 {
    xxh3_64(chunk)
}

/// The members that [`crate::manifest::Manifest::latest_fields`] made of an upload's manifest.
pub fn latest_fields(env: &Env, upload: &str) -> Result<Bytes, StoreError> {
    blob::read(env, &Key::LatestFields(upload))
}

/// Checks that they are stored, and are text.
pub fn check_latest_fields(env: &Env, upload: &str) -> Result<(), StoreError> {
    let key = Key::LatestFields(upload);
    let text = blob::read_uncached(env, &key)?;
    std::str::from_utf8(&text).map(drop).map_err(|why| StoreError::corrupt(&key.to_string(), why))
}

pub fn save_latest_fields(env: &Env, upload: &str, fields: &str) -> Result<(), StoreError> {
    blob::write(env, &Key::LatestFields(upload), fields.to_owned().into())
}

/// The document that [`crate::provenance::Provenance::document`] made, if the upload has one.
pub fn attestations(env: &Env, upload: &str) -> Result<Option<Bytes>, StoreError> {
    env.blob(&Key::Attestations(upload).to_string())
}

pub fn save_attestations(env: &Env, upload: &str, document: &str) -> Result<(), StoreError> {
    blob::write(env, &Key::Attestations(upload), document.to_owned().into())
}

#[derive(Serialize, Deserialize)]
pub struct UploadRecord {
    size: u64,
    integrity: String,
    shasum: String,
    publisher: String,
    created: Timestamp,
    /// XXH3-64 of each chunk, as 16 hexadecimal digits.
    checksums: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
}

impl UploadRecord {
    /// `key` is where the record was, for the error.
    fn read(self, key: &str) -> Result<Upload, StoreError> {
        let integrity = Integrity::read(&self.integrity, &self.shasum);
        let checksums = self.checksums.iter().map(|digits| u64::from_str_radix(digits, 16));
        Ok(Upload {
            size: self.size,
            integrity: integrity.ok_or_else(|| StoreError::corrupt(key, "its digests are malformed"))?,
            publisher: self.publisher,
            created: self.created,
            checksums: checksums.collect::<Result<_, _>>().map_err(|why| StoreError::corrupt(key, why))?,
            tag: self.tag,
        })
    }
}

impl From<&Upload> for UploadRecord {
    fn from(upload: &Upload) -> Self {
        UploadRecord {
            size: upload.size,
            integrity: upload.integrity.sri(),
            shasum: upload.integrity.shasum(),
            publisher: upload.publisher.clone(),
            created: upload.created,
            checksums: upload.checksums.iter().map(|checksum| format!("{checksum:016x}")).collect(),
            tag: upload.tag.clone(),
        }
    }
}
