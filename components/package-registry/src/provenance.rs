//! Provenance: a signed statement about how a version was built, in a sigstore bundle
//! (<https://docs.sigstore.dev/about/bundle/>) that is published beside the file.
//!
//! The registry only checks that the statement is about this package, version and file. Clients verify the signature,
//! on the bundle as it was published.

use crate::integrity::Integrity;
use crate::json;
use crate::name::PackageName;
use crate::version::Version;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::path::Segment;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// Largest bundle, in bytes. Usual bundles have some ten thousand.
const MAX_SIZE: usize = 1 << 20;

/// The prefix of the media types of all bundle versions.
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle";

/// The kinds of statement that npm publishes: on GitHub, and on GitLab
/// (<https://github.com/npm/cli/blob/latest/workspaces/libnpmpublish/lib/provenance.js>).
const PREDICATE_TYPES: [&str; 2] = ["https://slsa.dev/provenance/v1", "https://slsa.dev/provenance/v0.2"];

/// The beginning of the package URL of a package (<https://github.com/package-url/purl-spec>).
const PURL: &str = "pkg:npm/";

/// The published version and its file, which the statement has to be about.
#[derive(Debug, Clone, Copy)]
pub struct Artifact<'a> {
    pub name: &'a PackageName,
    pub version: &'a Version,
    pub file: &'a Integrity,
}

impl Artifact<'_> {
    /// Whether a package URL is this version's, as npm writes it: `pkg:npm/%40scope/name@1.0.0`.
    fn has_purl(&self, purl: &str) -> bool {
        let parts = purl.strip_prefix(PURL).and_then(|purl| purl.rsplit_once('@'));
        parts.is_some_and(|(name, version)| {
            Segment(name).decode().is_some_and(|name| name == self.name.as_str())
                && Segment(version).decode().is_some_and(|version| self.version.matches_file(&version))
        })
    }
}

/// A bundle whose statement is about the version that it came with.
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
    /// The declared and the received length, in UTF-16 code units.
    Length(u64, u64),
    /// Its size in bytes.
    TooLarge(usize),
    /// Not a JSON object with a media type and an envelope; the parser's words.
    Bundle(String),
    MediaType(String),
    /// Not an in-toto statement in base64.
    Statement,
    /// The statement is of another kind.
    PredicateType(String),
    /// The statement is about this many subjects. npm reads the first subject only.
    Subjects(usize),
    /// The statement is about another package or version: its package URL.
    Package(String),
    /// The statement is about another file.
    File,
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
            ProvenanceError::PredicateType(kind) => {
                write!(f, "its predicateType is `{kind:.200}`, not one of {}", PREDICATE_TYPES.join(", "))
            }
            ProvenanceError::Subjects(count) => write!(f, "its statement has {count} subjects instead of one"),
            ProvenanceError::Package(purl) => {
                write!(f, "its statement is about `{purl:.300}`, not the package and version that are published")
            }
            ProvenanceError::File => f.write_str("its statement is not about the attached file"),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    media_type: String,
    dsse_envelope: DsseEnvelope,
}

#[derive(Deserialize)]
struct DsseEnvelope {
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
    /// A package URL.
    name: String,
    digest: BTreeMap<String, String>,
}

impl Provenance {
    /// Reads a bundle. `length` is the length that the publisher declared, if any, in the units of
    /// a JavaScript string.
    pub fn read(bundle: &str, length: Option<u64>, artifact: Artifact) -> Result<Self, ProvenanceError> {
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
        if !PREDICATE_TYPES.contains(&statement.predicate_type.as_str()) {
            return Err(ProvenanceError::PredicateType(statement.predicate_type));
        }
        let [subject] = statement.subject.as_slice() else {
            return Err(ProvenanceError::Subjects(statement.subject.len()));
        };
        if !artifact.has_purl(&subject.name) {
            return Err(ProvenanceError::Package(subject.name.clone()));
        }
        if subject.digest.get("sha512") != Some(&artifact.file.sha512_hex()) {
            return Err(ProvenanceError::File);
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

    /// A bundle of the shape that npm sends, about the file of a version. Nothing in it is really signed.
    pub fn bundle(name: &str, version: &str, file: &Integrity) -> Value {
        let purl = format!("pkg:npm/{}@{version}", name.replace('@', "%40"));
        let subject = json!({"name": purl, "digest": {"sha512": file.sha512_hex()}});
        bundle_of(&statement(&[subject], "https://slsa.dev/provenance/v1"))
    }

    fn statement(subjects: &[Value], kind: &str) -> Value {
        json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": subjects,
            "predicateType": kind,
            "predicate": {"buildDefinition": {}},
        })
    }

