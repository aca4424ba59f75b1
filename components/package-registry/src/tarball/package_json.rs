//! The `package.json` in an archive.

use super::error::{TarballError, excerpt};
use crate::json;
use crate::name::PackageName;
use crate::version::Version;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The members of a `package.json`, in their order. A name may occur twice: some programs use the first
/// member of a name and some the last.
#[derive(Debug)]
pub struct PackageJson<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> PackageJson<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Self, TarballError> {
        let text = std::str::from_utf8(bytes).map_err(|_| TarballError::ManifestUnreadable)?;
        let mut deserializer = serde_json::Deserializer::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
        let members = deserializer.deserialize_map(MembersVisitor);
        members
            .and_then(|members| deserializer.end().map(|()| PackageJson(members)))
            .map_err(|_| TarballError::ManifestUnreadable)
    }

    /// The member of this name. Several different members are an error.
    pub fn get(&self, name: &str) -> Result<Option<&'a RawValue>, TarballError> {
        let mut members = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| *value);
        let first = members.next();
        match members.find(|other| first.is_some_and(|first| first.get() != other.get())) {
            Some(_) => Err(TarballError::ManifestAmbiguous(name.to_owned())),
            None => Ok(first),
        }
    }

    /// The last member of this name, which most programs use.
    pub fn last(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// Checks that it names this package and version, and has no `__proto__`, from which only some programs read
    /// fields.
    pub fn verify(&self, name: &PackageName, version: &Version) -> Result<(), TarballError> {
        if self.get("__proto__")?.is_some() {
            return Err(TarballError::ManifestPrototype);
        }
        let (found_name, found_version) = (self.get("name")?, self.get("version")?);
        let is_name = found_name.and_then(json::string).is_some_and(|its| its.trim() == name.as_str());
        if is_name && found_version.and_then(json::string).is_some_and(|its| version.matches_manifest(&its)) {
            return Ok(());
        }
        let shown = |value: Option<&RawValue>| value.map_or("nothing".into(), |value| excerpt(value.get().as_bytes()));
        let found = format!("name {} and version {}", shown(found_name), shown(found_version));
        Err(TarballError::Incoherent(found, format!("{name}@{version}")))
    }
}

// Not derived, because a derived deserializer refuses duplicate members, even if no installer reads them.
struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<json::Name>()? {
            members.push((name.0, map.next_value()?));
        }
        Ok(members)
    }
}
