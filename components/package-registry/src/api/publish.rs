//! Publishing a version.
//!
//! The body streams through: the file is decoded, hashed and written in chunks while it arrives,
//! and everything else is judged at the end. Nothing names the chunks until the one write of the
//! package at the very end, so a publication is seen entirely or not at all.

mod release;

use super::access::{self, Purpose};
use super::{Call, deprecate, refused, tag};
use crate::base64_decoder::Sink;
use crate::document::{self, DocumentError, DocumentReader, Limits, Skeleton};
use crate::integrity::{ComputedDigests, Hasher};
use crate::name::PackageName;
use crate::package::Package;
use crate::route::Level;
use crate::segment::{self, IndexEntry, Segment, VersionState};
use crate::store::{self, Staging};
use crate::submission::Submission;
use crate::tarball::TarballInspector;
use crate::version::Version;
use directory::caller::Caller;
use directory::project::{self, Project};
use http::StatusCode;
use kit::root::Decision;
use kit::store::StoreError;
use kit::{Env, Error, Response};
use memchr::memmem;
use release::Release;
use serde_json::{Value, json};

/// The variable with the size of the largest file, in bytes.
pub const MAX_FILE: &str = "registry_max_tarball_bytes";

/// The reference service's default: 500 MiB.
const DEFAULT_MAX_FILE: u64 = 500 << 20;

/// The variable with the size to which the largest file may unpack, in bytes.
pub const MAX_UNPACKED: &str = "registry_max_unpacked_bytes";

/// Four times the largest file: what text compresses to. Unpacking it takes some seconds.
const DEFAULT_MAX_UNPACKED: u64 = 2 << 30;

/// Largest document without its file, in bytes: the metadata of a package with thousands of
/// versions, which clients send back to deprecate one.
pub const MAX_SKELETON: usize = 32 << 20;

/// Deepest nesting. Manifests are a few levels deep; parsers of clients recurse.
const MAX_DEPTH: u32 = 64;

const NAME_RULE: &str = "Validation failed: Name should be a valid NPM package name: \
     https://github.com/npm/validate-npm-package-name#naming-rules.";

