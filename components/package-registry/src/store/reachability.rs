//! Iterates over all packages and traces the blobs that they name, for maintenance. The lists of package names are
//! roots, too: they name no blobs, and are removed with their projects.

use super::blob::unless_damaged;
use super::key::{Key, PREFIX};
use super::listing;
use super::package_names;
use super::packages::package;
use super::version_ids;
use super::version_runs::index_uncached;
use crate::name::PackageName;
use crate::package::Package;
use crate::version_run::{self, VersionState};
use directory::project::ProjectKey;
use kit::Env;
use kit::reachability::{KeyLayout, Tracer};
use kit::root;
use kit::store::StoreError;

/// A package's key, and its parts.
pub struct PackageKey {
    pub key: String,
    pub project: ProjectKey,
    pub name: PackageName,
}

/// Up to about `limit` packages whose keys sort after `after`, and the last key that was read; `None` at the end.
pub fn packages_after(env: &Env, after: &str, limit: usize) -> Result<(Vec<PackageKey>, Option<String>), StoreError> {
    let keys = env.store.list(&packages(), after, limit)?;
    let last = keys.last().filter(|_| keys.len() >= limit).cloned();
    let mut found = Vec::new();
    for key in keys {
        found.extend(parse_key(&key)?);
    }
    Ok((found, last))
}

/// The package of a key.
pub fn package_key(key: &str) -> Option<PackageKey> {
    parse_key(key).ok().flatten()
}

fn packages() -> String {
    format!("{PREFIX}package/")
}

/// The package of a key; `None` for the counter beside it (see [`kit::root::update`]), and for a list.
fn parse_key(key: &str) -> Result<Option<PackageKey>, StoreError> {
    let lists = Key::package_names().into_iter().chain([Key::protections(), Key::Projects.text()]);
    if lists.into_iter().any(|list| key.starts_with(&list)) {
        return Ok(None);
    }
    let read = |key: &str| {
        let (project, name) = key.strip_prefix(&packages())?.split_once('/')?;
        Some((ProjectKey::parse(project)?, PackageName::parse(name)?))
    };
    match read(key) {
        Some((project, name)) => Ok(Some(PackageKey { key: key.to_owned(), project, name })),
        None if key.strip_suffix("/init").and_then(read).is_some() => Ok(None),
        None => Err(StoreError::corrupt(key, "no package is called so")),
    }
}

/// The layout of the keys (see [`kit::reachability`]).
pub fn key_layout() -> KeyLayout {
    let below = |kind| format!("{PREFIX}{kind}/");
    let [names, names_below] = Key::package_names();
    KeyLayout {
        // In the order of bytes.
        roots: vec![packages(), names, Key::Projects.text(), Key::protections(), names_below],
        records: Vec::new(),
        blobs: [below("id"), below("segment"), below("upload"), Key::name_pages(), Key::project_pages()].into(),
        marks: format!("{PREFIX}gc/"),
    }
}

/// The prefix of the pages of lists such as the one with this root; `None` for another key.
pub fn pages_of(key: &str) -> Option<String> {
    let of_names = || Key::parse_package_names(key).map(|_| Key::name_pages());
    if key == Key::Projects.text() { Some(Key::project_pages()) } else { of_names() }
}

/// Traces the blobs that a package or a list names; false if the key is not a package's.
pub fn trace(env: &Env, key: &str, tracer: &mut Tracer) -> Result<bool, StoreError> {
    if key == Key::Projects.text() {
        return listing::trace_projects(env, tracer).map(|()| false);
    }
    if let Some(project) = Key::parse_package_names(key) {
        return package_names::trace(env, key, &project, tracer).map(|()| false);
    }
    let Some(PackageKey { project, name, .. }) = parse_key(key)? else { return Ok(false) };
    // After the package was read, a publication may merge a version run, and another collection remove it.
    let mut seen = None;
    loop {
        let Some(package) = package(env, &project, &name)? else { return Ok(true) };
        match trace_package(env, &package, tracer) {
            Err(StoreError::Corrupt { .. }) if seen != Some(package.revision_id()) => {
                seen = Some(package.revision_id())
            }
            outcome => return outcome.map(|()| true),
        }
    }
}

