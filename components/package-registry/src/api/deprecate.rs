//! Deprecation: the client sends the whole metadata, changed, as a document without attachments. Only
//! `deprecated` is read from it, because the rest may be out of date. If the messages may be, too, the document is
//! refused: it would undo another client's changes of other versions.

use super::access::{self, Unpublish};
use super::error::{bad_request, outdated, package_not_found};
use super::request::RegistryRequest;
use super::update::{Change, update};
use crate::json::{self, Members};
use crate::package::{MAX_SEGMENT, MAX_STORED, Package};
use crate::segment::{self, VersionState};
use crate::store;
use crate::submission::Submission;
use kit::{Env, Error, Response};
use serde_json::json;
use std::collections::BTreeMap;

/// Longest message, in bytes. It is repeated in all metadata.
const MAX_MESSAGE: usize = 64 * 1024;

/// Sets the messages in the document; an empty one removes the deprecation. Versions that are unknown or
/// have no message in the document stay unchanged. 409 if a message has changed since the document's
/// revision, unless the document has the present messages.
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

/// Replaces the segments in which a message changes. Texts for thousands of versions must not make the package
/// larger than publications could. `revision` is that of the document.
fn set_messages(
    env: &Env,
    package: &mut Package,
    messages: &BTreeMap<String, String>,
    revision: Option<&str>,
) -> Result<Change, Error> {
    let outdated = revision.filter(|revision| !package.has_messages_of(revision)).map(outdated);
    let mut change = Change::None;
    let mut stored = package.stored();
    for part in &mut package.segments {
        let index = store::index(env, part)?;
        let is_listed =
            |version: &String| segment::find(&index, version).is_some_and(|entry| entry.state == VersionState::Listed);
        if !messages.keys().any(is_listed) {
            continue;
        }
        let mut segment = store::segment(env, part)?;
        if !segment.deprecate(messages) {
            continue;
        }
        if let Some(error) = outdated {
            return Err(error);
        }
        let size = segment.size();
        stored = stored.saturating_sub(part.size) + size;
        if size > part.size && (size > MAX_SEGMENT || stored > MAX_STORED) {
            return Err(bad_request(&format!(
                "with these messages, the metadata of the package's versions would have more than {MAX_STORED} bytes, \
                 or that of some of them more than {MAX_SEGMENT}: shorten the messages, or unpublish versions"
            )));
        }
        *part = store::save_segment(env, &segment)?;
        change = Change::Made;
    }
    if matches!(change, Change::Made) {
        package.change_messages();
    }
    Ok(change)
}
