//! The metadata of a package, as package managers receive it.
//!
//! A page shows some versions in a line each, and one version in full. Texts are borrowed from the document. Fields
//! that only the full version shows are parsed on demand.

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

/// A package.
pub struct Metadata<'a> {
    pub name: Text<'a>,
    pub description: Option<Text<'a>>,
    /// Names and versions.
    pub tags: Vec<(Text<'a>, Text<'a>)>,
    /// The newest first.
    pub releases: Vec<Release<'a>>,
    pub readme: Option<Text<'a>>,
    pub maintainers: Vec<Person<'a>>,
}

/// A version and when it was published.
pub struct Release<'a> {
    pub number: Text<'a>,
    pub time: Option<Text<'a>>,
    pub version: Version<'a>,
}

/// A text of the document; it is copied only if it has escapes.
#[derive(Deserialize, Clone, PartialEq, Eq, Hash)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The document. Fields that publishers write are of any type.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
    #[serde(borrow, rename = "dist-tags", default)]
    tags: Entries<'a, Text<'a>>,
    #[serde(borrow, default)]
    versions: Entries<'a, Version<'a>>,
    #[serde(borrow, default)]
    time: Entries<'a, Text<'a>>,
    #[serde(borrow, default)]
    readme: Option<&'a RawValue>,
    #[serde(borrow, default)]
    maintainers: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub struct Person<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
}

/// One version. Fields that publishers write are of any type.
#[derive(Deserialize)]
pub struct Version<'a> {
    #[serde(borrow, default)]
    deprecated: Option<&'a RawValue>,
    #[serde(borrow, default)]
    dependencies: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "peerDependencies")]
    peer_dependencies: Option<&'a RawValue>,
    #[serde(borrow, default)]
    license: Option<&'a RawValue>,
    #[serde(borrow, default)]
    homepage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    repository: Option<&'a RawValue>,
    #[serde(borrow, default)]
    engines: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "hasInstallScript")]
    has_install_script: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub dist: Dist<'a>,
    #[serde(borrow, default, rename = "_npmUser")]
    publisher: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
pub struct Dist<'a> {
    #[serde(default, rename = "unpackedSize")]
    pub unpacked_size: Option<u64>,
    #[serde(default, rename = "fileCount")]
    pub files: Option<u64>,
    attestations: Option<IgnoredAny>,
    #[serde(borrow, default)]
    pub integrity: Option<Text<'a>>,
}

impl<'a> Metadata<'a> {
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        let Document { name, description, tags, versions, time, readme, maintainers } = serde_json::from_str(text)?;
        let mut times: HashMap<_, _> = time.0.into_iter().collect();
        let release = |(number, version)| Release { time: times.remove(&number), number, version };
        let mut releases: Vec<_> = versions.0.into_iter().map(release).collect();
        releases.reverse();
        releases.sort_by(|one, other| other.time.as_deref().cmp(&one.time.as_deref()));
        let maintainers: Vec<&RawValue> = value(maintainers).unwrap_or_default();
        Ok(Metadata {
            name,
            description: value(description),
            tags: tags.0,
            releases,
            readme: value(readme),
            maintainers: maintainers.into_iter().filter_map(|person| value(Some(person))).collect(),
        })
    }

    pub fn release(&self, number: &str) -> Option<&Release<'a>> {
        self.releases.iter().find(|release| *release.number == *number)
    }

    /// The version that a tag names.
    pub fn tagged(&self, tag: &str) -> Option<&str> {
        self.tags.iter().find(|(name, _)| **name == *tag).map(|(_, number)| &**number)
    }
}

impl<'a> Version<'a> {
    pub fn publisher(&self) -> Option<Person<'a>> {
        value(self.publisher)
    }

    pub fn has_install_script(&self) -> bool {
        value(self.has_install_script).unwrap_or_default()
    }

    /// The reason of a deprecation.
    pub fn deprecation(&self) -> Option<String> {
        match value(self.deprecated)? {
            Value::String(text) if !text.is_empty() => Some(text),
            Value::Bool(true) => Some("This version is deprecated.".to_owned()),
            _ => None,
        }
    }

    pub fn is_attested(&self) -> bool {
        self.dist.attestations.is_some()
    }

    /// Names and ranges.
    pub fn dependencies(&self) -> BTreeMap<String, Value> {
        value(self.dependencies).unwrap_or_default()
    }

    pub fn peer_dependencies(&self) -> BTreeMap<String, Value> {
        value(self.peer_dependencies).unwrap_or_default()
    }

    /// Names and ranges.
    pub fn engines(&self) -> BTreeMap<String, Value> {
        value(self.engines).unwrap_or_default()
    }

    pub fn license(&self) -> Option<String> {
        text_or_field(self.license, "type")
    }

    pub fn homepage(&self) -> Option<String> {
        text_or_field(self.homepage, "url")
    }

    /// The address of its repository, as its publisher wrote it.
    pub fn repository(&self) -> Option<String> {
        text_or_field(self.repository, "url")
    }

    /// The package's folder in its repository, if that has several packages.
    pub fn directory(&self) -> Option<String> {
        let repository: Value = value(self.repository)?;
        repository.get("directory")?.as_str().map(str::to_owned)
    }
}

