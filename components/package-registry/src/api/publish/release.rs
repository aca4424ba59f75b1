//! Checks a received version and renders its records.

use crate::api::error::same_text;
use crate::api::tag;
use crate::integrity::{ComputedDigests, DeclaredDigests, Integrity};
use crate::manifest::{Dist, Manifest};
use crate::name::PackageName;
use crate::provenance::Provenance;
use crate::submission::Submission;
use crate::tarball::{Contents, TarballError};
use crate::version::Version;
use http::StatusCode;
use kit::Error;
use serde_json::value::RawValue;

/// The records of a version that passed every check.
pub struct Release {
    pub tag: String,
    pub full: String,
    pub abbreviated: String,
    pub latest_fields: String,
    /// The attestations, as they are served.
    pub attestations: Option<String>,
}

impl Release {
    pub fn check(
        submission: &Submission,
        url_name: &str,
        name: &PackageName,
        version: &Version,
        manifest: &RawValue,
        computed: &ComputedDigests,
        contents: Result<Contents, TarballError>,
    ) -> Result<Self, Error> {
        if url_name != name.as_str() {
            return Err(invalid(format!("Validation failed: Name is {name}, but the URL names {url_name}")));
        }
        let manifest = Manifest::read(manifest, name, version).map_err(|error| invalid(error.to_string()))?;
        let file = submission.file.map(|file| file.name.as_str()).unwrap_or_default();
        if name.version_of_file(file) != Some(version.as_str()) {
            return Err(invalid(format!(
                "Validation failed: Attachment is called {file}, which is not the file of {name}@{version}"
            )));
        }
        let tag = submission.tags.as_ref().and_then(|tags| tags.iter().next().map(|(tag, _)| tag.to_owned()));
        let tag = tag.filter(|tag| !tag.trim().is_empty()).ok_or_else(|| invalid("dist-tags is missing".into()))?;
        tag::check_length(&tag)?;
        let declared = DeclaredDigests { length: submission.length, ..manifest.declared() };
        computed.verify(&declared).map_err(|mismatch| invalid(format!("Validation failed: {mismatch}")))?;
        let contents = contents.map_err(|error| invalid(error.to_string()))?;
        contents.verify(name, version).map_err(|error| invalid(error.to_string()))?;
        let provenance = provenance(submission, name, version, &computed.integrity)?;
        let dist = Dist {
            integrity: &computed.integrity,
            totals: contents.totals,
            predicate_type: provenance.as_ref().map(|provenance| provenance.predicate_type.as_str()),
        };
        Ok(Release {
            tag,
            full: manifest.full(&dist),
            abbreviated: manifest.abbreviated(&dist),
            latest_fields: manifest.latest_fields(submission.readme),
            attestations: provenance.map(|provenance| provenance.document()),
        })
    }
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
    let read = Provenance::read(&text.data, text.length, file);
    read.map(Some).map_err(|error| invalid(error.to_string()))
}

fn invalid(text: String) -> Error {
    same_text(StatusCode::BAD_REQUEST, text)
}