/// `PUT projects/:id/packages/…/:package_name`: a publication if it has attachments, else a change
/// of what is listed.
pub async fn submit(mut call: Call, name: &str) -> Result<Response, Error> {
    call.caller.known_or_401()?;
    let project = match &call.level {
        Level::Project(id) => access::project(&call, id, Purpose::Publish)?,
        Level::Group(_) | Level::Instance => None,
    };
    let project = project.ok_or_else(|| access::no_project(&call, Purpose::Publish))?;
    access::authorize(&call, &project, Purpose::Publish)?;

    let limits = Limits {
        skeleton: MAX_SKELETON,
        file: call.env.variables.number(MAX_FILE, DEFAULT_MAX_FILE),
        depth: MAX_DEPTH,
    };
    let most = limits.file.div_ceil(3).saturating_mul(4).saturating_add(MAX_SKELETON as u64);
    if call.request.content_length().is_some_and(|length| length > most) {
        return Err(Error::too_large(most));
    }
    if let Some(encoding) = call.request.header("content-encoding").filter(|encoding| *encoding != "identity") {
        let text = format!("The provided content-encoding '{encoding}' is not supported.");
        return Err(Error::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }

    let max_unpacked = call.env.variables.number(MAX_UNPACKED, DEFAULT_MAX_UNPACKED);
    let mut intake = FileReceiver { max_unpacked, readers: None, staging: Staging::new(&call.env) };
    let outcome = match receive(&mut call, limits, &mut intake).await {
        Ok(skeleton) => decide(&call, name, &project, &skeleton, &mut intake),
        Err(stop) => Err(stop),
    };
    match outcome {
        Ok(Outcome::Published(body)) => Ok(Response::ok(&body)),
        Ok(Outcome::Answered(response)) => {
            intake.staging.discard();
            Ok(response)
        }
        Err(PublishError::Rejected(error)) => {
            intake.staging.discard();
            Err(error)
        }
        // Whether the last write took place is unknown: the file may be part of the package.
        Err(PublishError::Storage(error)) => Err(error.into()),
    }
}

enum Outcome {
    /// The version is in the package; the body of the answer.
    Published(Value),
    /// The file was not needed.
    Answered(Response),
}

/// Why a request ends without success.
enum PublishError {
    Rejected(Error),
    Storage(StoreError),
}

impl From<Error> for PublishError {
    fn from(error: Error) -> Self {
        PublishError::Rejected(error)
    }
}

impl From<StoreError> for PublishError {
    fn from(error: StoreError) -> Self {
        PublishError::Storage(error)
    }
}

/// Takes the file as it arrives.
struct FileReceiver {
    /// Bytes.
    max_unpacked: u64,
    /// Who reads it on the way, once it has begun.
    readers: Option<(Hasher, TarballInspector)>,
    staging: Staging,
}

impl Sink for FileReceiver {
    type Error = StoreError;

    fn begin(&mut self, before: &[u8]) {
        // Weaker hashes are needed only if the document declares nothing stronger. It may do so
        // after the file.
        let hasher = Hasher::new(memmem::find(before, b"sha512-").is_none());
        self.readers = Some((hasher, TarballInspector::new(self.max_unpacked)));
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), StoreError> {
        if let Some((hasher, inspector)) = &mut self.readers {
            hasher.update(piece);
            inspector.feed(piece);
        }
        self.staging.take(piece)
    }
}

async fn receive(call: &mut Call, limits: Limits, intake: &mut FileReceiver) -> Result<Skeleton, PublishError> {
    let mut document = DocumentReader::new(limits);
    while let Some(chunk) = call.request.body.next().await {
        let chunk = chunk.map_err(Error::from)?;
        document.feed(&chunk, intake).map_err(|error| match error {
            document::DocumentReadError::Sink(error) => PublishError::Storage(error),
            document::DocumentReadError::Document(error) => PublishError::Rejected(unreadable(&error)),
        })?;
    }
    Ok(document.finish())
}

fn unreadable(error: &DocumentError) -> Error {
    match error {
        DocumentError::SkeletonTooLarge(_) => refused(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
        DocumentError::FileTooLarge(..) => refused(StatusCode::BAD_REQUEST, "File is too large."),
        DocumentError::TooDeep(_) | DocumentError::Malformed(_) | DocumentError::SecondFile(..) => {
            refused(StatusCode::BAD_REQUEST, error.to_string())
        }
    }
}

fn invalid(text: impl Into<String>) -> PublishError {
    PublishError::Rejected(refused(StatusCode::BAD_REQUEST, text))
}

fn decide(
    call: &Call,
    url_name: &str,
    project: &Project,
    skeleton: &Skeleton,
    intake: &mut FileReceiver,
) -> Result<Outcome, PublishError> {
    let submission = Submission::read(skeleton).map_err(|error| invalid(error.to_string()))?;
    if submission.has_attachments {
        access::authorize_name(call, project, &submission.name)?;
    }
    let (version, manifest) = submission.versions.iter().next().ok_or_else(|| invalid("Version is empty."))?;
    if !submission.has_attachments {
        return Ok(Outcome::Answered(deprecate::deprecate(call, url_name, &submission)?));
    }
    if submission.name.trim().is_empty() {
        return Err(invalid("Name is empty."));
    }
    let readers = intake.readers.take().filter(|_| submission.file.is_some_and(|file| file.length > 0));
    let (hasher, inspector) = readers.ok_or_else(|| invalid("Attachment data is empty."))?;
    let computed = hasher.finish();
    let name = PackageName::parse(&submission.name).ok_or_else(|| invalid(NAME_RULE))?;
    let version = Version::parse(version)
        .ok_or_else(|| invalid("Validation failed: Version should follow SemVer: https://semver.org"))?;
    // A version that exists is refused as such, whatever else is wrong.
    let release = Release::check(&submission, url_name, &name, &version, manifest, &computed, inspector.finish());
    publish(call, project, &name, &version, &computed, release, &mut intake.staging)
}

fn publish(
    call: &Call,
    project: &Project,
    name: &PackageName,
    version: &Version,
    computed: &ComputedDigests,
    release: Result<Release, Error>,
    staging: &mut Staging,
) -> Result<Outcome, PublishError> {
    let env = &call.env;
    let event = env.id();
    let publisher = publisher(&call.caller);
    // What was written for a state of the package serves as long as the package is in it.
    let mut prepared: Option<(Option<String>, Package)> = None;

    store::update_package(env, project.id, name, |current| {
        let published = || Outcome::Published(row(call, project, name, version, staging.id()));
        let state = current.as_ref().map(Package::revision_id);
        if let Some(package) = &current {
            if package.has_applied(&event) {
                return Ok(Decision::Done(published()));
            }
            if let Some(entry) = store::find(env, package, version.as_str())? {
                if entry.upload == staging.id() {
                    return Ok(Decision::Done(published()));
                }
                return Ok(Decision::Done(repeated(call, project, name, version, &entry, computed, &publisher)?));
            }
        }
        let release = release.as_ref().map_err(Error::clone)?;
        if let Some((basis, package)) = &prepared
            && *basis == state
        {
            return Ok(Decision::Write(package.clone(), published()));
        }
        if let Some(root) = conventional_root(project, name)
            && exists_elsewhere(env, project, root, name, version)?
        {
            return Err(invalid("Validation failed: Package already exists"));
        }
        if current.is_none() {
            store::add_project_with_name(env, name, project.id)?;
        }
        staging.commit(computed.integrity, &publisher)?;
        store::save_latest_fields(env, staging.id(), &release.latest_fields)?;
        if let Some(document) = &release.attestations {
            store::save_attestations(env, staging.id(), document)?;
        }
        let mut package = current.unwrap_or_else(|| Package::new(env.now));
        add(env, &mut package, version, release, staging.id())?;
        package.record_change(&event, env.now);
        prepared = Some((state, package.clone()));
        Ok(Decision::Write(package, Outcome::Published(row(call, project, name, version, staging.id()))))
    })
}

/// The package with the new version in it, whose segment is written.
fn add(
    env: &Env,
    package: &mut Package,
    version: &Version,
    release: &Release,
    upload: &str,
) -> Result<(), PublishError> {
    let entry = IndexEntry { version: version.as_str(), upload, at: env.now, state: VersionState::Listed };
    let new = Segment::of(&entry, &release.full, &release.abbreviated);
    let sizes: Vec<u64> = package.segments.iter().map(|segment| segment.size).collect();
    let merged = segment::to_merge(&sizes, new.size());
    let (_, newest) = package.segments.split_at(package.segments.len() - merged);
    let older: Vec<Segment> =
        newest.iter().map(|segment| store::segment(env, &segment.id)).collect::<Result<_, _>>()?;
    let segment = store::save_segment(env, &Segment::merge(older.into_iter().chain([new])))?;
    package
        .publish(version, &release.tag, upload, merged, segment, env.now)
        .map_err(|refusal| PublishError::Rejected(tag::error(refusal)))
}

/// The answer to a version that exists. Clients repeat a request whose answer was lost, so the
/// same bytes from the same publisher are no error.
fn repeated(
    call: &Call,
    project: &Project,
    name: &PackageName,
    version: &Version,
    entry: &store::StoredVersion,
    computed: &ComputedDigests,
    publisher: &str,
) -> Result<Outcome, PublishError> {
    if entry.state == VersionState::Listed {
        let upload = store::upload(&call.env, &entry.upload)?;
        if upload.integrity == computed.integrity && upload.publisher == publisher {
            let row = row(call, project, name, version, &entry.upload);
            return Ok(Outcome::Answered(Response::ok(&row)));
        }
    }
    Err(PublishError::Rejected(refused(StatusCode::FORBIDDEN, "Package already exists.")))
}

/// The path of the top-level namespace above the project, if the package's scope is called so.
fn conventional_root<'a>(project: &'a Project, name: &PackageName) -> Option<&'a str> {
    let root = project.root_namespace().path.as_str();
    (name.scope() == Some(root)).then_some(root)
}

