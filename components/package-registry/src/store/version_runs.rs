//! Version runs in the store, and lookups of versions in them.

use super::blob;
use super::key::Key;
use crate::checksum::Checksum;
use crate::package::{Package, RunRef};
use crate::version_run::{self, FormRecords, Index, VersionRun, VersionState};
use bytes::Bytes;
use kit::Env;
use kit::store::StoreError;

/// A version's upload and state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    pub upload: String,
    pub state: VersionState,
}

impl StoredVersion {
    /// False if it was unpublished.
    pub fn is_listed(&self) -> bool {
        self.state == VersionState::Listed
    }
}

/// The entry of a version. The newest run is searched first.
pub fn find(env: &Env, package: &Package, version: &str) -> Result<Option<StoredVersion>, StoreError> {
    for run in package.runs.iter().rev() {
        let index = index(env, run)?;
        if let Some(entry) = version_run::find(&index, version) {
            return Ok(Some(StoredVersion { upload: entry.upload.to_owned(), state: entry.state }));
        }
    }
    Ok(None)
}

/// The entry of a version, unless it was unpublished.
pub fn find_listed(env: &Env, package: &Package, version: &str) -> Result<Option<StoredVersion>, StoreError> {
    Ok(find(env, package, version)?.filter(StoredVersion::is_listed))
}

/// The run that lists a version.
pub fn run_with_version<'a>(env: &Env, package: &'a Package, version: &str) -> Result<Option<&'a RunRef>, StoreError> {
    for run in package.runs.iter().rev() {
        if let Some(entry) = version_run::find(&index(env, run)?, version) {
            return Ok((entry.state == VersionState::Listed).then_some(run));
        }
    }
    Ok(None)
}

/// The full record of a version that this run lists, in stored form. The instance caches the record alone, because it
/// is much smaller than the run.
pub fn record(env: &Env, run: &RunRef, version: &str) -> Result<Bytes, StoreError> {
    let cached = format!("record/{}/{version}", run.id);
    if let Some(record) = env.blobs.peek(&cached) {
        return Ok(record);
    }
    let form = form(env, run, MetadataForm::Full)?;
    let record = version_run::split(&form).and_then(|(versions, _)| version_run::record_of(versions, version));
    let missing = || StoreError::corrupt(&Key::Full(&run.id).text(), format!("it has no record of {version}"));
    let record = Bytes::copy_from_slice(record.ok_or_else(missing)?);
    env.blobs.put(&cached, record.clone());
    Ok(record)
}

/// The text of a run's index; [`version_run::find`] searches it.
///
/// The instance checks an index when it reads it from the store: otherwise a version with a damaged line could be
/// published again. The check is one pass over the index. It compares the checksum, or parses the lines if an earlier
/// build wrote the run.
pub fn index(env: &Env, run: &RunRef) -> Result<Bytes, StoreError> {
    blob::read_checked(env, &Key::Index(&run.id), |index| match run.checksums {
        Some([expected, ..]) => verify(index, Some(expected)),
        None => check_lines(index, run),
    })
}

/// The text of a run's index, from the store and not from the instance's cache, with every check.
pub fn index_uncached(env: &Env, run: &RunRef) -> Result<Bytes, StoreError> {
    read_index(run, |key| Ok(blob::read_uncached(env, key)?.into()))
}

/// A whole run, with every check, because its versions will be copied to another run.
pub fn version_run(env: &Env, run: &RunRef) -> Result<VersionRun, StoreError> {
    read_run(run, |key| match key {
        // The instance caches intact indexes only.
        Key::Index(_) => index(env, run),
        key => blob::read(env, key),
    })
}

/// A whole run, from the store and not from the instance's cache.
pub fn version_run_uncached(env: &Env, run: &RunRef) -> Result<VersionRun, StoreError> {
    read_run(run, |key| Ok(blob::read_uncached(env, key)?.into()))
}

