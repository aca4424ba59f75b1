//! The manifest of one version, as it was published, and the two records that metadata lists it
//! as: the full one for people and resolvers, and the abbreviated one for installers.
//!
//! Fields keep their published text, whatever their type: programs write `author`, `bin` and
//! `license` in several shapes. Only what installing depends on is checked.

use crate::integrity::{Declared, Integrity};
use crate::json::{self, Members};
use crate::name::PackageName;
use crate::tarball::Totals;
use crate::version::Version;
use kit::path;
use serde_json::value::RawValue;
use std::fmt::{self, Write as _};

/// Largest manifest, in bytes, without its readme.
pub const MAX_SIZE: usize = 2 * 1024 * 1024;

/// Stands in stored records where the URL of the registry goes, which depends on the request.
/// JSON text cannot have this character, so it marks nothing else.
pub const URL: char = '\u{1}';

/// The fields of an abbreviated record: what an installer needs to build a tree
/// (<https://github.com/npm/registry/blob/main/docs/responses/package-metadata.md#abbreviated-version-object>).
const ABBREVIATED: &[&str] = &[
    "name",
    "version",
    "dependencies",
    "optionalDependencies",
    "devDependencies",
    "bundleDependencies",
    "bundledDependencies",
    "peerDependencies",
    "peerDependenciesMeta",
    "acceptDependencies",
    "bin",
    "directories",
    "engines",
    "_hasShrinkwrap",
    "cpu",
    "os",
    "libc",
    "funding",
];

/// Fields that are left out unless they are objects, because clients read them as such.
const MAPS: &[&str] =
    &["dependencies", "optionalDependencies", "devDependencies", "peerDependencies", "peerDependenciesMeta"];

/// Fields of the registry's own making, which a publisher cannot give: its digests and address
/// are computed, and a signature or attestation would vouch for what nobody checked.
const OURS: &[&str] = &["integrity", "shasum", "tarball", "signatures", "npm-signature", "attestations"];

/// Scripts that run on installation.
const INSTALL_SCRIPTS: &[&str] = &["preinstall", "install", "postinstall"];

/// Fields that the full metadata of a package repeats from its latest version.
const ABOUT: &[&str] =
    &["description", "homepage", "keywords", "repository", "author", "contributors", "maintainers", "bugs", "license"];

/// What is wrong with a manifest.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not an object with a name, a version, a tarball and a SHA-1.
    Schema,
    /// It is of another package, or of another version.
    Name(String),
    Version(String),
    /// Its size in bytes.
    TooLarge(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Fault::Schema => f.write_str("Validation failed: Package json must be a valid json schema"),
            Fault::Name(name) => {
                write!(f, "Validation failed: Package json has the name {name}, which is not the package's")
            }
            Fault::Version(version) => {
                write!(
                    f,
                    "Validation failed: Package json has the version {version}, which is not the one it is listed as"
                )
            }
            Fault::TooLarge(size) => write!(
                f,
                "Validation failed: Package json structure is too large. Maximum size is {MAX_SIZE} bytes, this one has {size}"
            ),
        }
    }
}

/// What the registry knows of a version's file.
pub struct Dist<'a> {
    pub integrity: &'a Integrity,
    pub totals: Totals,
    /// The kind of its provenance, if it has any.
    pub predicate_type: Option<&'a str>,
}

/// A manifest that was checked against its name and version.
pub struct Manifest<'a> {
    name: &'a PackageName,
    version: &'a Version,
    members: Members<'a>,
    dist: Members<'a>,
}

impl<'a> Manifest<'a> {
    pub fn read(text: &'a RawValue, name: &'a PackageName, version: &'a Version) -> Result<Self, Fault> {
        let members = Members::read(text.get()).map_err(|_| Fault::Schema)?;
        let dist = members.get("dist").ok_or(Fault::Schema)?;
        let manifest = Manifest { name, version, dist: Members::read(dist.get()).map_err(|_| Fault::Schema)?, members };
        let text = |value: Option<&RawValue>| value.and_then(json::string).ok_or(Fault::Schema);
        text(manifest.dist.get("tarball"))?;
        text(manifest.dist.get("shasum"))?;
        let (its_name, its_version) = (text(manifest.members.get("name"))?, text(manifest.members.get("version"))?);
        if its_name != name.as_str() {
            return Err(Fault::Name(its_name));
        }
        if its_version != version.as_str() {
            return Err(Fault::Version(its_version));
        }
        let readme = manifest.members.get("readme").map_or(0, |readme| readme.get().len());
        let size = manifest.members.iter().map(|(name, value)| name.len() + value.get().len()).sum::<usize>() - readme;
        if size > MAX_SIZE { Err(Fault::TooLarge(size)) } else { Ok(manifest) }
    }

