//! The tags of a publish document.

use crate::api::error::same_text;
use crate::api::tag;
use crate::json::{self, Members};
use crate::version::Version;
use http::StatusCode;
use kit::Error;
use serde_json::value::RawValue;

/// The tags that a document sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentTags {
    /// The tag that the version is published with.
    pub first: String,
    /// The version that this tag names, if it is not the published one.
    pub first_names: Option<String>,
    /// The other tags, each with its version.
    pub further: Vec<(String, String)>,
}

impl DocumentTags {
    /// `version` is the published version. Its tag is the first tag that names it, or else the first of all tags, as in
    /// the reference service.
    pub fn read(tags: Option<&Members>, version: &Version) -> Result<Self, Error> {
        let tags: Vec<_> = tags.into_iter().flat_map(Members::iter).collect();
        let of_version = |value: &str| version.matches_file(value);
        let is_blank = |tag: &str| tag.trim().is_empty();
        let is_of_version = |value: &RawValue| json::string(value).is_some_and(|value| of_version(&value));
        let first = tags.iter().position(|(tag, value)| !is_blank(tag) && is_of_version(value));
        let first = first.unwrap_or_default();
        let (name, value) =
            tags.get(first).filter(|(tag, _)| !is_blank(tag)).ok_or_else(|| invalid("dist-tags is missing"))?;
        tag::check(name)?;
        let named = json::string(value).ok_or_else(|| invalid("dist-tags is invalid"))?;
        let mut further = Vec::new();
        for (_, (tag, value)) in tags.iter().enumerate().filter(|(number, _)| *number != first) {
            let value = json::string(value).filter(|_| !is_blank(tag));
            let value = value.ok_or_else(|| invalid("dist-tags is invalid"))?;
            tag::check(tag)?;
            let value = if of_version(&value) { version.as_str().to_owned() } else { value };
            further.push(((*tag).to_owned(), value));
        }
        Ok(DocumentTags {
            first: (*name).to_owned(),
            first_names: Some(named).filter(|named| !of_version(named)),
            further,
        })
    }

    /// Each tag and its version.
    pub fn iter<'a>(&'a self, version: &'a Version) -> impl Iterator<Item = (&'a str, &'a str)> {
        let further = self.further.iter().map(|(tag, version)| (tag.as_str(), version.as_str()));
        [(self.first.as_str(), version.as_str())].into_iter().chain(further)
    }
}

fn invalid(text: &str) -> Error {
    same_text(StatusCode::BAD_REQUEST, text)
}