fn read_run(run: &RunRef, read: impl Fn(&Key) -> Result<Bytes, StoreError>) -> Result<VersionRun, StoreError> {
    let key = Key::Index(&run.id);
    let index = String::from_utf8(read_index(run, &read)?.into());
    let index = Index(index.map_err(|why| StoreError::corrupt(&key.text(), why))?);
    let form = |key: Key, expected: Option<Checksum>| {
        let bytes = read(&key)?;
        read_form(&bytes, expected, &index).map_err(|why| StoreError::corrupt(&key.text(), why))
    };
    let [_, full, abbreviated] = run.checksums.map(|checksums| checksums.map(Some)).unwrap_or_default();
    let (full, abbreviated) = (form(Key::Full(&run.id), full)?, form(Key::Abbreviated(&run.id), abbreviated)?);
    let whole = VersionRun { index, full, abbreviated };
    if whole.size() != run.size {
        let why = format!("with the full records, it has {} bytes, not {}", whole.size(), run.size);
        return Err(StoreError::corrupt(&key.text(), why));
    }
    Ok(whole)
}

fn read_index(run: &RunRef, read: impl Fn(&Key) -> Result<Bytes, StoreError>) -> Result<Bytes, StoreError> {
    let key = Key::Index(&run.id);
    let index = read(&key)?;
    let checked = verify(&index, run.checksums.map(|[expected, ..]| expected));
    checked.and_then(|()| check_lines(&index, run)).map_err(|why| StoreError::corrupt(&key.text(), why))?;
    Ok(index)
}

/// Compares a checksum, if it is known.
fn verify(bytes: &[u8], expected: Option<Checksum>) -> Result<(), String> {
    match expected {
        Some(expected) if expected != Checksum::of(bytes) => Err("its checksum differs".to_owned()),
        _ => Ok(()),
    }
}

fn check_lines(index: &[u8], run: &RunRef) -> Result<(), String> {
    match version_run::count_listed(index) {
        Some(listed) if listed == run.listed => Ok(()),
        Some(listed) => Err(format!("it lists {listed} versions, not {}", run.listed)),
        None => Err("not an index of versions".to_owned()),
    }
}

fn read_form(bytes: &[u8], expected: Option<Checksum>, index: &Index) -> Result<FormRecords, String> {
    verify(bytes, expected)?;
    let form = FormRecords::read(bytes).ok_or("not a form of metadata")?;
    if form.is_of(index) { Ok(form) } else { Err("not the records of the versions that the index lists".to_owned()) }
}

/// Adds the checksums of a run that an earlier build wrote. Without them, only the size reveals lost lines of
/// unpublished versions, and it takes the full form. 3 reads of such a run; no read of others.
pub fn add_checksums(env: &Env, run: &mut RunRef) -> Result<(), StoreError> {
    if run.checksums.is_none() {
        run.checksums = Some(version_run(env, run)?.to_blobs().map(|blob| Checksum::of(&blob)));
    }
    Ok(())
}

/// Writes a new run.
pub fn save_run(env: &Env, run: &VersionRun) -> Result<RunRef, StoreError> {
    let id = env.id();
    let blobs = run.to_blobs();
    let checksums = blobs.each_ref().map(|blob| Checksum::of(blob));
    for (key, blob) in [Key::Index(&id), Key::Full(&id), Key::Abbreviated(&id)].into_iter().zip(blobs) {
        blob::write(env, &key, blob.into())?;
    }
    Ok(RunRef { id, listed: run.listed(), size: run.size(), checksums: Some(checksums) })
}

/// The two forms of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataForm {
    Full,
    Abbreviated,
}

/// A form of a run in stored form; [`version_run::split`] parses it. Like an [`index`], it is checked when it is read
/// from the store.
pub fn form(env: &Env, run: &RunRef, detail: MetadataForm) -> Result<Bytes, StoreError> {
    let [full, abbreviated] = run.checksums.map_or([None; 2], |[_, full, abbreviated]| [Some(full), Some(abbreviated)]);
    let (key, expected) = match detail {
        MetadataForm::Full => (Key::Full(&run.id), full),
        MetadataForm::Abbreviated => (Key::Abbreviated(&run.id), abbreviated),
    };
    blob::read_checked(env, &key, |form| {
        verify(form, expected)?;
        version_run::split(form).map(drop).ok_or_else(|| "not a form of metadata".to_owned())
    })
}
