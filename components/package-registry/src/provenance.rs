//! Provenance: a signed statement about how a version was built, in a sigstore bundle
//! (<https://docs.sigstore.dev/about/bundle/>) that is published beside the file.
//!
//! Only that the statement is about this file is checked here. Clients verify the signature, with the
//! bundle as it was published.

use crate::integrity::Integrity;
use crate::json;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// Largest bundle, in bytes. They have some ten thousand.
const MAX_SIZE: usize = 1 << 20;

/// The prefix of the media types of all bundle versions.
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle";

/// A bundle whose statement is about the file that it came with.
#[derive(Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The kind of statement: a URL.
    pub predicate_type: String,
    /// The bundle's text.
    bundle: String,
}

/// Why an attachment is refused as provenance of the file.
#[derive(Debug, PartialEq, Eq)]
pub enum ProvenanceError {
    /// DeclaredDigests and received, in UTF-16 code units.
    Length(u64, u64),
    /// Its size in bytes.
    TooLarge(usize),
    /// Not a JSON object with a media type and an envelope; the parser's words.
    Bundle(String),
    MediaType(String),
    /// Not an in-toto statement in base64.
    Statement,
    /// The statement is about other files.
    Subject,
}

impl fmt::Display for ProvenanceError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Provenance is invalid: ")?;
        match self {
            ProvenanceError::Length(declared, received) => {
                write!(f, "it has {received} characters, but its length is declared as {declared}")
            }
            ProvenanceError::TooLarge(size) => write!(f, "it has {size} bytes; at most {MAX_SIZE} are allowed"),
            ProvenanceError::Bundle(why) => write!(f, "it is not a sigstore bundle in JSON: {why}"),
            ProvenanceError::MediaType(media_type) => {
                write!(f, "its mediaType is `{media_type:.200}`, not a sigstore bundle's")
            }
            ProvenanceError::Statement => f.write_str("its envelope holds no in-toto statement"),
            ProvenanceError::Subject => f.write_str("its statement is not about the attached file"),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    media_type: String,
    dsse_envelope: Envelope,
}

#[derive(Deserialize)]
struct Envelope {
    payload: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    digest: BTreeMap<String, String>,
}

impl Provenance {
    /// Reads a bundle. `length` is what the publisher declared, in the units of a JavaScript
    /// string, if anything.
    pub fn read(bundle: &str, length: Option<u64>, file: &Integrity) -> Result<Self, ProvenanceError> {
        let received = bundle.encode_utf16().count() as u64;
        if let Some(declared) = length.filter(|declared| *declared != received) {
            return Err(ProvenanceError::Length(declared, received));
        }
        if bundle.len() > MAX_SIZE {
            return Err(ProvenanceError::TooLarge(bundle.len()));
        }
        let read: Bundle = serde_json::from_str(bundle).map_err(|why| ProvenanceError::Bundle(why.to_string()))?;
        if !read.media_type.starts_with(MEDIA_TYPE) {
            return Err(ProvenanceError::MediaType(read.media_type));
        }
        let payload = STANDARD.decode(read.dsse_envelope.payload).map_err(|_| ProvenanceError::Statement)?;
        let statement: Statement = serde_json::from_slice(&payload).map_err(|_| ProvenanceError::Statement)?;
        let digest = file.sha512_hex();
        if !statement.subject.iter().any(|subject| subject.digest.get("sha512") == Some(&digest)) {
            return Err(ProvenanceError::Subject);
        }
        let mut compact = String::with_capacity(bundle.len());
        json::compact(bundle, &mut compact);
        Ok(Provenance { predicate_type: statement.predicate_type, bundle: compact })
    }

    /// The document that lists a version's attestations.
    pub fn document(&self) -> String {
        let kind = json::quoted(&self.predicate_type);
        format!("{{\"attestations\":[{{\"predicateType\":{kind},\"bundle\":{}}}]}}", self.bundle)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A bundle of the shape that npm sends, about a file. Nothing in it is really signed.
    pub fn bundle(file: &Integrity) -> Value {
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": "pkg:npm/lib@1.0.0", "digest": {"sha512": file.sha512_hex()}}],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {"buildDefinition": {}},
        });
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"tlogEntries": [{"logIndex": "1"}]},
            "dsseEnvelope": {
                "payload": STANDARD.encode(statement.to_string()),
                "payloadType": "application/vnd.in-toto+json",
                "signatures": [{"sig": "AAAA", "keyid": ""}],
            },
        })
    }

    #[test]
    fn a_bundle_is_kept_as_it_was() {
        let file = Integrity::of(b"file");
        let bundle = bundle(&file);
        let text = serde_json::to_string_pretty(&bundle).unwrap();
        let provenance = Provenance::read(&text, Some(text.len() as u64), &file).unwrap();
        let document: Value = serde_json::from_str(&provenance.document()).unwrap();
        let kind = "https://slsa.dev/provenance/v1";
        assert_eq!(document, json!({"attestations": [{"predicateType": kind, "bundle": bundle}]}));
        assert!(!provenance.document().contains('\n'));
    }

    #[test]
    fn other_bundles_are_refused() {
        let file = Integrity::of(b"file");
        let read = |change: fn(&mut Value)| {
            let mut bundle = bundle(&file);
            change(&mut bundle);
            Provenance::read(&bundle.to_string(), None, &file)
        };
        assert!(read(|_| ()).is_ok());
        assert_eq!(
            read(|b| b["mediaType"] = json!("text/plain")),
            Err(ProvenanceError::MediaType("text/plain".into()))
        );
        assert_eq!(read(|b| b["dsseEnvelope"]["payload"] = json!("!")), Err(ProvenanceError::Statement));
        assert_eq!(
            read(|b| b["dsseEnvelope"]["payload"] = json!(STANDARD.encode("{}"))),
            Err(ProvenanceError::Statement)
        );
        assert_eq!(read(|b| *b = super::tests::bundle(&Integrity::of(b"other"))), Err(ProvenanceError::Subject));
        for change in [
            (|b| drop(b.as_object_mut().unwrap().remove("mediaType"))) as fn(&mut Value),
            |b| drop(b.as_object_mut().unwrap().remove("dsseEnvelope")),
            |b| *b = json!([]),
            |b| *b = json!("text"),
        ] {
            assert!(matches!(read(change), Err(ProvenanceError::Bundle(_))));
        }
        assert!(matches!(read(|b| b["x"] = json!("y".repeat(1 << 20))), Err(ProvenanceError::TooLarge(_))));
        let text = bundle(&file).to_string();
        let length = text.len() as u64;
        assert_eq!(Provenance::read(&text, Some(7), &file), Err(ProvenanceError::Length(7, length)));
    }

    #[test]
    fn lengths_are_those_of_javascript() {
        let file = Integrity::of(b"file");
        let mut bundle = bundle(&file);
        bundle["x"] = json!("é😀");
        let text = bundle.to_string();
        assert!(Provenance::read(&text, Some(text.len() as u64 - 3), &file).is_ok());
    }
}