/// Whether another project below the same top-level namespace has this version: at instance level
/// the two could not be told apart.
fn exists_elsewhere(
    env: &Env,
    project: &Project,
    root: &str,
    name: &PackageName,
    version: &Version,
) -> Result<bool, StoreError> {
    for id in store::projects_with_name(env, name)?.into_iter().filter(|id| *id != project.id) {
        let is_sibling = project::by_id(env, id)?.is_some_and(|other| other.root_namespace().path == root);
        if is_sibling
            && let Some(package) = store::package(env, id, name)?
            && store::find_listed(env, &package, version.as_str())?.is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tells callers apart, across their tokens; empty for an anonymous one.
pub fn publisher(caller: &Caller) -> String {
    match caller {
        Caller::DeployToken(token) => format!("deploy-token:{:?}", token.source),
        Caller::User(session) => format!("user:{}", session.user.id),
        Caller::Job(job) => format!("user:{}", job.session.user.id),
        Caller::Anonymous => String::new(),
    }
}

/// The body of a successful answer: the row that the reference service keeps for a version. No
/// client reads it.
fn row(call: &Call, project: &Project, name: &PackageName, version: &Version, upload: &str) -> Value {
    let now = call.env.now.to_iso();
    json!({
        "id": upload,
        "project_id": project.id,
        "name": name.as_str(),
        "version": version.as_str(),
        "package_type": "npm",
        "status": "default",
        "status_message": null,
        "creator_id": call.caller.user().map(|user| user.id),
        "created_at": now,
        "updated_at": now,
        "last_downloaded_at": null,
    })
}