/// Whether the project of a package, of a list of names, or of protection rules was deleted. 1 read.
pub fn is_orphaned(env: &Env, key: &str) -> Result<bool, StoreError> {
    let project = match Key::parse_package_names(key).or_else(|| Key::parse_protection(key)) {
        None => parse_key(key)?.map(|package| package.project),
        listed => listed,
    };
    project.map_or(Ok(false), |project| version_ids::is_deleted(env, &project))
}

/// Removes a package, or a list of package names, of a deleted project. It leaves the listings first, so that an
/// interrupted removal can be repeated. No later project uses these keys. Damaged records are skipped, so that the
/// collection continues. They can leave a project without a package in a listing, which readers accept.
pub fn remove_orphaned(env: &Env, key: &str, tracer: &mut Tracer) -> Result<(), StoreError> {
    if let Some(project) = Key::parse_package_names(key) {
        remove_names(env, key, &project, tracer)?;
    } else if let Some(PackageKey { project, name, .. }) = parse_key(key)? {
        tracer.count_change();
        listing::remove_project_with_name(env, &name, &project)?;
        if name.scope().is_some() {
            remove_versions(env, &project, &name, tracer)?;
        }
    }
    if tracer.is_suspended() {
        return Ok(());
    }
    tracer.count_change();
    env.store.delete(&root::counter(key))?;
    env.store.delete(key)
}

/// Removes a project from the listing of each name in one of its lists, and from the list of all projects. A broken-off
/// publication leaves a name without a package, which only these lists have. An earlier build's list can have more
/// names than a step may change. The position between two steps is the key and the number of names done. If a
/// publication has added names since, some names are processed twice.
fn remove_names(env: &Env, key: &str, project: &ProjectKey, tracer: &mut Tracer) -> Result<(), StoreError> {
    let names = unless_damaged(package_names::names_at(env, key, project))?.unwrap_or_default();
    let position = tracer.resume();
    let removed = position.as_deref().and_then(|text| text.strip_prefix(key)?.strip_prefix('/')?.parse().ok());
    for (number, name) in names.iter().enumerate().skip(removed.unwrap_or_default()) {
        if tracer.is_full() {
            tracer.suspend(format!("{key}/{number}"));
            return Ok(());
        }
        tracer.count_change();
        listing::remove_project_with_name(env, name, project)?;
    }
    tracer.count_change();
    listing::remove_project(env, project)
}

/// Removes a project from the list of each version of its package, in several steps if necessary. The position between
/// two steps is a version run and the number of its versions done.
fn remove_versions(env: &Env, project: &ProjectKey, name: &PackageName, tracer: &mut Tracer) -> Result<(), StoreError> {
    let Some(package) = unless_damaged(package(env, project, name))?.flatten() else { return Ok(()) };
    let position = tracer.resume();
    let position = position.as_deref().and_then(|text| text.split_once('/'));
    let place = position.and_then(|(id, removed)| {
        let at = package.runs.iter().position(|run| run.id == id)?;
        Some((at, removed.parse().ok()?))
    });
    // If a publication has merged the run since, the removal begins again.
    let (first, removed): (usize, usize) = place.unwrap_or_default();
    for (at, run) in package.runs.iter().enumerate().skip(first) {
        let Some(index) = unless_damaged(index_uncached(env, run))? else { continue };
        for (number, entry) in version_run::entries(&index).enumerate().skip(if at == first { removed } else { 0 }) {
            if tracer.is_full() {
                tracer.suspend(format!("{}/{number}", run.id));
                return Ok(());
            }
            tracer.count_change();
            listing::remove_project_with_version(env, name, entry.version, project)?;
        }
    }
    Ok(())
}

/// Traces the blobs that one revision of a package names. An unpublished version keeps its line in the
/// index, but not its upload.
fn trace_package(env: &Env, package: &Package, tracer: &mut Tracer) -> Result<(), StoreError> {
    package.latest_upload.iter().for_each(|upload| tracer.mark_id(upload));
    for run in &package.runs {
        tracer.mark_id(&run.id);
        let index = index_uncached(env, run)?;
        for entry in version_run::entries(&index).filter(|entry| entry.state == VersionState::Listed) {
            tracer.mark_id(entry.upload);
            package.ids.of(entry.upload).into_iter().for_each(|id| tracer.mark(version_ids::blob_id(id)));
        }
    }
    Ok(())
}
