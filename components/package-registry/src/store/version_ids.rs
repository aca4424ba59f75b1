//! The index from the numeric id of a version to the version.
//!
//! An entry is written before its package, so a publication that broke off leaves an entry of no version. A reader
//! compares each entry with the package that it names. Garbage collection removes entries without a version.

use super::key::{Key, PREFIX};
use super::{blob, packages, version_runs};
use crate::name::PackageName;
use crate::name_owner::StoredProject;
use crate::package::{Package, RunRef, VersionIds};
use crate::package_list;
use crate::version_run::{self, VersionState};
use directory::project::{self, Existence, ProjectKey};
use kit::reachability::{BlobId, GRACE};
use kit::root::Decision;
use kit::store::StoreError;
use kit::{Env, Timestamp, id};
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// The most ids that are drawn for one version.
const MAX_DRAWS: usize = 16;

/// The most entries that one completion of a package writes.
const MAX_COMPLETED: u64 = 10_000;

/// An entry of the index, stored as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    project: StoredProject,
    name: String,
    version: String,
    upload: String,
}

/// A listed version that has an id.
pub struct IdentifiedVersion {
    pub name: PackageName,
    pub package: Rc<Package>,
    pub run: RunRef,
    pub version: String,
    pub upload: String,
    pub published: Timestamp,
}

impl IdentifiedVersion {
    fn of(name: PackageName, package: Rc<Package>, run: &RunRef, entry: &version_run::IndexEntry) -> Self {
        let (version, upload, published) = (entry.version.to_owned(), entry.upload.to_owned(), entry.at);
        IdentifiedVersion { name, package, run: run.clone(), version, upload, published }
    }
}

/// The prefix of the index's keys.
pub fn prefix() -> String {
    format!("{PREFIX}id/")
}

/// The id under the rest of a key.
fn parse(rest: &str) -> Option<u64> {
    u64::from_str_radix(rest, 16).ok()
}

/// The entry under the rest of a key, as the garbage collector marks it.
pub fn blob_of(rest: &str) -> Option<BlobId> {
    parse(rest).map(blob_id)
}

/// An id as the garbage collector marks it.
pub fn blob_id(id: u64) -> BlobId {
    let mut bytes = [0; BlobId::LENGTH];
    // The first half is zero and the second is not, as in no time-ordered id.
    let number = (1 << 64 | u128::from(id)).to_be_bytes();
    bytes.iter_mut().skip(number.len()).zip(number).for_each(|(byte, digit)| *byte = digit);
    BlobId(bytes)
}

fn read(env: &Env, id: u64) -> Result<Option<Entry>, StoreError> {
    let key = Key::VersionId(id).text();
    let decode = |bytes: Vec<u8>| serde_json::from_slice(&bytes).map_err(|why| StoreError::corrupt(&key, why));
    env.store.get(&key)?.map(decode).transpose()
}

fn write(env: &Env, id: u64, entry: &Entry) -> Result<(), StoreError> {
    let key = Key::VersionId(id).text();
    env.store.set(&key, &serde_json::to_vec(entry).map_err(|why| StoreError::corrupt(&key, why))?)
}

/// The version that an entry names, if it is listed and has this id.
fn identified(env: &Env, entry: &Entry, id: u64) -> Result<Option<IdentifiedVersion>, StoreError> {
    let Some(name) = PackageName::parse(&entry.name) else { return Ok(None) };
    let package = packages::package(env, &entry.project.0, &name)?;
    let Some(package) = package.filter(|package| package.ids.of(&entry.upload) == Some(id)) else { return Ok(None) };
    for run in package.runs.iter().rev() {
        let index = version_runs::index(env, run)?;
        if let Some(found) = version_run::find(&index, &entry.version) {
            let is_it = found.state == VersionState::Listed && found.upload == entry.upload;
            return Ok(is_it.then(|| IdentifiedVersion::of(name, package.clone(), run, &found)));
        }
    }
    Ok(None)
}

/// The listed version with an id in a project. Reads: the entry, its package, and up to an index for each version run.
pub fn version_with_id(env: &Env, project: &ProjectKey, id: u64) -> Result<Option<IdentifiedVersion>, StoreError> {
    match read(env, id)?.filter(|entry| entry.project.0 == *project) {
        Some(entry) => identified(env, &entry, id),
        None => Ok(None),
    }
}

/// Like [`version_with_id`], in a package whose versions may be missing in the index. 1 read of each index.
pub fn unindexed_version_with_id(
    env: &Env,
    name: &PackageName,
    package: &Rc<Package>,
    id: u64,
) -> Result<Option<IdentifiedVersion>, StoreError> {
    for run in package.runs.iter().filter(|run| run.listed > 0 && !package.ids.are_indexed) {
        let index = version_runs::index(env, run)?;
        let mut listed = version_run::entries(&index).filter(|entry| entry.state == VersionState::Listed);
        if let Some(found) = listed.find(|entry| package.ids.of(entry.upload) == Some(id)) {
            return Ok(Some(IdentifiedVersion::of(name.clone(), package.clone(), run, &found)));
        }
    }
    Ok(None)
}

/// A version and the place of its package.
pub struct NewVersion<'a> {
    pub project: &'a ProjectKey,
    pub name: &'a PackageName,
    pub version: &'a str,
    pub upload: &'a str,
}

impl NewVersion<'_> {
    fn entry(&self) -> Entry {
        Entry {
            project: StoredProject(self.project.clone()),
            name: self.name.as_str().to_owned(),
            version: self.version.to_owned(),
            upload: self.upload.to_owned(),
        }
    }
}