    fn bundle_of(statement: &Value) -> Value {
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

    /// Reads a bundle as that of the version 1.0.0 of `lib`, whose file is `file`.
    fn read(text: &str, length: Option<u64>) -> Result<Provenance, ProvenanceError> {
        read_of("lib", "1.0.0", text, length)
    }

    fn read_of(name: &str, version: &str, text: &str, length: Option<u64>) -> Result<Provenance, ProvenanceError> {
        let (name, version) = (PackageName::parse(name).unwrap(), Version::parse(version).unwrap());
        let file = Integrity::of(b"file");
        Provenance::read(text, length, Artifact { name: &name, version: &version, file: &file })
    }

    #[test]
    fn a_bundle_is_kept_as_it_was() {
        let bundle = bundle("lib", "1.0.0", &Integrity::of(b"file"));
        let text = serde_json::to_string_pretty(&bundle).unwrap();
        let provenance = read(&text, Some(text.len() as u64)).unwrap();
        let document: Value = serde_json::from_str(&provenance.document()).unwrap();
        let kind = "https://slsa.dev/provenance/v1";
        assert_eq!(document, json!({"attestations": [{"predicateType": kind, "bundle": bundle}]}));
        assert!(!provenance.document().contains('\n'));
    }

    #[test]
    fn other_bundles_are_refused() {
        let file = Integrity::of(b"file");
        let read = |change: fn(&mut Value)| {
            let mut bundle = bundle("lib", "1.0.0", &file);
            change(&mut bundle);
            read(&bundle.to_string(), None)
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
        assert_eq!(read(|b| *b = bundle("lib", "1.0.0", &Integrity::of(b"other"))), Err(ProvenanceError::File));
        for change in [
            (|b| drop(b.as_object_mut().unwrap().remove("mediaType"))) as fn(&mut Value),
            |b| drop(b.as_object_mut().unwrap().remove("dsseEnvelope")),
            |b| *b = json!([]),
            |b| *b = json!("text"),
        ] {
            assert!(matches!(read(change), Err(ProvenanceError::Bundle(_))));
        }
        assert!(matches!(read(|b| b["x"] = json!("y".repeat(1 << 20))), Err(ProvenanceError::TooLarge(_))));
        let text = bundle("lib", "1.0.0", &file).to_string();
        let length = text.len() as u64;
        assert_eq!(self::read(&text, Some(7)), Err(ProvenanceError::Length(7, length)));
    }

    #[test]
    fn a_statement_is_about_one_version_of_one_package() {
        let digest = json!({"sha512": Integrity::of(b"file").sha512_hex()});
        let subject = |purl: &str| json!({"name": purl, "digest": digest});
        let of = |subjects: &[Value], kind: &str| bundle_of(&statement(subjects, kind)).to_string();
        let kind = "https://slsa.dev/provenance/v0.2";
        for (name, version, purl) in [
            ("@acme/lib", "1.0.0", "pkg:npm/%40acme/lib@1.0.0"),
            ("@acme/lib", "1.0.0", "pkg:npm/%40acme%2Flib@1.0.0"),
            ("lib", "1.0.0-rc.1", "pkg:npm/lib@1.0.0-rc.1"),
            // npm leaves build metadata out of the document.
            ("lib", "1.0.0", "pkg:npm/lib@1.0.0+build"),
            ("lib", "1.0.0+build", "pkg:npm/lib@1.0.0%2Bbuild"),
        ] {
            let read = read_of(name, version, &of(&[subject(purl)], kind), None);
            assert_eq!(read.map(|read| read.predicate_type), Ok(kind.to_owned()), "{purl}");
        }
        for purl in [
            "pkg:npm/%40acme/other@1.0.0",
            "pkg:npm/lib@1.0.0",
            "pkg:npm/%40acme/lib@1.0.1",
            "pkg:npm/%40acme/lib",
            "pkg:npm/%40ACME/lib@1.0.0",
            "pkg:npm/%40acme/lib@1.0.0?repository_url=https://other.example",
            "pkg:pypi/%40acme/lib@1.0.0",
            "@acme/lib@1.0.0",
            "",
        ] {
            let refused = Err(ProvenanceError::Package(purl.into()));
            assert_eq!(read_of("@acme/lib", "1.0.0", &of(&[subject(purl)], kind), None), refused);
        }
        let (own, other) = (subject("pkg:npm/lib@1.0.0"), subject("pkg:npm/other@1.0.0"));
        assert_eq!(read(&of(&[own.clone(), other], kind), None), Err(ProvenanceError::Subjects(2)));
        assert_eq!(read(&of(&[], kind), None), Err(ProvenanceError::Subjects(0)));
        for kind in [
            "https://evil.example",
            "https://slsa.dev/provenance/v1.1",
            "https://github.com/npm/attestation/tree/main/specs/publish/v0.1",
        ] {
            let refused = Err(ProvenanceError::PredicateType(kind.into()));
            assert_eq!(read(&of(std::slice::from_ref(&own), kind), None), refused);
        }
    }

    #[test]
    fn lengths_count_utf16_units_as_in_javascript() {
        let mut bundle = bundle("lib", "1.0.0", &Integrity::of(b"file"));
        bundle["x"] = json!("é😀");
        let text = bundle.to_string();
        assert!(read(&text, Some(text.len() as u64 - 3)).is_ok());
    }
}
