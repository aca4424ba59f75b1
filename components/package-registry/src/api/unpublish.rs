//! Unpublishing versions.
//!
//! A client sends the whole document without the versions to unpublish. Its copy must be of the current revision:
//! otherwise a version that was published in between would be removed as well. The number of an unpublished version is
//! never reused. Clients and caches keep its file for a year, under the address that a new file would get, and lock
//! files name its digest.

use super::access::{self, Authorized, Read, Unpublish};
use super::error::{outdated, package_not_found, same_text};
use super::limits;
use super::noop_update::NoopUpdate;
use super::request::RegistryRequest;
use super::update::{Change, update};
use crate::document::Envelope;
use crate::json::{self, Members};
use crate::package::Package;
use crate::store;
use crate::submission::Submission;
use crate::version_run::{IndexEntry, VersionRun, VersionState};
use http::StatusCode;
use kit::store::StoreError;
use kit::{Env, Error, Response};
use serde_json::json;
use std::collections::BTreeSet;

/// `PUT projects/:id/packages/…/:package_name/-rev/:revision`.
pub async fn versions(mut request: RegistryRequest, name: &str, revision: &str) -> Result<Response, Error> {
    request.caller.require_authenticated()?;
    // The document decides which right is needed. A caller who may not even read the package is refused before the body
    // is read.
    access::authorize::<Read>(&request, name, package_not_found)?;
    let bytes = std::mem::take(&mut request.http.body).collect(limits::document(&request.env) as u64).await?;
    let request = access::renew(request)?;
    if let Some(update) = NoopUpdate::read(&bytes) {
        return Err(update.refuse(&request, name));
    }
    let envelope = Envelope { bytes, file: None };
    let invalid = |text: String| same_text(StatusCode::BAD_REQUEST, text);
    let document = Submission::read(&envelope).map_err(|error| invalid(error.to_string()))?;
    let kept: BTreeSet<&str> = document.versions.iter().map(|(version, _)| version).collect();
    let authorized = authorize(&request, name)?;
    unpublish(&request.env, &authorized, revision, |version| kept.contains(version), document.tags.as_ref())
}

/// `DELETE projects/:id/packages/…/:package_name/-rev/:revision`.
pub fn package(request: &RegistryRequest, name: &str, revision: &str) -> Result<Response, Error> {
    unpublish(&request.env, &authorize(request, name)?, revision, |_| false, None)
}

/// `DELETE projects/:id/packages/…/:package_name/-/:file_name/-rev/:revision`: sent by clients
/// after they have unpublished the version, which removes the file.
pub fn file(request: &RegistryRequest, name: &str, file: &str) -> Result<Response, Error> {
    let Authorized { name, package, .. } = match authorize(request, name) {
        Ok(authorized) => authorized,
        Err(error) if error == package_not_found() => return Ok(ok()),
        Err(error) => return Err(error),
    };
    match name.version_of_file(file) {
        Some(version) if store::find_listed(&request.env, &package, version)?.is_some() => {
            let text = format!("{name}@{version} is listed; its file goes when the version is unpublished");
            Err(same_text(StatusCode::CONFLICT, text))
        }
        _ => Ok(ok()),
    }
}

fn authorize(request: &RegistryRequest, name: &str) -> Result<Authorized<Unpublish>, Error> {
    access::authorize::<Unpublish>(request, name, package_not_found)
}

fn ok() -> Response {
    Response::ok(&json!({"ok": true}))
}

/// Unpublishes every listed version that `is_kept` does not accept. `tags` are the tags in the client's document.
fn unpublish(
    env: &Env,
    authorized: &Authorized<Unpublish>,
    revision: &str,
    is_kept: impl Fn(&str) -> bool,
    tags: Option<&Members>,
) -> Result<Response, Error> {
    let mut removed = Vec::new();
    update(env, authorized, |package| {
        if package.revision_id() != revision {
            // A repeated request, whose first answer was lost, has nothing left to remove.
            if !removes_any(env, package, &is_kept)? {
                return Ok(Change::None);
            }
            return Err(outdated(revision));
        }
        removed = remove(env, package, &is_kept, tags)?;
        Ok(if removed.is_empty() { Change::None } else { Change::Made })
    })?;
    for upload in removed {
        store::remove_chunks(env, &upload);
    }
    Ok(ok())
}

/// Unpublishes one version, unless that is done already.
pub fn version(env: &Env, authorized: &Authorized<Unpublish>, version: &str) -> Result<(), Error> {
    let mut removed = Vec::new();
    update(env, authorized, |package| {
        removed = remove(env, package, |listed| listed != version, None)?;
        Ok(if removed.is_empty() { Change::None } else { Change::Made })
    })?;
    removed.iter().for_each(|upload| store::remove_chunks(env, upload));
    Ok(())
}

/// Whether a listed version would be unpublished.
fn removes_any(env: &Env, package: &Package, is_kept: impl Fn(&str) -> bool) -> Result<bool, StoreError> {
    for run_ref in package.runs.iter().filter(|run_ref| run_ref.listed > 0) {
        if listed(&store::version_run(env, run_ref)?).any(|entry| !is_kept(entry.version)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Rewrites the version runs that lose a version. Returns the uploads of the unpublished versions.
fn remove(
    env: &Env,
    package: &mut Package,
    is_kept: impl Fn(&str) -> bool,
    tags: Option<&Members>,
) -> Result<Vec<String>, StoreError> {
    let (mut uploads, mut kept) = (Vec::new(), BTreeSet::new());
    for run_ref in package.runs.iter_mut().filter(|run_ref| run_ref.listed > 0) {
        let mut run = store::version_run(env, run_ref)?;
        let before = uploads.len();
        for entry in listed(&run) {
            if is_kept(entry.version) {
                kept.insert(entry.version.to_owned());
            } else {
                uploads.push(entry.upload.to_owned());
            }
        }
        if uploads.len() > before {
            run.unpublish(|version| !is_kept(version));
            *run_ref = store::save_run(env, &run)?;
        }
    }
    let requested_tag = |tag: &str| tags.and_then(|tags| tags.get(tag)).and_then(json::string);
    package.remove_unpublished(&kept, requested_tag, env.now);
    package.latest_upload = match package.latest() {
        Some(latest) => store::find_listed(env, package, latest)?.map(|entry| entry.upload),
        None => None,
    };
    Ok(uploads)
}

fn listed(run: &VersionRun) -> impl Iterator<Item = IndexEntry<'_>> {
    run.index.entries().filter(|entry| entry.state == VersionState::Listed)
}
