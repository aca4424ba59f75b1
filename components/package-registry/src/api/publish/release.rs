//! Whether what was received is fit to be published.

use super::super::{refused, tag};
use crate::integrity::{Computed, Declared};
use crate::manifest::Manifest;
use crate::name::PackageName;
use crate::submission::Submission;
use crate::tarball::{Contents, Fault};
use crate::version::Version;
use http::StatusCode;
use kit::Error;
use serde_json::value::RawValue;

/// A version that is fit to be published.
pub struct Release {
    pub tag: String,
    pub full: String,
    pub abbreviated: String,
    pub about: String,
}

impl Release {
    pub fn check(
        submission: &Submission,
        url_name: &str,
        name: &PackageName,
        version: &Version,
        manifest: &RawValue,
        computed: &Computed,
        contents: Result<Contents, Fault>,
    ) -> Result<Self, Error> {
        if url_name != name.as_str() {
            return Err(invalid(format!("Validation failed: Name is {name}, but the URL names {url_name}")));
        }
        let manifest = Manifest::read(manifest, name, version).map_err(|fault| invalid(fault.to_string()))?;
        let file = submission.file.map(|file| file.name.as_str()).unwrap_or_default();
        if name.version_of_file(file) != Some(version.as_str()) {
            return Err(invalid(format!(
                "Validation failed: Attachment is called {file}, which is not the file of {name}@{version}"
            )));
        }
        let tag = submission.tags.as_ref().and_then(|tags| tags.iter().next().map(|(tag, _)| tag.to_owned()));
        let tag = tag.filter(|tag| !tag.trim().is_empty()).ok_or_else(|| invalid("dist-tags is missing".into()))?;
        tag::check_length(&tag)?;
        let declared = Declared { length: submission.length, ..manifest.declared() };
        computed.verify(&declared).map_err(|mismatch| invalid(format!("Validation failed: {mismatch}")))?;
        let contents = contents.map_err(|fault| invalid(fault.to_string()))?;
        contents.verify(name, version).map_err(|fault| invalid(fault.to_string()))?;
        Ok(Release {
            tag,
            full: manifest.full(&computed.integrity, contents.totals),
            abbreviated: manifest.abbreviated(&computed.integrity, contents.totals),
            about: manifest.about(submission.readme),
        })
    }
}

fn invalid(text: String) -> Error {
    refused(StatusCode::BAD_REQUEST, text)
}
