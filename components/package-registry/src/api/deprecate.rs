//! Deprecation: the client sends the whole metadata, changed, as a document without attachments. Only `deprecated` is
//! read from it, because the rest may be outdated. A message may be outdated, too: it stays if only other clients have
//! changed it since the document's revision (`_rev`).

use super::access::{self, Unpublish};
use super::error::{bad_request, outdated, package_not_found};
use super::limits;
use super::request::RegistryRequest;
use super::update::{Change, update};
use crate::json::{self, Members};
use crate::manifest;
use crate::package::{MAX_RUN, Package, SentMessage};
use crate::store;
use crate::submission::Submission;
use crate::version_run::{self, VersionState};
use kit::{Env, Error, Response};
use serde_json::json;
use std::collections::BTreeMap;

/// Longest message, in bytes. Every metadata document repeats it.
const MAX_MESSAGE: usize = 64 * 1024;

/// Sets the messages in the document; an empty message removes the deprecation. Unknown versions, and versions without
/// a message in the document, stay unchanged. A message stays, too, if another client has changed it since the
/// document's revision and this client has not. 409 if both have changed it, or if the registry does not know who has.
pub fn deprecate(request: &RegistryRequest, name: &str, submission: &Submission) -> Result<Response, Error> {
    if !submission.name.is_empty() && submission.name != name {
        return Err(bad_request(&format!("Name is {}, but the URL names {name}", submission.name)));
    }
    let messages = messages(submission)?;
    if messages.is_empty() {
        return Err(bad_request("\"package versions to deprecate\" not given"));
    }
    let authorized = access::authorize::<Unpublish>(request, name, package_not_found)?;
    let revision = submission.revision.as_deref();
    update(&request.env, &authorized, |package| set_messages(&request.env, package, &messages, revision))?;
    Ok(Response::ok(&json!({"ok": true, "success": true})))
}

fn messages(submission: &Submission) -> Result<BTreeMap<String, String>, Error> {
    let mut messages = BTreeMap::new();
    for (version, record) in submission.versions.iter() {
        let invalid = || Error::validation(format!("versions[{version}] is invalid"));
        let record = Members::read(record.get()).map_err(|_| invalid())?;
        let Some(message) = record.get("deprecated") else { continue };
        let message = match message.get() {
            "null" | "false" => String::new(),
            _ => json::string(message).ok_or_else(invalid)?,
        };
        if message.len() > MAX_MESSAGE {
            let size = message.len();
            return Err(bad_request(&format!(
                "deprecation message of {version} has {size} bytes; at most {MAX_MESSAGE} are allowed"
            )));
        }
        messages.insert(version.to_owned(), message);
    }
    Ok(messages)
}

/// Replaces the runs in which a message changes. Messages must not make the package larger than publications could.
/// `revision` is the document's.
fn set_messages(
    env: &Env,
    package: &mut Package,
    messages: &BTreeMap<String, String>,
    revision: Option<&str>,
) -> Result<Change, Error> {
    let number = revision.and_then(|revision| package.number_of(revision));
    let is_set = |version: &str, message: &str| {
        let Some(revision) = revision else { return Ok(true) };
        match number.map_or(SentMessage::Conflicting, |number| package.messages.compare(number, version, message)) {
            SentMessage::Changed => Ok(true),
            SentMessage::Outdated => Ok(false),
            SentMessage::Conflicting => Err(outdated(revision)),
        }
    };
    let mut changed = Vec::new();
    let (mut stored, most) = (package.stored(), limits::metadata(env));
    for run_ref in &mut package.runs {
        let index = store::index(env, run_ref)?;
        let is_listed = |version: &String| {
            version_run::find(&index, version).is_some_and(|entry| entry.state == VersionState::Listed)
        };
        if !messages.keys().any(is_listed) {
            continue;
        }
        let mut run = store::version_run(env, run_ref)?;
        let mut set = BTreeMap::new();
        for (version, record) in run.full.records() {
            let Some(message) = messages.get(version) else { continue };
            let present = manifest::deprecation(record);
            if present != *message && is_set(version, message)? {
                set.insert(version.to_owned(), message.clone());
                changed.push((version.to_owned(), present));
            }
        }
        if set.is_empty() {
            continue;
        }
        run.deprecate(&set);
        let size = run.size();
        stored = stored.saturating_sub(run_ref.size) + size;
        if size > run_ref.size && (size > MAX_RUN || stored > most) {
            return Err(bad_request(&format!(
                "with these messages, the metadata of the package's versions would have more than {most} bytes, \
                 the limit in the variable {}, or that of some of them more than {MAX_RUN}: shorten the messages, or \
                 unpublish versions",
                limits::MAX_METADATA
            )));
        }
        *run_ref = store::save_run(env, &run)?;
    }
    if changed.is_empty() {
        return Ok(Change::None);
    }
    package.change_messages(changed);
    Ok(Change::Made)
}
