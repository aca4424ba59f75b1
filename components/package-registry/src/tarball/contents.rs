//! The contents of an archive.

use super::error::TarballError;
use super::package_json::PackageJson;

/// The contents of an accepted archive.
#[derive(Debug, PartialEq, Eq)]
pub struct Contents {
    /// `package.json` directly below the top-level folder.
    pub manifest: Option<Vec<u8>>,
    /// Whether there is a `binding.gyp`: installers compile the package.
    pub has_gyp_file: bool,
    /// Whether there is an `npm-shrinkwrap.json`, which fixes the packages that npm installs below this one.
    pub has_shrinkwrap: bool,
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
    /// Reads `package.json`.
    pub fn package_json(&self) -> Result<PackageJson<'_>, TarballError> {
        PackageJson::read(self.manifest.as_deref().ok_or(TarballError::ManifestMissing)?)
    }
}
