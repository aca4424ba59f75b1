//! The published manifest of one version, and its two records in metadata: the full record for people and resolvers,
//! and the abbreviated record for installers.
//!
//! Fields keep their published text and type: programs write `author`, `bin` and `license` in several
//! shapes. Only fields that an installation depends on are checked.

use crate::install_fields::{Difference, InstallFields, SCRIPTS};
use crate::integrity::{DeclaredDigests, Integrity};
use crate::json::{self, Members};
use crate::name::PackageName;
use crate::tarball::{Totals, excerpt};
use crate::version::Version;
use kit::path;
use serde_json::value::RawValue;
use std::fmt::{self, Write as _};

/// Largest manifest, in bytes, without its readme.
pub const MAX_SIZE: usize = 2 * 1024 * 1024;

/// The placeholder in stored records for the registry's URL, which depends on the request. JSON text cannot contain
/// this character.
pub const URL_PLACEHOLDER: char = '\u{1}';

/// The fields of an abbreviated record, which an installer needs to build a tree
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

/// The fields of an abbreviated record that the registry writes.
const ABBREVIATED_REGISTRY_FIELDS: &[&str] = &["deprecated", "dist", "hasInstallScript"];

/// Fields that are left out unless they are objects, because clients fail on other types.
const OBJECT_FIELDS: &[&str] =
    &["dependencies", "optionalDependencies", "devDependencies", "peerDependencies", "peerDependenciesMeta"];

/// Fields that the registry writes; published values are dropped. Metadata shows the readme once, for the package.
const REGISTRY_FIELDS: &[&str] = &[
    "_id",
    "dist",
    "deprecated",
    "readme",
    "hasInstallScript",
    "_hasShrinkwrap",
    "maintainers",
    "_npmUser",
    "_npmVersion",
    "_from",
    "_integrity",
    "_resolved",
    "_rev",
    "_shasum",
];

/// If a program assigns this member, it changes the object's prototype instead of adding a member.
const PROTOTYPE: &str = "__proto__";

/// Fields that the full metadata of a package repeats from its latest version.
const PACKAGE_LEVEL_FIELDS: &[&str] =
    &["description", "homepage", "keywords", "repository", "author", "contributors", "bugs", "license"];

/// Largest readme, in bytes, that metadata shows; the rest is cut off.
pub const MAX_README: usize = 64 * 1024;

/// Why a manifest is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum ManifestError {
    /// Not an object with a name, a version, a tarball and a SHA-1.
    Schema,
    /// JSON that some clients cannot read.
    NotPortable,
    /// The name of another package.
    Name(String),
    /// Another version.
    Version(String),
    /// Its size in bytes.
    TooLarge(usize),
    /// A member that occurs twice in one object.
    Ambiguous(String),
    /// A field that differs from the file's; both values.
    Differs { field: String, published: String, file: String },
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ManifestError::Schema => f.write_str("Validation failed: Package json must be a valid json schema"),
            ManifestError::NotPortable => f.write_str(
                "Validation failed: Package json has a string with half of a surrogate pair, or a number that is too \
                 large, which some clients cannot read",
            ),
            ManifestError::Name(name) => {
                write!(f, "Validation failed: Package json has the name {name}, which is not the package's")
            }
            ManifestError::Version(version) => {
                write!(
                    f,
                    "Validation failed: Package json has the version {version}, which is not the one it is listed as"
                )
            }
            ManifestError::Ambiguous(member) => {
                write!(
                    f,
                    "Validation failed: Package json has `{member}` twice with different values, or nested too deep"
                )
            }
            ManifestError::Differs { field, published, file } => write!(
                f,
                "Validation failed: Package json has another `{field}` than package.json in the attachment: \
                 {published} instead of {file}. Most often a script prepack or postpack changes package.json while \
                 the file is packed. Pack the file first and publish it by its name, or let the operator set \
                 registry_manifest_mismatch to file, so that the file's value counts"
            ),
            ManifestError::TooLarge(size) => write!(
                f,
                "Validation failed: Package json structure is too large. Maximum size is {MAX_SIZE} bytes, this one has {size}"
            ),
        }
    }
}

/// The registry's own values for the records of a version.
pub struct RegistryValues<'a> {
    pub integrity: &'a Integrity,
    pub totals: Totals,
    pub has_install_script: bool,
    pub has_shrinkwrap: bool,
    /// The kind of its provenance, if it has any.
    pub predicate_type: Option<&'a str>,
    /// The username of the publisher; a deploy token has none.
    pub publisher: Option<&'a str>,
    /// The version of npm that published it, if it was npm.
    pub npm_version: Option<&'a str>,
}

/// A manifest that was checked against its name and version.
pub struct Manifest<'a> {
    name: &'a PackageName,
    version: &'a Version,
    members: Members<'a>,
    dist: Members<'a>,
    /// Fields whose value in records is the file's.
    corrections: Vec<Difference>,
}