/// `None` if it has another type.
fn value<'a, T: Deserialize<'a>>(json: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(json?.get()).ok()
}

fn text_or_field(json: Option<&RawValue>, field: &str) -> Option<String> {
    match value(json)? {
        Value::String(text) => Some(text),
        Value::Object(fields) => fields.get(field)?.as_str().map(str::to_owned),
        _ => None,
    }
}

/// The entries of an object, in their order.
struct Entries<'a, T>(Vec<(Text<'a>, T)>);

impl<T> Default for Entries<'_, T> {
    fn default() -> Self {
        Entries(Vec::new())
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Entries<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<'a, T>(PhantomData<(&'a str, T)>);

impl<'de: 'a, 'a, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<'a, T> {
    type Value = Entries<'a, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl maud::Render for Text<'_> {
    fn render_to(&self, buffer: &mut String) {
        (**self).render_to(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_published_versions_may_have_any_type() {
        let text = r#"{"name": "a\"b", "versions": {
            "1.0.0": {"deprecated": true, "dependencies": ["a"], "license": {"type": "MIT"}, "repository": {"url": "u", "directory": "d"},
                      "engines": null, "homepage": 7, "dist": {"attestations": {}}, "_npmUser": null},
            "1.1.0": {"deprecated": "", "dependencies": {"b": "1", "a": 2}, "license": "MIT", "repository": "u"}
        }}"#;
        let metadata = Metadata::parse(text).unwrap();
        assert_eq!(&*metadata.name, "a\"b");
        let version = |number: &str| &metadata.release(number).unwrap().version;
        let (odd, plain) = (version("1.0.0"), version("1.1.0"));
        assert_eq!(odd.deprecation().as_deref(), Some("This version is deprecated."));
        assert_eq!(plain.deprecation(), None);
        assert!(odd.dependencies().is_empty() && odd.engines().is_empty() && odd.homepage().is_none());
        assert_eq!(plain.dependencies().keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!([odd.license(), plain.license()], [Some("MIT".into()), Some("MIT".into())]);
        assert_eq!([odd.repository(), plain.repository()], [Some("u".into()), Some("u".into())]);
        assert_eq!([odd.directory(), plain.directory()], [Some("d".into()), None]);
        assert!(odd.is_attested() && !plain.is_attested());
    }

    #[test]
    fn a_package_with_fields_of_odd_types_has_a_page() {
        for odd in ["7", "true", "null", "[[]]", "{\"a\": 1}", "\"text\""] {
            let fields = ["description", "readme", "maintainers", "keywords", "bugs", "author", "homepage"];
            let fields: String = fields.iter().map(|field| format!(",\"{field}\": {odd}")).collect();
            let version =
                ["license", "engines", "repository", "_npmUser", "hasInstallScript", "description", "scripts"];
            let version: Vec<String> = version.iter().map(|field| format!("\"{field}\": {odd}")).collect();
            let version = format!("{{{}}}", version.join(","));
            let text = format!("{{\"name\": \"a\", \"versions\": {{\"1.0.0\": {version}}} {fields}}}");
            let metadata = Metadata::parse(&text).unwrap();
            let is_text = odd == "\"text\"";
            assert_eq!(metadata.description.is_some(), is_text, "{odd}");
            assert_eq!(metadata.readme.is_some(), is_text, "{odd}");
            assert!(metadata.maintainers.is_empty());
            let version = &metadata.release("1.0.0").unwrap().version;
            assert!(version.publisher().is_none());
            assert_eq!(version.has_install_script(), odd == "true");
        }
        let text = r#"{"name": "a", "maintainers": [7, {"name": "mia"}, {"name": 7}]}"#;
        let metadata = Metadata::parse(text).unwrap();
        assert_eq!(metadata.maintainers.iter().map(|person| &*person.name).collect::<Vec<_>>(), ["mia"]);
    }

    #[test]
    fn releases_are_sorted_by_time_and_then_by_their_place() {
        let text = r#"{"name": "a", "versions": {"1": {}, "2": {}, "3": {}, "4": {}}, "dist-tags": {"latest": "2"},
                       "time": {"created": "2026", "1": "2026-03", "2": "2026-01", "3": "2026-03"}}"#;
        let metadata = Metadata::parse(text).unwrap();
        assert_eq!(metadata.releases.iter().map(|release| &*release.number).collect::<Vec<_>>(), ["3", "1", "2", "4"]);
        assert_eq!((metadata.tagged("latest"), metadata.tagged("next")), (Some("2"), None));
        assert!(Metadata::parse("\"not a package\"").is_err());
    }
}
