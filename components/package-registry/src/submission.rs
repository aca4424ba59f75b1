//! The document of a request to publish a version or to change listed versions.

use crate::document::{Envelope, File};
use crate::json::{self, Members};
use serde_json::value::RawValue;
use std::fmt;

/// The members of a document. Their values are not checked yet.
#[derive(Debug)]
pub struct Submission<'a> {
    /// Empty if absent.
    pub name: String,
    /// `_rev`: the revision of the metadata that a client has changed.
    pub revision: Option<String>,
    /// In the order of the document.
    pub versions: Members<'a>,
    pub tags: Option<Members<'a>>,
    pub readme: Option<&'a RawValue>,
    /// A document without an attachment changes listed versions.
    pub has_attachments: bool,
    pub file: Option<&'a File>,
    /// `length` of the file, as declared, in bytes.
    pub length: Option<u64>,
    /// Attachments called `*.sigstore`.
    pub provenance: Vec<TextAttachment>,
}

/// An attachment that is text instead of base64.
#[derive(Debug)]
pub struct TextAttachment {
    /// Its name in `_attachments`.
    pub name: String,
    pub data: String,
    /// As declared, in UTF-16 code units.
    pub length: Option<u64>,
}

/// Why a document is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum SubmissionError {
    /// Not JSON; the parser's words.
    Syntax(String),
    /// A required member.
    Missing(&'static str),
    /// A member of the wrong type.
    Invalid(&'static str),
}

impl fmt::Display for SubmissionError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            SubmissionError::Syntax(why) => write!(f, "request body is not a JSON object: {why}"),
            SubmissionError::Missing(member) => write!(f, "{member} is missing"),
            SubmissionError::Invalid(member) => write!(f, "{member} is invalid"),
        }
    }
}

impl<'a> Submission<'a> {
    pub fn read(envelope: &'a Envelope) -> Result<Self, SubmissionError> {
        let text = std::str::from_utf8(&envelope.bytes).map_err(|_| SubmissionError::Syntax("not UTF-8".into()))?;
        let document = Members::read(text).map_err(|why| SubmissionError::Syntax(without_position(&why)))?;
        let member = |name| document.get(name).filter(|value| value.get() != "null");
        let object = |name: &'static str| {
            member(name).map(|value| Members::read(value.get()).map_err(|_| SubmissionError::Invalid(name))).transpose()
        };

        let versions = object("versions")?.ok_or(SubmissionError::Missing("versions"))?;
        let name = match member("name") {
            Some(name) => json::string(name).ok_or(SubmissionError::Invalid("name"))?,
            None => String::new(),
        };
        let attachments = object("_attachments")?.unwrap_or_default();
        let file = envelope.file.as_ref();
        let length = file.and_then(|file| attachments.get(&file.name)).map(attachment).transpose()?;
        let texts = attachments.iter().filter(|(name, _)| name.ends_with(".sigstore"));
        let provenance = texts.map(|(name, value)| {
            let (members, length) = attachment(value)?;
            let data = members.get("data").and_then(json::string).ok_or(SubmissionError::Invalid("data"))?;
            Ok(TextAttachment { name: name.to_owned(), data, length })
        });
        let provenance = provenance.collect::<Result<_, _>>()?;
        Ok(Submission {
            name,
            revision: member("_rev").and_then(json::string),
            versions,
            tags: object("dist-tags")?,
            readme: member("readme"),
            has_attachments: !attachments.is_empty(),
            file,
            length: length.and_then(|(_, length)| length),
            provenance,
        })
    }
}

/// The members of an attachment, and its length as declared.
fn attachment(value: &RawValue) -> Result<(Members<'_>, Option<u64>), SubmissionError> {
    let members = Members::read(value.get()).map_err(|_| SubmissionError::Invalid("_attachments"))?;
    let length =
        members.get("length").map(|length| length.get().parse().map_err(|_| SubmissionError::Invalid("length")));
    let length = length.transpose()?;
    Ok((members, length))
}

/// The message without its position: the parser counts in the envelope, not in the client's document.
fn without_position(why: &serde_json::Error) -> String {
    let text = why.to_string();
    match text.rsplit_once(" at line ") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(text: &str) -> Envelope {
        Envelope { bytes: text.into(), file: Some(File { name: "a-1.0.0.tgz".into(), length: 5 }) }
    }

    #[track_caller]
    fn rejection(text: &str) -> SubmissionError {
        Submission::read(&envelope(text)).unwrap_err()
    }

    #[test]
    fn documents_of_clients_are_read() {
        let envelope = envelope(
            r#"{"_id":"a","name":"a","access":null,"dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{}},"readme":"r",
               "_attachments":{"a-1.0.0.tgz":{"data":"","length":5}}}"#,
        );
        let submission = Submission::read(&envelope).unwrap();
        assert_eq!((submission.name.as_str(), submission.length), ("a", Some(5)));
        assert_eq!(submission.versions.iter().map(|(version, _)| version).collect::<Vec<_>>(), ["1.0.0"]);
        assert_eq!(submission.tags.unwrap().get("latest").unwrap().get(), "\"1.0.0\"");
        assert!(submission.has_attachments);
    }

    #[test]
    fn a_document_may_lack_everything_but_versions() {
        let envelope = envelope(r#"{"versions":{},"name":null,"_attachments":null}"#);
        let submission = Submission::read(&envelope).unwrap();
        assert!(submission.versions.is_empty() && submission.tags.is_none() && !submission.has_attachments);
    }

    #[test]
    fn each_error_is_named() {
        assert_eq!(rejection("{}"), SubmissionError::Missing("versions"));
        assert_eq!(rejection(r#"{"versions":null}"#), SubmissionError::Missing("versions"));
        assert_eq!(rejection(r#"{"versions":[]}"#), SubmissionError::Invalid("versions"));
        assert_eq!(rejection(r#"{"versions":"1"}"#), SubmissionError::Invalid("versions"));
        assert_eq!(rejection(r#"{"versions":{},"name":7}"#), SubmissionError::Invalid("name"));
        assert_eq!(rejection(r#"{"versions":{},"dist-tags":[]}"#), SubmissionError::Invalid("dist-tags"));
        assert_eq!(rejection(r#"{"versions":{},"_attachments":[]}"#), SubmissionError::Invalid("_attachments"));
        assert_eq!(
            rejection(r#"{"versions":{},"_attachments":{"a-1.0.0.tgz":{"length":"5"}}}"#),
            SubmissionError::Invalid("length")
        );
        assert_eq!(
            rejection(r#"{"versions":{},"_attachments":{"a-1.0.0.tgz":{"length":-5}}}"#),
            SubmissionError::Invalid("length")
        );
        for text in ["", "{", "[]", "null", "{}x", r#"{"versions":{}"#, r#"{"versions":{},"versions":{}}"#] {
            assert!(matches!(rejection(text), SubmissionError::Syntax(_)), "{text}");
        }
        let bytes = b"{\"versions\":{},\"x\":\"\xff\"}".to_vec();
        assert!(Submission::read(&Envelope { bytes, file: None }).is_err());
    }

    #[test]
    fn the_message_has_no_position_in_the_envelope() {
        assert_eq!(rejection("{]").to_string(), "request body is not a JSON object: key must be a string");
    }
}