/// Writes the entry of a version that is about to be published. If another version has its id, it draws one. 1 read,
/// without a collision.
pub fn index_version(env: &Env, new: &NewVersion, ids: &mut VersionIds) -> Result<(), StoreError> {
    let entry = new.entry();
    for _ in 0..MAX_DRAWS {
        let Some(id) = ids.of(new.upload) else { return Ok(()) };
        match read(env, id) {
            Ok(None) => return write(env, id, &entry),
            Ok(Some(known)) if known == entry => return Ok(()),
            Ok(Some(_)) | Err(StoreError::Corrupt { .. }) => {
                ids.drawn.extend(package_list::number(&env.id()).map(|drawn| (new.upload.to_owned(), drawn)));
            }
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Contended(prefix()))
}

/// Writes missing entries of a package, and records when it has all. Of two versions with one id the older keeps it,
/// and the other draws one. Returns the number of entries written.
pub fn index_package(env: &Env, project: &ProjectKey, name: &PackageName) -> Result<u64, StoreError> {
    let package = packages::package(env, project, name)?.filter(|package| !package.ids.are_indexed);
    let Some(package) = package else { return Ok(0) };
    let mut listed: Vec<(String, String)> = Vec::new();
    for run in &package.runs {
        let index = version_runs::index_uncached(env, run)?;
        let entries = version_run::entries(&index).filter(|entry| entry.state == VersionState::Listed);
        listed.extend(entries.map(|entry| (entry.upload.to_owned(), entry.version.to_owned())));
    }
    listed.sort_unstable();
    let (mut ids, mut written) = (package.ids.clone(), 0);
    for (upload, version) in &listed {
        if written == MAX_COMPLETED {
            break;
        }
        let new = NewVersion { project, name, version, upload };
        if take_over(env, &new, &ids)? {
            written += 1;
        } else {
            let before = ids.drawn.len();
            index_version(env, &new, &mut ids)?;
            written += (ids.drawn.len() - before) as u64;
        }
    }
    ids.are_indexed = written < MAX_COMPLETED;
    packages::update_package(env, project, name, |current| -> Result<_, StoreError> {
        // After another change, the next completion continues. A publication since has an entry of its own.
        let is_read = |current: &Package| current.revision_id() == package.revision_id() && current.ids == package.ids;
        Ok(match current.filter(is_read) {
            Some(current) if ids != package.ids => Decision::Replace(Package { ids: ids.clone(), ..current }, ()),
            _ => Decision::Keep(()),
        })
    })?;
    Ok(written)
}

/// Writes a version's entry if it is missing, or in place of an entry of no version or of a younger version, which draws
/// another id. False if another version keeps the id, or if the entry is there.
fn take_over(env: &Env, new: &NewVersion, ids: &VersionIds) -> Result<bool, StoreError> {
    let (Some(id), entry) = (ids.of(new.upload), new.entry()) else { return Ok(false) };
    match blob::unless_damaged(read(env, id))? {
        None => return Ok(false),
        Some(None) => {}
        Some(Some(known)) if known == entry => return Ok(false),
        Some(Some(known)) => match identified(env, &known, id)? {
            None if is_young(&known.upload, env.now) => return Ok(false),
            None => {}
            Some(other) if other.upload.as_str() <= new.upload => return Ok(false),
            Some(other) => give_another_id(env, &known, &other.name)?,
        },
    }
    write(env, id, &entry)?;
    Ok(true)
}

/// Draws another id for the version of an entry.
fn give_another_id(env: &Env, entry: &Entry, name: &PackageName) -> Result<(), StoreError> {
    let new = NewVersion { project: &entry.project.0, name, version: &entry.version, upload: &entry.upload };
    let drawn = package_list::number(&env.id()).map(|id| (entry.upload.clone(), id));
    let mut ids = VersionIds { are_indexed: false, drawn: drawn.into_iter().collect() };
    index_version(env, &new, &mut ids)?;
    packages::update_package(env, new.project, name, |current| -> Result<_, StoreError> {
        let Some(mut current) = current else { return Ok(Decision::Keep(())) };
        let before = current.ids.drawn.len();
        current.ids.drawn.extend(ids.drawn.clone());
        Ok(if current.ids.drawn.len() > before { Decision::Replace(current, ()) } else { Decision::Keep(()) })
    })
}

/// Whether an upload may belong to a publication that is not finished.
fn is_young(upload: &str, moment: Timestamp) -> bool {
    id::number(upload).is_some_and(|upload| id::made_at(upload).millis() >= moment.millis() - GRACE)
}

/// Whether the entry under the rest of a key has no version, and its publication is over.
pub fn is_stale(env: &Env, rest: &str, run_began: Timestamp) -> Result<bool, StoreError> {
    let Some(id) = parse(rest) else { return Ok(false) };
    match blob::unless_damaged(read(env, id))?.flatten() {
        Some(entry) if is_young(&entry.upload, run_began) => Ok(false),
        Some(entry) => Ok(is_deleted(env, &entry.project.0)? || identified(env, &entry, id)?.is_none()),
        None => Ok(false),
    }
}

/// Whether a project was deleted. A project that the directory never knew does not count: its records may be imported
/// later. 1 read.
pub fn is_deleted(env: &Env, project: &ProjectKey) -> Result<bool, StoreError> {
    Ok(match project::existence(env, project.id)? {
        Existence::Unknown => false,
        Existence::Deleted => true,
        Existence::Present(incarnation) => incarnation != project.incarnation,
    })
}

/// Whether the index leads from the id of a listed version to it.
pub fn is_indexed(env: &Env, version: &NewVersion, ids: &VersionIds) -> Result<bool, StoreError> {
    match ids.of(version.upload) {
        Some(id) => Ok(read(env, id)?.is_some_and(|entry| entry == version.entry())),
        None => Ok(false),
    }
}
