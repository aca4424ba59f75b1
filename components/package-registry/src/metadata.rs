//! Renders the metadata of a package by copying the records in its version runs.

use crate::json;
use crate::manifest::{self, MAX_README, cut_readme};
use crate::merged::MergedPackage;
use crate::name::PackageName;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;
use xxhash_rust::xxh3::xxh3_64;

/// Part of every entity tag: a new build must not confirm a document that an older build rendered differently. Raise it
/// with every change of the rendering.
const RENDERING_VERSION: &str = "2";

/// Documents below this size, in bytes, are not compressed: they fit into one packet.
const MIN_COMPRESSED_SIZE: usize = 1024;

/// Measured in WebAssembly with metadata of 200 and 2,000 versions: half the time of level 6, and
/// 2 % larger.
const GZIP_LEVEL: Compression = Compression::new(3);

/// A form, encoding and address of a package's metadata.
#[derive(Debug, Clone, Copy)]
pub struct Representation<'a> {
    pub abbreviated: bool,
    /// Whether the client accepts gzip. Documents below [`MIN_COMPRESSED_SIZE`] are not compressed.
    pub gzip: bool,
    /// Address of the registry without a trailing slash, as the request used it.
    pub url: &'a str,
    /// The list that the full form shows, as JSON; empty for the abbreviated form.
    pub maintainers: &'a str,
}

impl Representation<'_> {
    /// A strong entity tag: it differs for every revision of the packages, form, encoding, address and list of
    /// maintainers.
    pub fn entity_tag(&self, merged: &MergedPackage) -> String {
        let form = if self.abbreviated { "a" } else { "f" };
        let encoding = if self.gzip { "z" } else { "" };
        let hash = xxh3_64([self.url, self.maintainers].concat().as_bytes());
        let mut tag = String::with_capacity(96);
        tag.push('"');
        merged.write_revision_id(&mut tag);
        let _ = write!(tag, "-{form}{encoding}{RENDERING_VERSION}-{hash:016x}\"");
        tag
    }

    /// The key of the rendered document in the instance's cache. Event ids are unique across packages. The key has the
    /// address and the maintainers, because their checksum in the entity tag may collide.
    pub fn cache_key(&self, entity_tag: &str) -> String {
        ["metadata/", entity_tag, "/", self.url, "/", self.maintainers].concat()
    }
}

/// The lines `versions` and `times` of a form.
pub type FormLines<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The parts of a metadata document.
pub struct Metadata<'a> {
    pub name: &'a PackageName,
    pub merged: &'a MergedPackage,
    /// The lines `versions` and `times` of each run, oldest first, in the requested form. Each version is in one line.
    pub forms: Vec<FormLines<'a>>,
    /// The last members of the full form; `None` renders the abbreviated form.
    pub package_level_fields: Option<&'a [u8]>,
    /// Address of the registry without a trailing slash, as the request used it.
    pub url: &'a str,
    /// The maintainers in the full form, as JSON.
    pub maintainers: &'a str,
}

impl Metadata<'_> {
    /// The document, as JSON.
    pub fn render(&self) -> Vec<u8> {
        let merged = self.merged;
        let url = inside_string(self.url);
        let name = json::quoted(self.name.as_str());
        let modified = merged.modified().to_iso();
        let copied: usize = self.forms.iter().map(|(versions, times)| versions.len() + times.len()).sum();
        let listed = usize::try_from(merged.listed()).unwrap_or_default();
        let mut out =
            Vec::with_capacity(copied + listed * url.len() + self.package_level_fields.map_or(0, <[u8]>::len) + 1024);

        let mut opening = String::from("{");
        match self.package_level_fields {
            Some(_) => {
                let revision = json::quoted(&merged.first().package.revision_id());
                let _ = write!(opening, "\"_id\":{name},\"_rev\":{revision},\"name\":{name}");
            }
            None => {
                let _ = write!(opening, "\"name\":{name},\"modified\":\"{modified}\"");
            }
        }
        opening.push_str(",\"dist-tags\":");
        opening.push_str(&tags(merged));
        opening.push_str(",\"versions\":{");
        out.extend_from_slice(opening.as_bytes());
        for (versions, _) in &self.forms {
            copy_with_url(&mut out, versions, url.as_bytes());
        }
        end_members(&mut out);
        let created = merged.created().to_iso();
        let times = format!("}},\"time\":{{\"created\":\"{created}\",\"modified\":\"{modified}\",");
        out.extend_from_slice(times.as_bytes());
        for (_, times) in &self.forms {
            out.extend_from_slice(times);
        }
        end_members(&mut out);
        out.push(b'}');
        if let Some(fields) = self.package_level_fields {
            out.extend_from_slice(b",\"maintainers\":");
            out.extend_from_slice(self.maintainers.as_bytes());
            out.extend_from_slice(&current_fields(fields));
        }
        out.push(b'}');
        out
    }
}

