//! Segments, and the versions that they hold.

use super::blob;
use super::key::Key;
use crate::package::{Package, SegmentRef};
use crate::segment::{self, FormRecords, Index, Segment, VersionState};
use bytes::Bytes;
use kit::Env;
use kit::store::StoreError;

/// Where a version's file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    pub upload: String,
    pub state: VersionState,
}

impl StoredVersion {
    /// Whether it was not unpublished.
    pub fn is_listed(&self) -> bool {
        self.state == VersionState::Listed
    }
}

/// The entry of a version, looked for in the newest segment first.
pub fn find(env: &Env, package: &Package, version: &str) -> Result<Option<StoredVersion>, StoreError> {
    for segment in package.segments.iter().rev() {
        let index = index(env, &segment.id)?;
        if let Some(entry) = segment::find(&index, version) {
            return Ok(Some(StoredVersion { upload: entry.upload.to_owned(), state: entry.state }));
        }
    }
    Ok(None)
}

/// The same, unless the version was unpublished.
pub fn find_listed(env: &Env, package: &Package, version: &str) -> Result<Option<StoredVersion>, StoreError> {
    Ok(find(env, package, version)?.filter(StoredVersion::is_listed))
}

/// The id of the segment that lists a version.
pub fn segment_with<'a>(env: &Env, package: &'a Package, version: &str) -> Result<Option<&'a str>, StoreError> {
    for segment in package.segments.iter().rev() {
        if let Some(entry) = segment::find(&index(env, &segment.id)?, version) {
            return Ok((entry.state == VersionState::Listed).then_some(segment.id.as_str()));
        }
    }
    Ok(None)
}

/// The full record of a version in this segment, as it is stored. The instance caches it by itself, because
/// it is small beside the segment.
pub fn record(env: &Env, segment: &str, version: &str) -> Result<Option<Bytes>, StoreError> {
    let key = format!("record/{segment}/{version}");
    if let Some(record) = env.blobs.peek(&key) {
        return Ok(Some(record));
    }
    let form = form(env, segment, MetadataForm::Full)?;
    let versions = segment::split(&form).map(|(versions, _)| versions).unwrap_or_default();
    let record = segment::record_of(versions, version).map(Bytes::copy_from_slice);
    if let Some(record) = &record {
        env.blobs.put(&key, record.clone());
    }
    Ok(record)
}

/// The text of a segment's index; [`segment::find`] searches it.
pub fn index(env: &Env, segment: &str) -> Result<Bytes, StoreError> {
    blob::read(env, &Key::Index(segment))
}

/// A whole segment.
pub fn segment(env: &Env, id: &str) -> Result<Segment, StoreError> {
    read_segment(id, |key| Ok(blob::read(env, key)?.to_vec()))
}

/// A whole segment as it is stored now, not as the instance has cached it.
pub fn segment_uncached(env: &Env, id: &str) -> Result<Segment, StoreError> {
    read_segment(id, |key| blob::read_uncached(env, key))
}

fn read_segment(id: &str, read: impl Fn(&Key) -> Result<Vec<u8>, StoreError>) -> Result<Segment, StoreError> {
    let form = |key: Key| -> Result<FormRecords, StoreError> {
        let bytes = read(&key)?;
        FormRecords::read(&bytes).ok_or_else(|| StoreError::corrupt(&key.to_string(), "not a form of metadata"))
    };
    let key = Key::Index(id);
    let index = String::from_utf8(read(&key)?).map_err(|why| StoreError::corrupt(&key.to_string(), why))?;
    Ok(Segment { index: Index(index), full: form(Key::Full(id))?, abbreviated: form(Key::Abbreviated(id))? })
}

/// Writes a new segment.
pub fn save_segment(env: &Env, segment: &Segment) -> Result<SegmentRef, StoreError> {
    let id = env.id();
    blob::write(env, &Key::Index(&id), segment.index.0.clone().into())?;
    blob::write(env, &Key::Full(&id), segment.full.to_bytes().into())?;
    blob::write(env, &Key::Abbreviated(&id), segment.abbreviated.to_bytes().into())?;
    Ok(SegmentRef { id, listed: segment.listed(), size: segment.size() })
}

/// The two forms of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataForm {
    Full,
    Abbreviated,
}

/// A form of a segment as it is stored; [`segment::split`] reads it.
pub fn form(env: &Env, segment: &str, detail: MetadataForm) -> Result<Bytes, StoreError> {
    let key = match detail {
        MetadataForm::Full => Key::Full(segment),
        MetadataForm::Abbreviated => Key::Abbreviated(segment),
    };
    let bytes = blob::read(env, &key)?;
    match segment::split(&bytes) {
        Some(_) => Ok(bytes),
        None => Err(StoreError::corrupt(&key.to_string(), "not a form of metadata")),
    }
}