    /// The digests that the publisher claims; the length is declared elsewhere.
    pub fn declared(&self) -> Declared {
        let text = |name| self.dist.get(name).and_then(json::string);
        Declared { integrity: text("integrity"), shasum: text("shasum"), length: None }
    }

    /// The message with which the version was published as deprecated, if it was.
    pub fn deprecated(&self) -> Option<String> {
        self.members.get("deprecated").and_then(json::string).filter(|message| !message.is_empty())
    }

    /// The record in full metadata: every published field except the readme.
    pub fn full(&self, dist: &Dist) -> String {
        let mut record = self.record(dist, |_| true);
        if self.members.get("_id").is_none() {
            let id = json::quoted(&format!("{}@{}", self.name, self.version));
            let _ = write!(record, ",\"_id\":{id}");
        }
        record.push('}');
        record
    }

    /// The record in abbreviated metadata.
    pub fn abbreviated(&self, dist: &Dist) -> String {
        let mut record = self.record(dist, |name| ABBREVIATED.contains(&name));
        record.push('}');
        record
    }

    /// A record without its closing brace. It starts with `deprecated`, if it has it, so that the
    /// message can be changed without reading the rest (see [`set_deprecated`]).
    fn record(&self, dist: &Dist, keep: impl Fn(&str) -> bool) -> String {
        let mut record = String::from("{");
        let kept = self.members.iter().filter(|(name, value)| {
            !matches!(*name, "readme" | "deprecated" | "dist" | "hasInstallScript")
                && keep(name)
                && (!MAPS.contains(name) || json::is_object(value))
        });
        for (name, value) in kept {
            push_member(&mut record, name, value);
        }
        let _ = write!(
            record,
            ",\"dist\":{{\"tarball\":\"{URL}/{}/-/{}\",\"shasum\":\"{}\",\"integrity\":\"{}\"",
            self.name,
            self.name.file(self.version.as_str()),
            dist.integrity.shasum(),
            dist.integrity.sri()
        );
        for (name, value) in self.dist.iter().filter(|(name, _)| !OURS.contains(name)) {
            push_member(&mut record, name, value);
        }
        // Some clients do not count.
        for (name, count) in [("fileCount", dist.totals.files), ("unpackedSize", dist.totals.size)] {
            if self.dist.get(name).is_none() {
                let _ = write!(record, ",\"{name}\":{count}");
            }
        }
        if let Some(predicate_type) = dist.predicate_type {
            let (name, version) = (path::encode(self.name.as_str()), self.version);
            let kind = json::quoted(predicate_type);
            let _ = write!(
                record,
                ",\"attestations\":{{\"url\":\"{URL}/-/npm/v1/attestations/{name}@{version}\",\
                 \"provenance\":{{\"predicateType\":{kind}}}}}"
            );
        }
        record.push('}');
        if self.has_install_script() {
            record.push_str(",\"hasInstallScript\":true");
        }
        if let Some(message) = self.deprecated() {
            record = set_deprecated(&record, &message);
        }
        record
    }

    fn has_install_script(&self) -> bool {
        let declared = self.members.get("hasInstallScript").is_some_and(|value| value.get() == "true");
        let scripts = self.members.get("scripts").and_then(|scripts| Members::read(scripts.get()).ok());
        declared || scripts.is_some_and(|scripts| INSTALL_SCRIPTS.iter().any(|name| scripts.get(name).is_some()))
    }

    /// The fields that full metadata shows for the whole package while this is its latest
    /// version, as members to append to an object: each starts with a comma. `readme` is the one
    /// beside the manifest; the manifest's own comes first.
    pub fn about(&self, readme: Option<&RawValue>) -> String {
        let mut about = String::new();
        let readme = self.members.get("readme").or(readme);
        let readme_file = self.members.get("readmeFilename");
        let fields = self.members.iter().filter(|(name, _)| ABOUT.contains(name));
        let extra = [("readme", readme), ("readmeFilename", readme_file)];
        for (name, value) in fields.chain(extra.into_iter().filter_map(|(name, value)| Some((name, value?)))) {
            about.push(',');
            push_member(&mut about, name, value);
        }
        about
    }
}

