//! Uploads: published files, and the records that belong to each.

use super::blob;
use super::key::Key;
use crate::checksum::Checksum;
use crate::integrity::Integrity;
use crate::package::LATEST;
use crate::publisher::Publisher;
use bytes::Bytes;
use directory::project::Incarnation;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use lru::LruCache;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::rc::Rc;

/// The most decoded uploads that an instance caches.
const MAX_DECODED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);

/// Uploads by their ids.
struct DecodedUploads(RefCell<LruCache<String, Rc<Upload>>>);

/// A published file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Bytes.
    pub size: u64,
    pub integrity: Integrity,
    pub publisher: Publisher,
    pub created: Timestamp,
    /// A checksum for each chunk.
    pub checksums: Vec<Checksum>,
    /// The tag that it was published with; `None` in records of old builds.
    pub tag: Option<String>,
    /// The other tags in the document that it was published with.
    pub further_tags: Vec<String>,
}

impl Upload {
    /// Whether its publish document had this tag. Old builds did not store the tag; most often it was `latest`.
    pub fn was_published_with(&self, tag: &str) -> bool {
        self.tag.as_deref().unwrap_or(LATEST) == tag || self.further_tags.iter().any(|further| further == tag)
    }

    pub fn chunks(&self) -> usize {
        self.checksums.len()
    }
}

/// The record of an upload.
pub fn upload(env: &Env, id: &str) -> Result<Upload, StoreError> {
    read_upload(id, |key| blob::read(env, key))
}

/// The record of an upload. It never changes, so an instance decodes it once.
pub fn shared_upload(env: &Env, id: &str) -> Result<Rc<Upload>, StoreError> {
    let known = env.instance_cache.get::<DecodedUploads>().unwrap_or_else(|| {
        let empty = Rc::new(DecodedUploads(RefCell::new(LruCache::new(MAX_DECODED))));
        env.instance_cache.put(empty.clone());
        empty
    });
    if let Some(upload) = known.0.borrow_mut().get(id) {
        return Ok(upload.clone());
    }
    let upload = Rc::new(upload(env, id)?);
    known.0.borrow_mut().put(id.to_owned(), upload.clone());
    Ok(upload)
}

/// The record of an upload, from the store and not from the instance's cache.
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

/// The package-level fields of an upload, from [`crate::manifest::Manifest::package_level_fields`]. They are copied
/// into metadata, so an instance parses them when it reads them from the store.
pub fn package_level_fields(env: &Env, upload: &str) -> Result<Bytes, StoreError> {
    blob::read_checked(env, &Key::PackageLevelFields(upload), are_members)
}

/// Checks that the package-level fields are stored, and can be appended to an object.
pub fn check_package_level_fields(env: &Env, upload: &str) -> Result<(), StoreError> {
    let key = Key::PackageLevelFields(upload);
    are_members(&blob::read_uncached(env, &key)?).map_err(|why| StoreError::corrupt(&key.to_string(), why))
}

/// Each member starts with a comma.
fn are_members(fields: &[u8]) -> Result<(), String> {
    let object = [b"{\"\":0", fields, b"}"].concat();
    serde_json::from_slice::<serde::de::IgnoredAny>(&object).map(drop).map_err(|why| why.to_string())
}

pub fn save_package_level_fields(env: &Env, upload: &str, fields: &str) -> Result<(), StoreError> {
    blob::write(env, &Key::PackageLevelFields(upload), fields.to_owned().into())
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
    /// The id of the publisher's incarnation; empty for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    publisher_incarnation: Option<String>,
    created: Timestamp,
    /// A checksum for each chunk.
    checksums: Vec<Checksum>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    further_tags: Vec<String>,
}

impl UploadRecord {
    /// `key` is the record's key, for errors.
    fn read(self, key: &str) -> Result<Upload, StoreError> {
        let integrity = Integrity::read(&self.integrity, &self.shasum);
        let incarnation = |id: String| if id.is_empty() { Incarnation::default() } else { Incarnation::new(id) };
        Ok(Upload {
            size: self.size,
            integrity: integrity.ok_or_else(|| StoreError::corrupt(key, "its digests are malformed"))?,
            publisher: Publisher { id: self.publisher, incarnation: self.publisher_incarnation.map(incarnation) },
            created: self.created,
            checksums: self.checksums,
            tag: self.tag,
            further_tags: self.further_tags,
        })
    }
}

impl From<&Upload> for UploadRecord {
    fn from(upload: &Upload) -> Self {
        UploadRecord {
            size: upload.size,
            integrity: upload.integrity.sri(),
            shasum: upload.integrity.shasum(),
            publisher: upload.publisher.id.clone(),
            publisher_incarnation: upload
                .publisher
                .incarnation
                .as_ref()
                .map(|incarnation| incarnation.id().unwrap_or_default().to_owned()),
            created: upload.created,
            checksums: upload.checksums.clone(),
            tag: upload.tag.clone(),
            further_tags: upload.further_tags.clone(),
        }
    }
}
