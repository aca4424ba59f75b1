//! Deprecation: the client sends the whole metadata, changed, as a document without attachments. Only
//! `deprecated` is read from it, because the rest may be out of date.

use super::access::{self, Unpublish};
use super::error::{bad_request, package_not_found};
use super::request::RegistryRequest;
use super::update::{Change, update};
use crate::json::{self, Members};
use crate::package::Package;
use crate::segment::{self, VersionState};
use crate::store;
use crate::submission::Submission;
use kit::store::StoreError;
use kit::{Env, Error, Response};
use serde_json::json;
use std::collections::BTreeMap;

/// Longest message, in bytes. It is repeated in all metadata.
const MAX_MESSAGE: usize = 64 * 1024;

/// Sets the messages in the document; an empty one removes the deprecation. Versions that are unknown or
/// have no message in the document stay unchanged.
pub fn deprecate(request: &RegistryRequest, name: &str, submission: &Submission) -> Result<Response, Error> {
    if !submission.name.is_empty() && submission.name != name {
        return Err(bad_request(&format!("Name is {}, but the URL names {name}", submission.name)));
    }
    let messages = messages(submission)?;
    if messages.is_empty() {
        return Err(bad_request("\"package versions to deprecate\" not given"));
    }
    let authorized = access::authorize::<Unpublish>(request, name, package_not_found)?;
    update(&request.env, &authorized, |package| Ok(set_messages(&request.env, package, &messages)?))?;
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

/// Replaces the segments in which a message changes.
fn set_messages(env: &Env, package: &mut Package, messages: &BTreeMap<String, String>) -> Result<Change, StoreError> {
    let mut change = Change::None;
    for part in &mut package.segments {
        let index = store::index(env, &part.id)?;
        let is_listed =
            |version: &String| segment::find(&index, version).is_some_and(|entry| entry.state == VersionState::Listed);
        if !messages.keys().any(is_listed) {
            continue;
        }
        let before = store::segment(env, &part.id)?;
        let mut after = before.clone();
        after.deprecate(messages);
        if after != before {
            *part = store::save_segment(env, &after)?;
            change = Change::Made;
        }
    }
    Ok(change)
}
