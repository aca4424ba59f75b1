//! Publishing a version.
//!
//! The body is streamed: the file is decoded, hashed and written in chunks while it arrives. Everything else is checked
//! at the end, including, again, whether the caller may publish. The package is written last, and no record names the
//! chunks before. So a publication is visible as a whole or not at all.

mod claim;
mod commit;
mod error;
mod receive;
mod release;
mod tags;

pub use release::MANIFEST_MISMATCH;

use super::access;
use super::deprecate;
use super::noop_update::NoopUpdate;
use super::request::RegistryRequest;
use crate::document::Envelope;
use crate::name::PackageName;
use crate::submission::Submission;
use crate::version::Version;
use commit::{Committed, Publication};
use error::PublishError;
use kit::{Env, Error, Response};
use receive::FileReceiver;
use release::ReceivedVersion;

const NAME_RULE: &str = "Validation failed: Name should be a valid NPM package name: \
     https://github.com/npm/validate-npm-package-name#naming-rules.";

/// `PUT projects/:id/packages/…/:package_name`: a publication if the document has attachments, else a
/// deprecation or a [`NoopUpdate`].
pub async fn put(mut request: RegistryRequest, name: &str) -> Result<Response, Error> {
    request.caller.require_authenticated()?;
    if let Some(update) = NoopUpdate::read_body(&mut request.http).await? {
        return Err(update.refuse(&request, name));
    }
    let mut body = std::mem::take(&mut request.http.body);
    access::authorize_publish(&request)?;
    let limits = receive::limits(&request)?;
    let mut receiver = FileReceiver::new(&request);
    let outcome = match receive::document(&mut body, limits, &mut receiver).await {
        Ok(envelope) => process(request, name, &envelope, &mut receiver),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(Outcome::Published(response)) => Ok(response),
        Ok(Outcome::FileUnused(response)) => {
            receiver.staging.discard();
            Ok(response)
        }
        Err(PublishError::Rejected(error)) => {
            receiver.staging.discard();
            Err(error)
        }
        // The last write may have succeeded, so the package may name the file.
        Err(PublishError::Storage(error)) => Err(error.into()),
    }
}

enum Outcome {
    Published(Response),
    FileUnused(Response),
}

/// Checks the document, and publishes its version, or sets its deprecation messages if it has no file.
fn process(
    request: RegistryRequest,
    url_name: &str,
    envelope: &Envelope,
    receiver: &mut FileReceiver,
) -> Result<Outcome, PublishError> {
    let request = &access::renew(request)?;
    let grant = access::authorize_publish(request)?;
    let invalid = |text: &str| PublishError::invalid(text);
    let submission = Submission::read(envelope).map_err(|error| PublishError::invalid(error.to_string()))?;
    let grant = match submission.has_attachments {
        true => Some(grant.authorize_name(&submission.name)?),
        false => None,
    };
    let (version, manifest) = submission.versions.iter().next().ok_or_else(|| invalid("Version is empty."))?;
    let Some(grant) = grant else {
        return Ok(Outcome::FileUnused(deprecate::deprecate(request, url_name, &submission)?));
    };
    if submission.name.trim().is_empty() {
        return Err(invalid("Name is empty."));
    }
    let file = submission.file.filter(|file| file.length > 0).and_then(|_| receiver.finish());
    let (computed, contents) = file.ok_or_else(|| invalid("Attachment data is empty."))?;
    let name = PackageName::parse(&submission.name).ok_or_else(|| invalid(NAME_RULE))?;
    let version = Version::parse(version)
        .filter(Version::is_portable)
        .ok_or_else(|| invalid("Validation failed: Version should follow SemVer: https://semver.org"))?;
    // The commit returns this error only if the version is new: an existing version has its own answer.
    let received = ReceivedVersion {
        request,
        submission: &submission,
        url_name,
        name: &name,
        version: &version,
        manifest,
        computed: &computed,
        publisher: grant.username.as_deref(),
    };
    let release = received.check(contents);
    // Garbage collection judges chunks by their age, so a commit that is too late for it is refused.
    let env = &Env { now: receiver.staging.began(), ..request.env.clone() };
    let publication = Publication { request, env, grant, name: &name, version: &version, computed: &computed, release };
    Ok(match publication.commit(&mut receiver.staging)? {
        Committed::Added(row) => Outcome::Published(Response::ok(&row)),
        Committed::Repeated(row) => Outcome::FileUnused(Response::ok(&row)),
    })
}
