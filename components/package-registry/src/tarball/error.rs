//! Errors of the inspection.

use std::{error, fmt};

/// Largest `package.json`, in bytes: the reference service's limit.
pub const MAX_MANIFEST: u64 = 4 << 20;

/// The limits of a file.
#[derive(Debug, Clone, Copy)]
pub struct TarballLimits {
    /// Its unpacked size, in bytes.
    pub unpacked: u64,
    pub entries: u32,
}

/// Why a file is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TarballError {
    /// The decoder's words.
    Gzip(String),
    /// The problem of the archive as a whole.
    Archive(&'static str),
    /// The entry's name, and its problem.
    Entry(String, &'static str),
    /// The limit.
    TooManyEntries(u32),
    /// The limit in bytes.
    UnpackedTooLarge(u64),
    ManifestMissing,
    /// Its size in bytes.
    ManifestTooLarge(u64),
    ManifestUnreadable,
    /// The member of `package.json` that occurs twice, or is nested deeper than the parser reads.
    ManifestAmbiguous(String),
    /// `package.json` has a member `__proto__`.
    ManifestPrototype,
    /// The name and version in `package.json`, and the expected name and version.
    Incoherent(String, String),
}

impl fmt::Display for TarballError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            TarballError::Gzip(why) => write!(f, "Attachment is not a gzip file: {why}"),
            TarballError::Archive(why) => write!(f, "Attachment is not a tar archive: {why}"),
            TarballError::Entry(name, why) => write!(f, "Attachment has an entry `{name}` that {why}"),
            TarballError::TooManyEntries(limit) => write!(f, "Attachment has more than {limit} entries"),
            TarballError::UnpackedTooLarge(limit) => write!(f, "Attachment unpacks to more than {limit} bytes"),
            TarballError::ManifestMissing => f.write_str("package.json not found"),
            TarballError::ManifestTooLarge(size) => {
                write!(f, "package.json is too large. Maximum size is {MAX_MANIFEST} bytes, this one has {size}")
            }
            TarballError::ManifestUnreadable => f.write_str("package.json is not a JSON object"),
            TarballError::ManifestAmbiguous(name) => {
                write!(f, "package.json in the attachment has `{name}` twice with different values, or nested too deep")
            }
            TarballError::ManifestPrototype => f.write_str(
                "package.json in the attachment has a member `__proto__`, whose members some programs take for its own",
            ),
            TarballError::Incoherent(found, expected) => write!(
                f,
                "Package manifest is not coherent: package.json in the attachment has {found}, published is {expected}"
            ),
        }
    }
}

impl error::Error for TarballError {}

/// The first 200 characters of a text from the client, for an error.
pub fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(200).collect()
}