/// Appends a member, after a comma unless it is the first one or one was written.
fn push_member(object: &mut String, name: &str, value: &RawValue) {
    if !object.is_empty() && !object.ends_with(['{', ',']) {
        object.push(',');
    }
    object.push_str(&json::quoted(name));
    object.push(':');
    json::compact(value.get(), object);
}

const DEPRECATED: &str = "{\"deprecated\":";

/// The record with another deprecation message; an empty one takes the deprecation back.
pub fn set_deprecated(record: &str, message: &str) -> String {
    let rest = match record.strip_prefix(DEPRECATED) {
        Some(message) => message.split_at(json::string_length(message)).1.trim_start_matches(','),
        None => record.trim_start_matches('{'),
    };
    if message.is_empty() { format!("{{{rest}") } else { format!("{DEPRECATED}{},{rest}", json::quoted(message)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn name() -> PackageName {
        PackageName::parse("@acme/lib").unwrap()
    }

    fn version() -> Version {
        Version::parse("1.0.0").unwrap()
    }

    fn manifest() -> Value {
        json!({
            "name": "@acme/lib", "version": "1.0.0", "license": {"type": "MIT"}, "author": "", "readme": "# long",
            "bin": "x.js", "dependencies": {"a": "^1"}, "peerDependenciesMeta": {"a": {"optional": true}},
            "_custom": [1, 2],
            "dist": {"shasum": "00", "integrity": "sha512-x", "tarball": "https://elsewhere.example/x.tgz", "fileCount": 3,
                     "signatures": [{"sig": "forged"}]},
        })
    }

    /// The full and the abbreviated record of `manifest`.
    fn records(manifest: &Value) -> Result<(String, String), Fault> {
        let (name, version) = (name(), version());
        let text = RawValue::from_string(serde_json::to_string_pretty(manifest).unwrap()).unwrap();
        let manifest = Manifest::read(&text, &name, &version)?;
        let integrity = Integrity::of(b"hello");
        let totals = Totals { files: 7, size: 70 };
        let dist = Dist { integrity: &integrity, totals, predicate_type: None };
        Ok((manifest.full(&dist), manifest.abbreviated(&dist)))
    }

    /// A record as a client sees it.
    fn served(record: &str) -> Value {
        serde_json::from_str(&record.replace(URL, "https://r.example")).unwrap()
    }

    #[test]
    fn the_full_record_has_everything_but_the_readme() {
        let (full, _) = records(&manifest()).unwrap();
        let integrity = Integrity::of(b"hello");
        let mut expected = manifest();
        expected.as_object_mut().unwrap().remove("readme");
        expected["_id"] = json!("@acme/lib@1.0.0");
        expected["dist"] = json!({
            "tarball": "https://r.example/@acme/lib/-/lib-1.0.0.tgz", "shasum": integrity.shasum(),
            "integrity": integrity.sri(), "fileCount": 3, "unpackedSize": 70,
        });
        assert_eq!(served(&full), expected);
        assert!(!full.contains('\n'), "one line: {full}");
        assert_eq!(full.matches(URL).count(), 1);
    }

    #[test]
    fn provenance_is_announced() {
        let (name, version, integrity) = (name(), version(), Integrity::of(b"hello"));
        let text = RawValue::from_string(manifest().to_string()).unwrap();
        let manifest = Manifest::read(&text, &name, &version).unwrap();
        let dist = Dist { integrity: &integrity, totals: Totals::default(), predicate_type: Some("https://x/\"v1") };
        for record in [manifest.full(&dist), manifest.abbreviated(&dist)] {
            let expected = json!({
                "url": "https://r.example/-/npm/v1/attestations/%40acme%2Flib@1.0.0",
                "provenance": {"predicateType": "https://x/\"v1"},
            });
            assert_eq!(served(&record)["dist"]["attestations"], expected);
        }
    }

    #[test]
    fn the_abbreviated_record_has_what_installing_needs() {
        let (_, abbreviated) = records(&manifest()).unwrap();
        let served = served(&abbreviated);
        let names: Vec<&str> = served.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, ["bin", "dependencies", "dist", "name", "peerDependenciesMeta", "version"]);
    }

    #[test]
    fn install_scripts_are_announced() {
        for (scripts, announced) in [
            (json!({"postinstall": "x"}), true),
            (json!({"preinstall": "x"}), true),
            (json!({"install": "x"}), true),
            (json!({"test": "x"}), false),
            (json!("install"), false),
        ] {
            let mut manifest = manifest();
            manifest["scripts"] = scripts.clone();
            let (full, abbreviated) = records(&manifest).unwrap();
            for record in [full, abbreviated] {
                assert_eq!(
                    served(&record)["hasInstallScript"],
                    if announced { json!(true) } else { json!(null) },
                    "{scripts}"
                );
            }
        }
    }

    #[test]
    fn dependencies_that_are_no_map_are_left_out() {
        let mut manifest = manifest();
        manifest["dependencies"] = json!(["a"]);
        manifest["bundleDependencies"] = json!(["a"]);
        let (full, abbreviated) = records(&manifest).unwrap();
        for record in [full, abbreviated] {
            assert_eq!(served(&record).get("dependencies"), None);
            assert_eq!(served(&record)["bundleDependencies"], json!(["a"]));
        }
    }

    #[test]
    fn what_cannot_be_installed_is_refused() {
        let without = |path: &[&str]| {
            let mut manifest = manifest();
            let (last, parents) = path.split_last().unwrap();
            let parent = parents.iter().fold(&mut manifest, |value, name| &mut value[*name]);
            parent.as_object_mut().unwrap().remove(*last);
            manifest
        };
        for path in [&["name"][..], &["version"], &["dist"], &["dist", "shasum"], &["dist", "tarball"]] {
            assert_eq!(records(&without(path)), Err(Fault::Schema), "without {path:?}");
        }
        for manifest in [json!(null), json!([]), json!("x"), json!(1)] {
            assert_eq!(records(&manifest), Err(Fault::Schema), "{manifest}");
        }
        let with = |name: &str, value: Value| {
            let mut manifest = manifest();
            manifest[name] = value;
            records(&manifest).map(drop)
        };
        assert_eq!(with("name", json!(7)), Err(Fault::Schema));
        assert_eq!(with("name", json!("lib")), Err(Fault::Name("lib".into())));
        assert_eq!(with("version", json!("1.0.1")), Err(Fault::Version("1.0.1".into())));
        assert!(matches!(with("x", json!("y".repeat(MAX_SIZE))), Err(Fault::TooLarge(_))));
        assert_eq!(with("readme", json!("y".repeat(MAX_SIZE))), Ok(()));
    }

    #[test]
    fn a_deprecation_is_set_changed_and_taken_back_on_the_finished_record() {
        let (full, _) = records(&manifest()).unwrap();
        let deprecated = set_deprecated(&full, "use \"2\", not }1{");
        assert_eq!(served(&deprecated)["deprecated"], "use \"2\", not }1{");
        let changed = set_deprecated(&deprecated, "no");
        assert_eq!(served(&changed)["deprecated"], "no");
        assert_eq!(set_deprecated(&changed, ""), full);
        assert_eq!(set_deprecated(&full, ""), full);
    }

    #[test]
    fn a_version_may_be_published_as_deprecated() {
        let mut manifest = manifest();
        manifest["deprecated"] = json!("old");
        assert_eq!(served(&records(&manifest).unwrap().1)["deprecated"], "old");
        manifest["deprecated"] = json!("");
        assert_eq!(served(&records(&manifest).unwrap().0).get("deprecated"), None);
    }

    #[test]
    fn about_is_made_of_members_to_append() {
        let (name, version) = (name(), version());
        let text = RawValue::from_string(manifest().to_string()).unwrap();
        let about = Manifest::read(&text, &name, &version).unwrap().about(None);
        let object: Value = serde_json::from_str(&format!("{{\"x\":0{about}}}")).unwrap();
        assert_eq!(object, json!({"x": 0, "author": "", "license": {"type": "MIT"}, "readme": "# long"}));

        let mut manifest = manifest();
        for name in ["author", "license", "readme"] {
            manifest.as_object_mut().unwrap().remove(name);
        }
        let text = RawValue::from_string(manifest.to_string()).unwrap();
        assert_eq!(Manifest::read(&text, &name, &version).unwrap().about(None), "");
        let readme = RawValue::from_string("\"beside\"".into()).unwrap();
        assert_eq!(Manifest::read(&text, &name, &version).unwrap().about(Some(&readme)), ",\"readme\":\"beside\"");
    }
}