/// The package-level fields as this build writes them: with a readme of bounded length, and without the publisher's
/// list of maintainers, which may differ from the project's.
fn current_fields(fields: &[u8]) -> Cow<'_, [u8]> {
    const MAINTAINERS: &str = "maintainers";
    if fields.len() <= MAX_README && memchr::memmem::find(fields, MAINTAINERS.as_bytes()).is_none() {
        return Cow::Borrowed(fields);
    }
    let text = format!("{{{}}}", String::from_utf8_lossy(fields).trim_start_matches(','));
    let Ok(members) = json::Members::read(&text) else { return Cow::Borrowed(fields) };
    let kept = members.iter().filter(|(name, _)| *name != MAINTAINERS).map(|(name, value)| {
        let is_long_readme = name == "readme" && value.get().len() > MAX_README;
        let readme = if is_long_readme { json::string(value) } else { None };
        let value = readme.map_or(Cow::Borrowed(value.get()), |text| Cow::Owned(json::quoted(cut_readme(&text))));
        format!(",{}:{value}", json::quoted(name))
    });
    Cow::Owned(kept.collect::<String>().into_bytes())
}

/// The dist-tags of a package as a JSON object.
pub fn tags(merged: &MergedPackage) -> String {
    let tags = merged.tags();
    let members = tags.iter().map(|(tag, version)| format!("{}:{}", json::quoted(tag), json::quoted(version)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// The record of one version, as JSON. `record` is in stored form.
pub fn version(record: &[u8], url: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(record.len() + url.len());
    copy_with_url(&mut out, record, inside_string(url).as_bytes());
    out
}

/// The document in gzip, unless it is smaller than [`MIN_COMPRESSED_SIZE`].
pub fn compress(document: Vec<u8>) -> Vec<u8> {
    if document.len() < MIN_COMPRESSED_SIZE {
        return document;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(document.len() / 4), GZIP_LEVEL);
    match encoder.write_all(&document).and_then(|()| encoder.finish()) {
        Ok(compressed) => compressed,
        Err(_) => document,
    }
}

/// Whether [`compress`] has compressed it: gzip starts with this byte (RFC 1952 §2.3.1), and JSON
/// cannot.
pub fn is_compressed(document: &[u8]) -> bool {
    document.first() == Some(&0x1f)
}

/// `text` escaped for a JSON string, without the quotes.
fn inside_string(text: &str) -> String {
    let quoted = json::quoted(text);
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default().to_owned()
}

/// Copies stored records and replaces the placeholder of the address.
fn copy_with_url(out: &mut Vec<u8>, records: &[u8], url: &[u8]) {
    let mut rest = records;
    while let Some(at) = memchr::memchr(manifest::URL_PLACEHOLDER as u8, rest) {
        let (before, after) = rest.split_at(at);
        out.extend_from_slice(before);
        out.extend_from_slice(url);
        rest = after.get(1..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// Drops the separators after the last member.
fn end_members(out: &mut Vec<u8>) {
    while let Some(b',' | b'\n') = out.last() {
        out.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merged::Holder;
    use crate::merged::tests::holder;
    use crate::package::{Package, RunRef};
    use crate::version::Version;
    use crate::version_run::{IndexEntry, VersionRun, VersionState};
    use kit::Timestamp;
    use serde_json::{Value, json};

    fn entry(version: &str) -> IndexEntry<'_> {
        IndexEntry { version, upload: "u", at: Timestamp::from_millis(0), state: VersionState::Listed }
    }

    fn package(versions: &[&str]) -> Package {
        let mut package = Package::new(Timestamp::from_millis(0));
        for version in versions {
            let run = RunRef { id: "s".into(), listed: 1, size: 1, checksums: None };
            let version = Version::parse(version).unwrap();
            package.publish(&version, "latest", "u", 0, run, Timestamp::from_millis(0)).unwrap();
        }
        package.record_change("e", Timestamp::from_millis(1000));
        package
    }

    fn render(versions: &[&[&str]], package_level_fields: Option<&[u8]>) -> Value {
        let name = PackageName::parse("@a/b").unwrap();
        let merged = MergedPackage::of(holder(package(&versions.concat())));
        let runs: Vec<VersionRun> = versions
            .iter()
            .map(|versions| {
                VersionRun::merge(versions.iter().map(|version| {
                    let record =
                        format!("{{\"version\":\"{version}\",\"tarball\":\"{}/x\"}}", manifest::URL_PLACEHOLDER);
                    VersionRun::of(&entry(version), &record, &record)
                }))
            })
            .collect();
        let forms = runs.iter().map(|s| (s.full.versions.as_bytes().into(), s.full.times.as_bytes().into())).collect();
        let metadata = Metadata {
            name: &name,
            merged: &merged,
            forms,
            package_level_fields,
            url: "http://x/\"y",
            maintainers: "[]",
        };
        serde_json::from_slice(&metadata.render()).unwrap()
    }

    #[test]
    fn the_full_form() {
        let record = |version| json!({"version": version, "tarball": "http://x/\"y/x"});
        assert_eq!(
            render(&[&["1.0.0", "1.0.1"], &["2.0.0"]], Some(b",\"readme\":\"r\"")),
            json!({
                "_id": "@a/b", "_rev": "1-e", "name": "@a/b", "dist-tags": {"latest": "2.0.0"}, "readme": "r", "maintainers": [],
                "versions": {"1.0.0": record("1.0.0"), "1.0.1": record("1.0.1"), "2.0.0": record("2.0.0")},
                "time": {
                    "created": "1970-01-01T00:00:00.000Z", "modified": "1970-01-01T00:00:01.000Z",
                    "1.0.0": "1970-01-01T00:00:00.000Z", "1.0.1": "1970-01-01T00:00:00.000Z",
                    "2.0.0": "1970-01-01T00:00:00.000Z",
                },
            })
        );
    }

    #[test]
    fn the_abbreviated_form_has_times_as_well() {
        let document = render(&[&["1.0.0"]], None);
        let names: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, ["dist-tags", "modified", "name", "time", "versions"]);
        assert_eq!(document["time"]["1.0.0"], "1970-01-01T00:00:00.000Z");
    }

    /// Earlier builds stored the whole readme.
    #[test]
    fn a_long_readme_is_cut() {
        let readme = format!("{}é", "x".repeat(MAX_README - 1));
        let published = format!(",\"readme\":{},\"license\":\"MIT\"", json::quoted(&readme));
        let document = render(&[&[]], Some(published.as_bytes()));
        assert_eq!(document["readme"].as_str().map(str::len), Some(MAX_README - 1));
        assert_eq!(document["license"], "MIT");
    }

    #[test]
    fn maintainers_come_from_the_project() {
        let published = br#","readme":"maintainers","maintainers":[{"name":"x"}],"bugs":{"maintainers":1}"#;
        let document = render(&[&["1.0.0"]], Some(published));
        assert_eq!(document["maintainers"], json!([]));
        assert_eq!((&document["readme"], &document["bugs"]), (&json!("maintainers"), &json!({"maintainers": 1})));
    }

    #[test]
    fn runs_without_versions_render_nothing() {
        let document = render(&[&[], &["1.0.0"], &[]], None);
        assert_eq!(document["versions"].as_object().unwrap().len(), 1);
        assert_eq!(render(&[], None)["versions"], json!({}));
    }

    #[test]
    fn entity_tags_differ_by_revision_form_encoding_and_address() {
        let package = package(&["1.0.0"]);
        let mut changed = package.clone();
        changed.record_change("f", Timestamp::from_millis(0));
        let merge = |packages: Vec<Package>| MergedPackage::merge(packages.into_iter().map(holder).collect()).unwrap();
        let of_two = [
            merge(vec![package.clone(), changed.clone()]),
            merge(vec![changed.clone(), package.clone()]),
            merge(vec![package.clone(), package.clone(), changed.clone()]),
        ];
        let without_latest = MergedPackage::of(Holder { provides_latest: false, ..holder(package.clone()) });
        let [package, changed] = [package, changed].map(|package| MergedPackage::of(holder(package)));
        let plain = Representation { abbreviated: false, gzip: false, url: "http://x", maintainers: "" };
        let tags = [
            plain.entity_tag(&package),
            Representation { abbreviated: true, ..plain }.entity_tag(&package),
            Representation { gzip: true, ..plain }.entity_tag(&package),
            Representation { abbreviated: true, gzip: true, ..plain }.entity_tag(&package),
            Representation { url: "http://y", ..plain }.entity_tag(&package),
            Representation { maintainers: "[]", ..plain }.entity_tag(&package),
            plain.entity_tag(&changed),
            plain.entity_tag(&of_two[0]),
            plain.entity_tag(&of_two[1]),
            plain.entity_tag(&of_two[2]),
            plain.entity_tag(&without_latest),
        ];
        for (at, tag) in tags.iter().enumerate() {
            assert!(tag.starts_with('"') && tag.ends_with('"'));
            assert!(!tags[..at].contains(tag), "{tags:?}");
        }
    }

    #[test]
    fn small_documents_are_not_compressed() {
        let small = vec![b' '; MIN_COMPRESSED_SIZE - 1];
        assert_eq!(compress(small.clone()), small);
        let large = vec![b' '; MIN_COMPRESSED_SIZE];
        let compressed = compress(large.clone());
        assert!(is_compressed(&compressed) && !is_compressed(&large) && !is_compressed(b""));
        assert_eq!(gunzip(&compressed), large);
    }

    fn gunzip(compressed: &[u8]) -> Vec<u8> {
        let mut document = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(compressed), &mut document).unwrap();
        document
    }
}
