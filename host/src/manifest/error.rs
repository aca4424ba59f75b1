//! Errors in a manifest. The texts are for its author.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("cannot read the manifest {path}: {source}; name one with --manifest")]
    Unreadable { path: PathBuf, source: io::Error },
    /// Each reason names the key, its value and the remedy.
    #[error("the manifest {path} cannot be used: {}", reasons.join("; "))]
    Invalid { path: PathBuf, reasons: Vec<String> },
}

impl ManifestError {
    pub(super) fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), source }
    }

    pub(super) fn invalid(path: &Path, reasons: Vec<String>) -> Self {
        let reasons = reasons.into_iter().map(|reason| reason.trim_end().to_owned()).collect();
        Self::Invalid { path: path.to_owned(), reasons }
    }
}

/// Why a manifest cannot be used, as far as it was read.
#[derive(Default)]
pub(super) struct Problems(Vec<String>);

impl Problems {
    pub fn add(&mut self, reason: String) {
        self.0.push(reason);
    }

    /// The value; `None`, and one more problem, if there is none.
    pub fn keep<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|reason| self.add(reason)).ok()
    }

    /// An error if there is a problem.
    pub fn check(&self, path: &Path) -> Result<(), ManifestError> {
        if self.0.is_empty() { Ok(()) } else { Err(ManifestError::invalid(path, self.0.clone())) }
    }
}
