//! What is kept where: the only file, with its rooms, that knows a key or a stored byte.

mod listing;
mod reachability;
mod record;
mod staging;

pub use listing::{add_project_with_name, is_listed, names, projects, projects_with_name};
pub use reachability::{PackageKey, key_layout, package_key, packages_after, trace};
pub use staging::Staging;

use crate::integrity::Integrity;
use crate::name::PackageName;
use crate::package::{Package, SegmentRef};
use crate::segment::{self, FormRecords, Index, Segment, VersionState};
use bytes::Bytes;
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, Timestamp, gc};
use record::{PackageRecord, UploadRecord};
use xxhash_rust::xxh3::xxh3_64;

/// Everything this component writes is below this prefix; the number is the format's.
pub const PREFIX: &str = "package-registry/v1/";

/// Where requests are counted, by caller and by address.
pub const CALLER_RATES: &str = "package-registry/v1/rate/caller/";
pub const ADDRESS_RATES: &str = "package-registry/v1/rate/address/";

/// Size of the pieces in which files are stored, in bytes; only the last one is shorter. Hosts
/// hand values over as a whole, so this bounds the memory of a download.
pub const CHUNK: usize = 1024 * 1024;

/// The keys below [`PREFIX`]; the crate's documentation has the table.
enum Key<'a> {
    Package(u64, &'a PackageName),
    ProjectsWithName(&'a PackageName),
    ProjectPackages(u64),
    Projects,
    Index(&'a str),
    Full(&'a str),
    Abbreviated(&'a str),
    Upload(&'a str),
    LatestFields(&'a str),
    Attestations(&'a str),
    Chunk(&'a str, usize),
}

impl std::fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(PREFIX)?;
        match self {
            Key::Package(project, name) => write!(f, "package/{project}/{name}"),
            Key::ProjectsWithName(name) => write!(f, "name/{name}"),
            Key::ProjectPackages(project) => write!(f, "project/{project}"),
            Key::Projects => f.write_str("projects"),
            Key::Index(segment) => write!(f, "segment/{segment}/index"),
            Key::Full(segment) => write!(f, "segment/{segment}/full"),
            Key::Abbreviated(segment) => write!(f, "segment/{segment}/abbreviated"),
            Key::Upload(upload) => write!(f, "upload/{upload}"),
            Key::LatestFields(upload) => write!(f, "upload/{upload}/about"),
            Key::Attestations(upload) => write!(f, "upload/{upload}/attestations"),
            Key::Chunk(upload, number) => write!(f, "upload/{upload}/{number}"),
        }
    }
}

/// The package of this name in a project. A package whose versions are all unpublished is still
/// there, and lists none.
pub fn package(env: &Env, project: u64, name: &PackageName) -> Result<Option<Package>, StoreError> {
    let key = Key::Package(project, name).to_string();
    root::read::<PackageRecord>(&*env.store, &key)?.map(|record| record.read(&key)).transpose()
}

/// Changes a package as [`root::update`] does. A package that does not exist yet must have been
/// announced with [`add_project_with_name`] before it is written.
pub fn update_package<T, E: From<StoreError>>(
    env: &Env,
    project: u64,
    name: &PackageName,
    mut decide: impl FnMut(Option<Package>) -> Result<Decision<Package, T>, E>,
) -> Result<T, E> {
    let key = Key::Package(project, name).to_string();
    root::update(&*env.store, &key, |record: Option<PackageRecord>| {
        Ok(match decide(record.map(|record| record.read(&key)).transpose()?)? {
            Decision::Done(answer) => Decision::Done(answer),
            Decision::Write(..) if gc::is_too_late(env) => return Err(StoreError::TooLate.into()),
            Decision::Write(package, answer) => Decision::Write(PackageRecord::from(&package), answer),
        })
    })
}

/// Where a version's file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    pub upload: String,
    pub state: VersionState,
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
    Ok(find(env, package, version)?.filter(|entry| entry.state == VersionState::Listed))
}

/// The text of a segment's index; [`segment::find`] searches it.
pub fn index(env: &Env, segment: &str) -> Result<Bytes, StoreError> {
    blob(env, &Key::Index(segment))
}

/// A whole segment.
pub fn segment(env: &Env, id: &str) -> Result<Segment, StoreError> {
    read_segment(id, |key| Ok(blob(env, key)?.to_vec()))
}

/// A whole segment as it is stored now, whatever this instance remembers.
pub fn segment_uncached(env: &Env, id: &str) -> Result<Segment, StoreError> {
    read_segment(id, |key| blob_uncached(env, key))
}

fn read_segment(id: &str, blob: impl Fn(&Key) -> Result<Vec<u8>, StoreError>) -> Result<Segment, StoreError> {
    let form = |key: Key| -> Result<FormRecords, StoreError> {
        let bytes = blob(&key)?;
        FormRecords::read(&bytes).ok_or_else(|| StoreError::corrupt(&key.to_string(), "not a form of metadata"))
    };
    let key = Key::Index(id);
    let index = String::from_utf8(blob(&key)?).map_err(|why| StoreError::corrupt(&key.to_string(), why))?;
    Ok(Segment { index: Index(index), full: form(Key::Full(id))?, abbreviated: form(Key::Abbreviated(id))? })
}

/// Writes a new segment.
pub fn save_segment(env: &Env, segment: &Segment) -> Result<SegmentRef, StoreError> {
    let id = env.id();
    put(env, &Key::Index(&id), segment.index.0.clone().into())?;
    put(env, &Key::Full(&id), segment.full.to_bytes().into())?;
    put(env, &Key::Abbreviated(&id), segment.abbreviated.to_bytes().into())?;
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
    let bytes = blob(env, &key)?;
    match segment::split(&bytes) {
        Some(_) => Ok(bytes),
        None => Err(StoreError::corrupt(&key.to_string(), "not a form of metadata")),
    }
}

/// The members that [`crate::manifest::Manifest::latest_fields`] made of an upload's manifest.
pub fn latest_fields(env: &Env, upload: &str) -> Result<Bytes, StoreError> {
    blob(env, &Key::LatestFields(upload))
}

/// Whether they are stored.
pub fn check_latest_fields(env: &Env, upload: &str) -> Result<(), StoreError> {
    let key = Key::LatestFields(upload);
    let text = blob_uncached(env, &key)?;
    std::str::from_utf8(&text).map(drop).map_err(|why| StoreError::corrupt(&key.to_string(), why))
}

pub fn save_latest_fields(env: &Env, upload: &str, fields: &str) -> Result<(), StoreError> {
    put(env, &Key::LatestFields(upload), fields.to_owned().into())
}

/// The document that [`crate::provenance::Provenance::document`] made, if the upload has one.
pub fn attestations(env: &Env, upload: &str) -> Result<Option<Bytes>, StoreError> {
    env.blob(&Key::Attestations(upload).to_string())
}

pub fn save_attestations(env: &Env, upload: &str, document: &str) -> Result<(), StoreError> {
    put(env, &Key::Attestations(upload), document.to_owned().into())
}

/// A published file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Bytes.
    pub size: u64,
    pub integrity: Integrity,
    /// Who published it, in a form that tells callers apart.
    pub publisher: String,
    pub created: Timestamp,
    /// A checksum for each chunk.
    checksums: Vec<u64>,
}

impl Upload {
    pub fn chunks(&self) -> usize {
        self.checksums.len()
    }
}

pub fn upload(env: &Env, id: &str) -> Result<Upload, StoreError> {
    read_upload(id, |key| blob(env, key))
}

/// The record of an upload as it is stored now.
pub fn upload_uncached(env: &Env, id: &str) -> Result<Upload, StoreError> {
    read_upload(id, |key| blob_uncached(env, key).map(Bytes::from))
}

fn read_upload(id: &str, blob: impl Fn(&Key) -> Result<Bytes, StoreError>) -> Result<Upload, StoreError> {
    let key = Key::Upload(id);
    let bytes = blob(&key)?;
    let record: UploadRecord =
        serde_json::from_slice(&bytes).map_err(|why| StoreError::corrupt(&key.to_string(), why))?;
    record.read(&key.to_string())
}

/// A chunk of a file, verified. Chunks are not kept across requests: they are large, and other
/// blobs are asked for more often.
///
/// The checksum finds damage, not malice: whoever can write a chunk can write its checksum. What
/// a file is, clients verify by the digests in the metadata.
pub fn chunk(env: &Env, id: &str, upload: &Upload, number: usize) -> Result<Bytes, StoreError> {
    let key = Key::Chunk(id, number).to_string();
    let bytes = env.store.get(&key)?.ok_or_else(|| StoreError::corrupt(&key, "it is missing"))?;
    if upload.checksums.get(number) != Some(&checksum(&bytes)) {
        return Err(StoreError::corrupt(&key, "its checksum differs"));
    }
    Ok(bytes.into())
}

/// Removes the chunks of a file that no package names any more. What cannot be removed stays as
/// garbage. The upload's record stays for those who are reading a package as it was.
pub fn remove_chunks(env: &Env, id: &str) {
    let Ok(upload) = upload(env, id) else { return };
    for number in 0..upload.chunks() {
        if env.store.delete(&Key::Chunk(id, number).to_string()).is_err() {
            return;
        }
    }
}

fn checksum(chunk: &[u8]) -> u64 {
    xxh3_64(chunk)
}

/// A blob that a root or another blob names, so it must be there.
fn blob(env: &Env, key: &Key) -> Result<Bytes, StoreError> {
    let key = key.to_string();
    env.blob(&key)?.ok_or_else(|| StoreError::corrupt(&key, "it is missing"))
}

/// The same, past what this instance remembers: for whoever asks what is really there.
fn blob_uncached(env: &Env, key: &Key) -> Result<Vec<u8>, StoreError> {
    let key = key.to_string();
    env.store.get(&key)?.ok_or_else(|| StoreError::corrupt(&key, "it is missing"))
}

fn put(env: &Env, key: &Key, bytes: Bytes) -> Result<(), StoreError> {
    let key = key.to_string();
    env.store.set(&key, &bytes)?;
    env.blobs.put(&key, bytes);
    Ok(())
}
