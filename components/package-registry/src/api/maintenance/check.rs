//! A step of `fsck`: checks each package's records, runs and files.

use crate::api::access::ownership;
use crate::consistency::{self, ListedVersion, PackageCheck};
use crate::integrity::{Hasher, Integrity};
use crate::name::PackageName;
use crate::package::Package;
use crate::package_list::number;
use crate::store::{self, ListingLookup, NewVersion, PackageKey};
use directory::project::{self, ProjectKey};
use kit::Env;
use kit::fsck::CheckReport;
use kit::reachability::{StepError, Tracer};
use kit::store::StoreError;

/// Bounds of one step: packages, and bytes of files. A step checks at least one file.
const PACKAGES: usize = 200;
const BYTES: u64 = 256 << 20;

/// Continues after `cursor`: `upload:key` names a package whose files are checked up to that upload, `:key` a finished
/// package.
pub fn step(env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
    let (mut checked, mut listings) = (CheckReport::default(), ListingLookup::default());
    let (after_upload, mut after) = match cursor {
        None => ("", String::new()),
        Some(cursor) => {
            cursor.split_once(':').map(|(upload, key)| (upload, key.to_owned())).ok_or(StepError::Cursor)?
        }
    };
    if cursor.is_none() {
        let mut tracer = Tracer::new(true);
        let traced = store::trace_projects(env, &mut tracer);
        tracer.tolerate(traced)?;
        tracer.problems().iter().for_each(|(key, problem)| checked.add_problem(key, problem.clone()));
    }
    if !after_upload.is_empty() {
        let package = store::package_key(&after).ok_or(StepError::Cursor)?;
        if !check_package(env, &package, after_upload, &mut listings, &mut checked)? {
            return Ok(checked);
        }
    }
    loop {
        let (packages, last) = store::packages_after(env, &after, PACKAGES)?;
        for package in packages {
            if checked.bytes >= BYTES || checked.roots >= PACKAGES as u64 {
                checked.cursor = Some(format!(":{after}"));
                return Ok(checked);
            }
            if !check_package(env, &package, "", &mut listings, &mut checked)? {
                return Ok(checked);
            }
            after = package.key;
        }
        match last {
            Some(last) => after = last,
            None => return Ok(checked),
        }
    }
}