impl<'a> Manifest<'a> {
    pub fn read(text: &'a RawValue, name: &'a PackageName, version: &'a Version) -> Result<Self, ManifestError> {
        let members = Members::read(text.get()).map_err(|_| ManifestError::Schema)?;
        let dist = members.get("dist").ok_or(ManifestError::Schema)?;
        let dist = Members::read(dist.get()).map_err(|_| ManifestError::Schema)?;
        let manifest = Manifest { name, version, members, dist, corrections: Vec::new() };
        let text = |value: Option<&RawValue>| value.and_then(json::string).ok_or(ManifestError::Schema);
        text(manifest.dist.get("tarball"))?;
        text(manifest.dist.get("shasum"))?;
        let (its_name, its_version) = (text(manifest.members.get("name"))?, text(manifest.members.get("version"))?);
        if its_name != name.as_str() {
            return Err(ManifestError::Name(its_name));
        }
        if its_version != version.as_str() {
            return Err(ManifestError::Version(its_version));
        }
        if !manifest.members.iter().all(|(name, value)| name == "readme" || json::is_portable(value)) {
            return Err(ManifestError::NotPortable);
        }
        let readme = manifest.members.get("readme").map_or(0, |readme| readme.get().len());
        let size = manifest.members.iter().map(|(name, value)| name.len() + value.get().len()).sum::<usize>() - readme;
        if size > MAX_SIZE { Err(ManifestError::TooLarge(size)) } else { Ok(manifest) }
    }

    /// Compares the fields that an installer acts on with the file's. Records get the file's values of the fields that
    /// differ. If `are_errors`, the first difference that matters is an error instead.
    pub fn reconcile(
        &mut self,
        file: &InstallFields,
        has_gyp_file: bool,
        are_errors: bool,
    ) -> Result<(), ManifestError> {
        let published = InstallFields::of_document(self.name, |field| self.members.get(field));
        let published = published.map_err(ManifestError::Ambiguous)?;
        self.corrections = file.differences(&published, has_gyp_file);
        match self.corrections.iter().find(|difference| are_errors && difference.is_error) {
            None => Ok(()),
            Some(difference) => {
                let shown = |value: Option<String>| value.map_or("nothing".into(), |value| excerpt(value.as_bytes()));
                if let Some((field, [published, file])) = file.differing_script(&published)
                    && difference.replaces(SCRIPTS)
                {
                    return Err(ManifestError::Differs { field, published: shown(published), file: shown(file) });
                }
                let published = self.members.iter().find(|(name, _)| difference.replaces(name));
                let published = published.map(|(_, value)| value.get().to_owned());
                let file = difference.value.as_ref().map(serde_json::Value::to_string);
                let field = difference.field.to_owned();
                Err(ManifestError::Differs { field, published: shown(published), file: shown(file) })
            }
        }
    }

    /// The digests that the publisher declares; the length is declared in `_attachments`.
    pub fn declared(&self) -> DeclaredDigests {
        let text = |name| self.dist.get(name).and_then(json::string);
        DeclaredDigests { integrity: text("integrity"), shasum: text("shasum"), length: None }
    }

    /// The deprecation message that the version was published with, if any.
    pub fn deprecated(&self) -> Option<String> {
        self.members.get("deprecated").and_then(json::string).filter(|message| !message.is_empty())
    }

    /// The record in full metadata: every published field except the readme.
    pub fn full(&self, values: &RegistryValues) -> String {
        let mut record = self.record(values, |_| true);
        let id = json::quoted(&format!("{}@{}", self.name, self.version));
        let _ = write!(record, ",\"_id\":{id}");
        if let Some(version) = values.npm_version {
            let _ = write!(record, ",\"_npmVersion\":{}", json::quoted(version));
        }
        if let Some(publisher) = values.publisher {
            let _ = write!(record, ",\"_npmUser\":{{\"name\":{},\"email\":\"\"}}", json::quoted(publisher));
        }
        record.push('}');
        record
    }

    /// The record in abbreviated metadata.
    pub fn abbreviated(&self, values: &RegistryValues) -> String {
        let mut record = self.record(values, |name| ABBREVIATED.contains(&name));
        record.push('}');
        record
    }

