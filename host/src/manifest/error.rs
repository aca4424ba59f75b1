//! Errors in a manifest. The texts are for its author.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("cannot read the manifest {path}: {source}; name one with --manifest")]
    Unreadable { path: PathBuf, source: io::Error },
    /// The reason names the key, its value and the remedy.
    #[error("the manifest {path} cannot be used: {reason}")]
    Invalid { path: PathBuf, reason: String },
}

impl ManifestError {
    pub(super) fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), source }
    }

    pub(super) fn invalid(path: &Path, reason: String) -> Self {
        Self::Invalid { path: path.to_owned(), reason: reason.trim_end().to_owned() }
    }
}
