//! What is inside a package's file: a gzipped tar archive, judged while it streams by.
//!
//! Installers unpack the archive with other programs than this one, so whatever two of them could
//! read in two ways is refused, and so is whatever could make one of them write elsewhere than into
//! the package's folder. Some clients pack links and some drop them, so those that stay inside are
//! allowed.

mod archive;

use crate::json;
use crate::name::PackageName;
use crate::version::Version;
use archive::Archive;
use flate2::write::MultiGzDecoder;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::io::{self, Write as _};
use std::{error, fmt};

/// Largest `package.json`, in bytes: the reference service's limit.
const MAX_MANIFEST: u64 = 4 << 20;

/// Most entries. The largest packages that people publish have some ten thousand files.
const MAX_ENTRIES: u32 = 100_000;

/// Why a file cannot be a package's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TarballError {
    /// The decoder's words.
    Gzip(String),
    /// What is wrong with the archive as a whole.
    Archive(&'static str),
    /// The entry's name, and what is wrong with it.
    Entry(String, &'static str),
    TooManyEntries,
    /// The limit in bytes.
    UnpackedTooLarge(u64),
    ManifestMissing,
    /// Its size in bytes.
    ManifestTooLarge(u64),
    ManifestUnreadable,
    /// Its name and version, as JSON, and what they should be.
    Incoherent(String, String),
}

impl fmt::Display for TarballError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            TarballError::Gzip(why) => write!(f, "Attachment is not a gzip file: {why}"),
            TarballError::Archive(why) => write!(f, "Attachment is not a tar archive: {why}"),
            TarballError::Entry(name, why) => write!(f, "Attachment has an entry `{name}` that {why}"),
            TarballError::TooManyEntries => write!(f, "Attachment has more than {MAX_ENTRIES} entries"),
            TarballError::UnpackedTooLarge(limit) => write!(f, "Attachment unpacks to more than {limit} bytes"),
            TarballError::ManifestMissing => f.write_str("package.json not found"),
            TarballError::ManifestTooLarge(size) => {
                write!(f, "package.json is too large. Maximum size is {MAX_MANIFEST} bytes, this one has {size}")
            }
            TarballError::ManifestUnreadable => f.write_str("package.json is not a JSON object"),
            TarballError::Incoherent(found, expected) => write!(
                f,
                "Package manifest is not coherent: package.json in the attachment has {found}, published is {expected}"
            ),
        }
    }
}

impl error::Error for TarballError {}

/// Looks into a file as it streams by. After the first error the rest is not unpacked.
pub struct TarballInspector(Result<MultiGzDecoder<Archive>, TarballError>);

impl TarballInspector {
    /// `limit`: bytes to which the file may unpack. Deflate expands a byte to at most 1032, so
    /// without a limit a publisher could keep a host busy for hours.
    pub fn new(limit: u64) -> Self {
        TarballInspector(Ok(MultiGzDecoder::new(Archive::new(limit))))
    }

    pub fn feed(&mut self, piece: &[u8]) {
        if let Ok(decoder) = &mut self.0
            && let Err(why) = decoder.write_all(piece)
        {
            self.0 = Err(tarball_error(why));
        }
    }

    /// The end of the file.
    pub fn finish(self) -> Result<Contents, TarballError> {
        self.0?.finish().map_err(tarball_error)?.finish()
    }
}

/// The error of the archive, or of the gzip decoder.
fn tarball_error(why: io::Error) -> TarballError {
    why.downcast::<TarballError>().unwrap_or_else(|why| TarballError::Gzip(why.to_string()))
}

/// What a sound archive holds.
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

    /// Whether `package.json` is of this package and version.
    pub fn verify(&self, name: &PackageName, version: &Version) -> Result<(), TarballError> {
        let text = std::str::from_utf8(self.manifest.as_deref().ok_or(TarballError::ManifestMissing)?);
        let text = text.map_err(|_| TarballError::ManifestUnreadable)?;
        let identity = Identity::read(text.strip_prefix('\u{feff}').unwrap_or(text))?;
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

/// As much of a hostile text as an error should repeat.
fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(200).collect()
}

/// The members of `package.json` that matter here. Of two with one name the last one counts, as
/// for the clients.
#[derive(Default)]
struct Identity<'a> {
    name: Option<&'a RawValue>,
    version: Option<&'a RawValue>,
}

impl<'a> Identity<'a> {
    fn read(text: &'a str) -> Result<Self, TarballError> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let identity = deserializer.deserialize_map(Identity::default());
        identity
            .and_then(|identity| deserializer.end().map(|()| identity))
            .map_err(|_| TarballError::ManifestUnreadable)
    }
}

impl<'de> Visitor<'de> for Identity<'de> {
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

#[cfg(test)]
pub mod tests;