    /// A record without its closing brace. If it has `deprecated`, it starts with it, so that the message can be
    /// changed without reading the rest (see [`set_deprecated`]).
    fn record(&self, values: &RegistryValues, keep: impl Fn(&str) -> bool) -> String {
        let mut record = String::from("{");
        let kept = self.members.iter().filter(|(name, value)| {
            *name != PROTOTYPE
                && !REGISTRY_FIELDS.contains(name)
                && !self.corrections.iter().any(|correction| correction.replaces(name))
                && keep(name)
                && (!OBJECT_FIELDS.contains(name) || json::is_object(value))
        });
        for (name, value) in kept {
            push_member(&mut record, name, value.get());
        }
        for correction in self.corrections.iter().filter(|correction| keep(correction.field)) {
            if let Some(value) = correction.corrected(self.members.get(correction.field)) {
                push_member(&mut record, correction.field, &value.to_string());
            }
        }
        let _ = write!(
            record,
            ",\"dist\":{{\"tarball\":\"{URL_PLACEHOLDER}/{}/-/{}\",\"shasum\":\"{}\",\"integrity\":\"{}\"",
            self.name,
            self.name.file(self.version.as_str()),
            values.integrity.shasum(),
            values.integrity.sri()
        );
        // Nothing of the published `dist` is repeated: digests, counts and address are computed, and signatures and
        // attestations would be served unchecked.
        for (name, count) in [("fileCount", values.totals.files), ("unpackedSize", values.totals.size)] {
            let _ = write!(record, ",\"{name}\":{count}");
        }
        if let Some(predicate_type) = values.predicate_type {
            let (name, version) = (path::encode(self.name.as_str()), self.version);
            let kind = json::quoted(predicate_type);
            let _ = write!(
                record,
                ",\"attestations\":{{\"url\":\"{URL_PLACEHOLDER}/-/npm/v1/attestations/{name}@{version}\",\
                 \"provenance\":{{\"predicateType\":{kind}}}}}"
            );
        }
        record.push('}');
        if values.has_install_script {
            record.push_str(",\"hasInstallScript\":true");
        }
        if values.has_shrinkwrap {
            record.push_str(",\"_hasShrinkwrap\":true");
        }
        if let Some(message) = self.deprecated() {
            record = set_deprecated(&record, &message);
        }
        record
    }

    /// The package-level fields: full metadata shows them for the whole package while this version is the latest. They
    /// are members to append to an object, each with a comma before it. `readme` is the readme beside the manifest; the
    /// manifest's own takes precedence.
    pub fn package_level_fields(&self, readme: Option<&RawValue>) -> String {
        let mut latest = String::new();
        for (name, value) in self.members.iter().filter(|(name, _)| PACKAGE_LEVEL_FIELDS.contains(name)) {
            latest.push(',');
            push_member(&mut latest, name, value.get());
        }
        let text = |value: Option<&RawValue>| value.and_then(json::string);
        if let Some(readme) = text(self.members.get("readme").or(readme)) {
            latest.push(',');
            push_member(&mut latest, "readme", &json::quoted(cut_readme(&readme)));
        }
        if let Some(name) = self.members.get("readmeFilename") {
            latest.push(',');
            push_member(&mut latest, "readmeFilename", name.get());
        }
        latest
    }
}

/// As much of a readme as metadata shows.
pub fn cut_readme(readme: &str) -> &str {
    readme.get(..readme.floor_char_boundary(MAX_README)).unwrap_or(readme)
}

/// Appends a member. A comma precedes it, unless the member is the first or a comma is there.
fn push_member(object: &mut String, name: &str, value: &str) {
    if !object.is_empty() && !object.ends_with(['{', ',']) {
        object.push(',');
    }
    object.push_str(&json::quoted(name));
    object.push(':');
    json::compact(value, object);
}

/// A stored record as JSON: the placeholder of the address is escaped.
pub fn to_json(record: &str) -> String {
    record.replace(URL_PLACEHOLDER, "\\u0001")
}

/// Whether two records are of one version. The abbreviated record has some members of the full record, in the same
/// order.
pub fn is_abbreviation(abbreviated: &Members, full: &Members) -> bool {
    let is_kept = |name: &str| ABBREVIATED.contains(&name) || ABBREVIATED_REGISTRY_FIELDS.contains(&name);
    let kept = full.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| (name, value.get()));
    kept.eq(abbreviated.iter().map(|(name, value)| (name, value.get())))
}

const DEPRECATED: &str = "{\"deprecated\":";

/// The record with another deprecation message; an empty message removes the deprecation.
pub fn set_deprecated(record: &str, message: &str) -> String {
    let rest = match record.strip_prefix(DEPRECATED) {
        Some(message) => message.split_at(json::string_length(message)).1.trim_start_matches(','),
        None => record.trim_start_matches('{'),
    };
    if message.is_empty() { format!("{{{rest}") } else { format!("{DEPRECATED}{},{rest}", json::quoted(message)) }
}

/// The deprecation message of a record; empty if it has none.
pub fn deprecation(record: &str) -> String {
    let message = record.strip_prefix(DEPRECATED).map(|rest| rest.split_at(json::string_length(rest)).0);
    message.and_then(|message| serde_json::from_str(message).ok()).unwrap_or_default()
}

/// Whether a record has a deprecation message.
pub fn is_deprecated(record: &str) -> bool {
    record.strip_prefix(DEPRECATED).is_some_and(|message| !message.starts_with("\"\""))
}

#[cfg(test)]
mod tests;
