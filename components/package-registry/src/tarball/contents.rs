//! The contents of an archive, and the identity in its `package.json`.

use super::error::{TarballError, excerpt};
use crate::json;
use crate::name::PackageName;
use crate::version::Version;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The contents of an accepted archive.
#[derive(Debug, PartialEq, Eq)]
pub struct Contents {
    /// The last `package.json` directly below a top-level folder.
    manifest: Option<Vec<u8>>,
    pub totals: Totals,
}

/// Counts over the files of an archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub files: u64,
    /// Bytes.
    pub size: u64,
}

impl Contents {
    pub fn new(manifest: Option<Vec<u8>>, totals: Totals) -> Self {
        Contents { manifest, totals }
    }

    /// Checks that `package.json` names this package and version.
    pub fn verify(&self, name: &PackageName, version: &Version) -> Result<(), TarballError> {
        let text = std::str::from_utf8(self.manifest.as_deref().ok_or(TarballError::ManifestMissing)?);
        let text = text.map_err(|_| TarballError::ManifestUnreadable)?;
        let identity = PackageIdentity::read(text.strip_prefix('\u{feff}').unwrap_or(text))?;
        let its_name = identity.name.and_then(json::string);
        let its_version = identity.version.and_then(json::string);
        let is_name = its_name.is_some_and(|its| its.trim() == name.as_str());
        if is_name && its_version.is_some_and(|its| version.matches_manifest(&its)) {
            return Ok(());
        }
        let shown = |value: Option<&RawValue>| value.map_or("nothing".into(), |value| excerpt(value.get().as_bytes()));
        let found = format!("name {} and version {}", shown(identity.name), shown(identity.version));
        Err(TarballError::Incoherent(found, format!("{name}@{version}")))
    }
}

/// Name and version in `package.json`. Of two members of one name the last one counts, as in clients; a
/// derived deserializer would refuse them.
#[derive(Default)]
struct PackageIdentity<'a> {
    name: Option<&'a RawValue>,
    version: Option<&'a RawValue>,
}

impl<'a> PackageIdentity<'a> {
    fn read(text: &'a str) -> Result<Self, TarballError> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let identity = deserializer.deserialize_map(PackageIdentity::default());
        identity
            .and_then(|identity| deserializer.end().map(|()| identity))
            .map_err(|_| TarballError::ManifestUnreadable)
    }
}

impl<'de> Visitor<'de> for PackageIdentity<'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(name) = map.next_key::<std::borrow::Cow<str>>()? {
            match &*name {
                "name" => self.name = map.next_value()?,
                "version" => self.version = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(self)
    }
}