/// Checks a package, from the file after `after_upload`. False if the step ends first; then the cursor is set.
fn check_package(
    env: &Env,
    package: &PackageKey,
    after_upload: &str,
    listings: &mut ListingLookup,
    checked: &mut CheckReport,
) -> Result<bool, StoreError> {
    // A blob may be missing because its version was unpublished, or its version run merged, after the package was read.
    // It is a problem only if it is missing twice in the same revision.
    let mut seen = None;
    loop {
        let mut attempt = CheckReport { bytes: checked.bytes, ..CheckReport::default() };
        let revision = match check_revision(env, package, after_upload, listings, &mut attempt) {
            Ok(revision) => revision,
            Err(StoreError::Corrupt { key, why }) => {
                checked.add_problem(&package.key, format!("`{key}`: {why}"));
                checked.roots += 1;
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        if attempt.failed > 0 && seen != revision {
            seen = revision;
            continue;
        }
        let is_whole = attempt.cursor.is_none();
        checked.cursor = attempt.cursor.take();
        attempt.roots = u64::from(is_whole);
        // The attempt also counted the bytes of earlier packages.
        attempt.bytes -= checked.bytes;
        checked.extend(attempt);
        return Ok(is_whole);
    }
}

/// Checks one revision of a package and returns its id.
fn check_revision(
    env: &Env,
    key: &PackageKey,
    after_upload: &str,
    listings: &mut ListingLookup,
    checked: &mut CheckReport,
) -> Result<Option<String>, StoreError> {
    let PackageKey { key, project, name } = key;
    let Some(package) = store::package(env, project, name)? else { return Ok(None) };
    let revision = Some(package.revision_id());
    let (listed, problems) = check_runs(env, &package)?;
    if after_upload.is_empty() {
        for problem in problems {
            checked.add_problem(key, problem);
        }
        // A package of a deleted project leaves the listings before its root is removed.
        let is_missing = !listed.is_empty() && !listings.finds(env, project, name)?;
        let is_orphaned = || match store::is_orphaned(env, key) {
            // The directory's own check reports the project's damaged record.
            Err(StoreError::Corrupt { .. }) => Ok(false),
            known => known,
        };
        if is_missing && !is_orphaned()? {
            checked.add_problem(key, "searches and groups do not find it: no listing names it".to_owned());
        }
        check_package_level_fields(env, key, &package, checked)?;
        check_ids(env, (key, project, name), &package, &listed, checked)?;
        if let Some(remark) = remark_on_name(env, project, name).map(|remark| remark.filter(|_| !listed.is_empty()))? {
            checked.remark(key, &remark);
        }
    }
    for file in listed.iter().filter(|file| file.upload.as_str() > after_upload) {
        match read_file(env, &file.upload) {
            Ok((stored, size, found, length)) => {
                for problem in consistency::file_problems(file, (&stored, size), (&found, length)) {
                    checked.add_problem(key, problem);
                }
                checked.bytes += length;
            }
            Err(StoreError::Corrupt { key: blob, why }) => {
                let ListedVersion { version, .. } = file;
                checked.add_problem(key, format!("version {version}: `{blob}`: {why}"));
            }
            Err(error) => return Err(error),
        }
        checked.blobs += 1;
        if checked.bytes >= BYTES {
            checked.cursor = Some(format!("{}:{key}", file.upload));
            break;
        }
    }
    Ok(revision)
}

/// Checks that the ids of versions lead to them, and names versions whose id another version had. Versions of earlier
/// builds may not be indexed yet.
fn check_ids(
    env: &Env,
    (key, project, name): (&str, &ProjectKey, &PackageName),
    package: &Package,
    listed: &[ListedVersion],
    checked: &mut CheckReport,
) -> Result<(), StoreError> {
    for ListedVersion { version, upload, .. } in listed {
        let new = NewVersion { project, name, version, upload };
        let is_expected = package.ids.are_indexed || package.ids.drawn.contains_key(upload);
        if is_expected && store::unless_damaged(store::is_indexed(env, &new, &package.ids))? != Some(true) {
            checked.add_problem(key, format!("version {version}: its numeric id does not lead to it"));
        }
        if let (Some(id), Some(usual)) = (package.ids.drawn.get(upload), number(upload)) {
            checked.remark(key, &format!("version {version} has the id {id}, because another version had {usual}"));
        }
    }
    Ok(())
}

/// A remark on a package whose name is another project's.
fn remark_on_name(env: &Env, key: &ProjectKey, name: &PackageName) -> Result<Option<String>, StoreError> {
    let found = project::by_id(env, key.id)?.filter(|found| found.incarnation == key.incarnation);
    let Some(project) = found.filter(|_| ownership::has_owners(env)) else { return Ok(None) };
    let root = project.root_namespace();
    let Some(known) = ownership::find(env, root, name)? else { return Ok(None) };
    let Some(owner) = known.owner.as_ref().filter(|_| !known.is_owner(key)) else { return Ok(None) };
    let whose = format!("{name} belongs to project {}, and project {}", owner.0.id, key.id);
    Ok(if known.is_unconfirmed(key) {
        Some(format!(
            "{whose} has published it since before names had owners: a Maintainer of {} should confirm or remove it",
            root.path
        ))
    } else if known.may_publish(key, false) {
        None
    } else {
        Some(format!("{whose} may not publish it: groups do not show its versions"))
    })
}

/// Checks the version runs one after another: all of them may not fit into an instance's memory.
fn check_runs(env: &Env, package: &Package) -> Result<(Vec<ListedVersion>, Vec<String>), StoreError> {
    let mut check = PackageCheck::new(package);
    for run_ref in &package.runs {
        match store::version_run_uncached(env, run_ref) {
            Ok(run) => check.add(&run),
            Err(StoreError::Corrupt { key, why }) => check.add_damaged(format!("`{key}`: {why}")),
            Err(error) => return Err(error),
        }
    }
    Ok(check.finish())
}

fn check_package_level_fields(
    env: &Env,
    key: &str,
    package: &Package,
    checked: &mut CheckReport,
) -> Result<(), StoreError> {
    match package.latest_upload.iter().try_for_each(|upload| store::check_package_level_fields(env, upload)) {
        Err(StoreError::Corrupt { key: blob, why }) => checked.add_problem(key, format!("`{blob}`: {why}")),
        outcome => outcome?,
    }
    Ok(())
}

/// The digests and the size in a file's record, and the digests and the size of its chunks.
fn read_file(env: &Env, id: &str) -> Result<(Integrity, u64, Integrity, u64), StoreError> {
    let upload = store::upload_uncached(env, id)?;
    let mut hasher = Hasher::new(false);
    let mut length = 0;
    for number in 0..upload.chunks() {
        let chunk = store::chunk_uncached(env, id, &upload, number)?;
        length += chunk.len() as u64;
        hasher.update(&chunk);
    }
    Ok((upload.integrity, upload.size, hasher.finish().integrity, length))
}
