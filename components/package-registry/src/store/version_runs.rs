//! Segments, and the versions that they hold.

use super::blob;
use super::key::Key;
use crate::checksum::Checksum;
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
        let index = index(env, segment)?;
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

/// The segment that lists a version.
pub fn segment_with<'a>(env: &Env, package: &'a Package, version: &str) -> Result<Option<&'a SegmentRef>, StoreError> {
    for segment in package.segments.iter().rev() {
        if let Some(entry) = segment::find(&index(env, segment)?, version) {
            return Ok((entry.state == VersionState::Listed).then_some(segment));
        }
    }
    Ok(None)
}

/// The full record of a version that this segment lists, as it is stored. The instance caches it by itself, because
/// it is small beside the segment.
pub fn record(env: &Env, segment: &SegmentRef, version: &str) -> Result<Bytes, StoreError> {
    let cached = format!("record/{}/{version}", segment.id);
    if let Some(record) = env.blobs.peek(&cached) {
        return Ok(record);
    }
    let form = form(env, segment, MetadataForm::Full)?;
    let record = segment::split(&form).and_then(|(versions, _)| segment::record_of(versions, version));
    let missing = || StoreError::corrupt(&Key::Full(&segment.id).text(), format!("it has no record of {version}"));
    let record = Bytes::copy_from_slice(record.ok_or_else(missing)?);
    env.blobs.put(&cached, record.clone());
    Ok(record)
}

/// The text of a segment's index; [`segment::find`] searches it.
///
/// The instance checks an index when it reads it from the store: a version whose line is damaged would be one that can
/// be published. That is one pass over the index, to compare its checksum, or to read its lines if an earlier build
/// wrote it.
pub fn index(env: &Env, part: &SegmentRef) -> Result<Bytes, StoreError> {
    blob::read_checked(env, &Key::Index(&part.id), |index| match part.checksums {
        Some([expected, ..]) => verify(index, Some(expected)),
        None => check_lines(index, part),
    })
}

/// The text of a segment's index as it is stored now, not as the instance has cached it, with every check.
pub fn index_uncached(env: &Env, part: &SegmentRef) -> Result<Bytes, StoreError> {
    read_index(part, |key| Ok(blob::read_uncached(env, key)?.into()))
}

/// A whole segment. Every check is made, because its versions are written again to another segment.
pub fn segment(env: &Env, part: &SegmentRef) -> Result<Segment, StoreError> {
    read_segment(part, |key| match key {
        // The instance caches an intact one only.
        Key::Index(_) => index(env, part),
        key => blob::read(env, key),
    })
}

/// A whole segment as it is stored now, not as the instance has cached it.
pub fn segment_uncached(env: &Env, part: &SegmentRef) -> Result<Segment, StoreError> {
    read_segment(part, |key| Ok(blob::read_uncached(env, key)?.into()))
}

fn read_segment(part: &SegmentRef, read: impl Fn(&Key) -> Result<Bytes, StoreError>) -> Result<Segment, StoreError> {
    let key = Key::Index(&part.id);
    let index = String::from_utf8(read_index(part, &read)?.into());
    let index = Index(index.map_err(|why| StoreError::corrupt(&key.text(), why))?);
    let form = |key: Key, expected: Option<Checksum>| {
        let bytes = read(&key)?;
        read_form(&bytes, expected, &index).map_err(|why| StoreError::corrupt(&key.text(), why))
    };
    let [_, full, abbreviated] = part.checksums.map(|checksums| checksums.map(Some)).unwrap_or_default();
    let (full, abbreviated) = (form(Key::Full(&part.id), full)?, form(Key::Abbreviated(&part.id), abbreviated)?);
    let segment = Segment { index, full, abbreviated };
    if segment.size() != part.size {
        let why = format!("with the full records, it has {} bytes, not {}", segment.size(), part.size);
        return Err(StoreError::corrupt(&key.text(), why));
    }
    Ok(segment)
}

fn read_index(part: &SegmentRef, read: impl Fn(&Key) -> Result<Bytes, StoreError>) -> Result<Bytes, StoreError> {
    let key = Key::Index(&part.id);
    let index = read(&key)?;
    let checked = verify(&index, part.checksums.map(|[expected, ..]| expected));
    checked.and_then(|()| check_lines(&index, part)).map_err(|why| StoreError::corrupt(&key.text(), why))?;
    Ok(index)
}

/// Compares a checksum, if it is known.
fn verify(bytes: &[u8], expected: Option<Checksum>) -> Result<(), String> {
    match expected {
        Some(expected) if expected != Checksum::of(bytes) => Err("its checksum differs".to_owned()),
        _ => Ok(()),
    }
}

fn check_lines(index: &[u8], part: &SegmentRef) -> Result<(), String> {
    match segment::count_listed(index) {
        Some(listed) if listed == part.listed => Ok(()),
        Some(listed) => Err(format!("it lists {listed} versions, not {}", part.listed)),
        None => Err("not an index of versions".to_owned()),
    }
}

fn read_form(bytes: &[u8], expected: Option<Checksum>, index: &Index) -> Result<FormRecords, String> {
    verify(bytes, expected)?;
    let form = FormRecords::read(bytes).ok_or("not a form of metadata")?;
    if form.is_of(index) { Ok(form) } else { Err("not the records of the versions that the index lists".to_owned()) }
}

/// Adds the checksums of a segment that an earlier build wrote. Without them, lost lines of unpublished versions are
/// found by the size alone, which takes the full form. 3 reads of such a segment; none of another.
pub fn add_checksums(env: &Env, part: &mut SegmentRef) -> Result<(), StoreError> {
    if part.checksums.is_none() {
        part.checksums = Some(segment(env, part)?.to_blobs().map(|blob| Checksum::of(&blob)));
    }
    Ok(())
}

/// Writes a new segment.
pub fn save_segment(env: &Env, segment: &Segment) -> Result<SegmentRef, StoreError> {
    let id = env.id();
    let blobs = segment.to_blobs();
    let checksums = blobs.each_ref().map(|blob| Checksum::of(blob));
    for (key, blob) in [Key::Index(&id), Key::Full(&id), Key::Abbreviated(&id)].into_iter().zip(blobs) {
        blob::write(env, &key, blob.into())?;
    }
    Ok(SegmentRef { id, listed: segment.listed(), size: segment.size(), checksums: Some(checksums) })
}

/// The two forms of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataForm {
    Full,
    Abbreviated,
}

/// A form of a segment as it is stored; [`segment::split`] reads it. It is checked when it is read from the store, as
/// an [`index`] is.
pub fn form(env: &Env, part: &SegmentRef, detail: MetadataForm) -> Result<Bytes, StoreError> {
    let [full, abbreviated] =
        part.checksums.map_or([None; 2], |[_, full, abbreviated]| [Some(full), Some(abbreviated)]);
    let (key, expected) = match detail {
        MetadataForm::Full => (Key::Full(&part.id), full),
        MetadataForm::Abbreviated => (Key::Abbreviated(&part.id), abbreviated),
    };
    blob::read_checked(env, &key, |form| {
        verify(form, expected)?;
        segment::split(form).map(drop).ok_or_else(|| "not a form of metadata".to_owned())
    })
}
