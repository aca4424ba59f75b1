//! Checks a received version and renders its records.

use super::tags::DocumentTags;
use crate::api::error::same_text;
use crate::api::limits;
use crate::api::request::RegistryRequest;
use crate::install_fields::InstallFields;
use crate::integrity::{ComputedDigests, DeclaredDigests, Integrity};
use crate::manifest::{Manifest, RegistryValues};
use crate::name::PackageName;
use crate::provenance::{Artifact, Provenance};
use crate::submission::Submission;
use crate::tarball::{Contents, TarballError};
use crate::version::Version;
use http::StatusCode;
use http::header::USER_AGENT;
use kit::Error;
use serde_json::value::RawValue;

/// The variable for documents that differ from `package.json` in a field that installers act on: `refuse`, the default,
/// or [`USE_FILE`].
pub const MANIFEST_MISMATCH: &str = "registry_manifest_mismatch";

/// Metadata shows the value in `package.json`.
const USE_FILE: &str = "file";

/// The records of a version that passed every check.
pub struct Release {
    pub tags: DocumentTags,
    pub full: String,
    pub abbreviated: String,
    pub package_level_fields: String,
    /// The attestations, as they are served.
    pub attestations: Option<String>,
}

/// A version as it was received.
pub struct ReceivedVersion<'a> {
    pub request: &'a RegistryRequest,
    pub submission: &'a Submission<'a>,
    pub url_name: &'a str,
    pub name: &'a PackageName,
    pub version: &'a Version,
    pub manifest: &'a RawValue,
    pub computed: &'a ComputedDigests,
    /// The publisher's username.
    pub publisher: Option<&'a str>,
}

impl ReceivedVersion<'_> {
    pub fn check(&self, contents: Result<Contents, TarballError>) -> Result<Release, Error> {
        let ReceivedVersion { submission, url_name, name, version, computed, .. } = *self;
        if url_name != name.as_str() {
            return Err(invalid(format!("Validation failed: Name is {name}, but the URL names {url_name}")));
        }
        let mut manifest = Manifest::read(self.manifest, name, version).map_err(|error| invalid(error.to_string()))?;
        let file = submission.file.map(|file| file.name.as_str()).unwrap_or_default();
        if !name.version_of_file(file).is_some_and(|named| version.matches_file(named)) {
            return Err(invalid(format!(
                "Validation failed: Attachment is called {file}, which is not the file of {name}@{version}"
            )));
        }
        let tags = DocumentTags::read(submission.tags.as_ref(), version)?;
        let declared = DeclaredDigests { length: submission.length, ..manifest.declared() };
        computed.verify(&declared).map_err(|mismatch| invalid(format!("Validation failed: {mismatch}")))?;
        let contents = contents.map_err(|error| invalid(limited(&error)))?;
        let fields = install_fields(&contents, name, version).map_err(|error| invalid(error.to_string()))?;
        let are_errors = self.request.env.variables.get(MANIFEST_MISMATCH) != Some(USE_FILE);
        let reconciled = manifest.reconcile(&fields, contents.has_gyp_file, are_errors);
        reconciled.map_err(|error| invalid(error.to_string()))?;
        let provenance = provenance(submission, name, version, &computed.integrity)?;
        let values = RegistryValues {
            integrity: &computed.integrity,
            totals: contents.totals,
            has_install_script: fields.has_install_script(contents.has_gyp_file),
            has_shrinkwrap: contents.has_shrinkwrap,
            predicate_type: provenance.as_ref().map(|provenance| provenance.predicate_type.as_str()),
            publisher: self.publisher,
            npm_version: self.request.http.header(USER_AGENT).and_then(npm_version),
        };
        Ok(Release {
            tags,
            full: manifest.full(&values),
            abbreviated: manifest.abbreviated(&values),
            package_level_fields: manifest.package_level_fields(submission.readme),
            attestations: provenance.map(|provenance| provenance.document()),
        })
    }
}

/// The fields of `package.json` that an installer acts on, if it names this package and version.
fn install_fields(contents: &Contents, name: &PackageName, version: &Version) -> Result<InstallFields, TarballError> {
    let file = contents.package_json()?;
    file.verify(name, version)?;
    InstallFields::of_file(name, &file)
}

/// The version of npm in `npm/11.19.1 node/v20.20.2 …`. Other clients write `npm/?`.
fn npm_version(user_agent: &str) -> Option<&str> {
    let version = user_agent.split(' ').find_map(|product| product.strip_prefix("npm/"))?;
    Version::parse(version).is_some().then_some(version)
}

fn provenance(
    submission: &Submission,
    name: &PackageName,
    version: &Version,
    file: &Integrity,
) -> Result<Option<Provenance>, Error> {
    let text = match submission.provenance.as_slice() {
        [] => return Ok(None),
        [text] => text,
        [first, second, ..] => {
            let text = format!("attachment `{}` comes in addition to `{}`; one is allowed", second.name, first.name);
            return Err(invalid(text));
        }
    };
    let expected = format!("{name}-{version}.sigstore");
    if text.name != expected {
        return Err(invalid(format!("Provenance is invalid: it is called {}, not {expected}", text.name)));
    }
    let read = Provenance::read(&text.data, text.length, Artifact { name, version, file });
    read.map(Some).map_err(|error| invalid(error.to_string()))
}

/// The text of an error of the file, with the variable whose limit it exceeds.
fn limited(error: &TarballError) -> String {
    match error {
        TarballError::TooManyEntries(_) => format!("{error}, the limit in the variable {}", limits::MAX_ENTRIES),
        TarballError::UnpackedTooLarge(_) => format!("{error}, the limit in the variable {}", limits::MAX_UNPACKED),
        _ => error.to_string(),
    }
}

fn invalid(text: String) -> Error {
    same_text(StatusCode::BAD_REQUEST, text)
}
