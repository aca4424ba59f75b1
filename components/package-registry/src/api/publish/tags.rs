//! The tags of a publish document.

use crate::api::error::same_text;
use crate::api::tag;
use crate::json::{self, Members};
use crate::version::Version;
use http::StatusCode;
use kit::Error;

/// The tags that a document sets, each with the version that it is for. There is one at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentTags(Vec<(String, String)>);

impl DocumentTags {
    /// `version` is the one that is published. If no tag is for it and the first one names no version, the first one is
    /// for it, as in the reference service.
    pub fn read(tags: Option<&Members>, version: &Version) -> Result<Self, Error> {
        let tags = tags.into_iter().flat_map(Members::iter).map(|(tag, value)| (tag, json::string(value)));
        let tags: Vec<(&str, Option<String>)> = tags.collect();
        let is_blank = |tag: &str| tag.trim().is_empty();
        if tags.iter().all(|(tag, _)| is_blank(tag)) {
            return Err(invalid("dist-tags is missing"));
        }
        let is_published = |value: &str| version.matches_file(value);
        let has_own = tags.iter().any(|(_, value)| value.as_deref().is_some_and(is_published));
        let mut read = Vec::with_capacity(tags.len());
        for (number, (tag, value)) in tags.into_iter().enumerate() {
            if is_blank(tag) {
                return Err(invalid("dist-tags is invalid"));
            }
            tag::check(tag)?;
            let names_version = value.as_deref().is_some_and(|value| Version::parse(value).is_some());
            let value = match value {
                Some(value) if is_published(&value) => version.as_str().to_owned(),
                _ if number == 0 && !has_own && !names_version => version.as_str().to_owned(),
                value => value.ok_or_else(|| invalid("dist-tags is invalid"))?,
            };
            read.push((tag.to_owned(), value));
        }
        Ok(DocumentTags(read))
    }

    /// Each tag and its version.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(tag, version)| (tag.as_str(), version.as_str()))
    }
}

fn invalid(text: &str) -> Error {
    same_text(StatusCode::BAD_REQUEST, text)
}
