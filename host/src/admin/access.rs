//! Who may use the admin listener: who has the token. A program on the same machine finds
//! address and token in the data folder, in a file that only the host's own user can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The file in the data folder.
const FILE_NAME: &str = "admin.json";

/// Where a running host's admin listener is, and what it asks for.
#[derive(Clone, Serialize, Deserialize)]
pub struct Access {
    /// For example `http://127.0.0.1:40123`.
    pub url: String,
    pub token: String,
}

/// Why a running host was not found.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("no host is running on the data folder {0}; start one with `hexad up`, or name another folder with --data")]
    NotRunning(PathBuf),
    #[error("cannot read {path}: {source}; it belongs to the user who runs the host")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path} is not what a host writes: {source}")]
    Invalid { path: PathBuf, source: serde_json::Error },
}

impl Access {
    /// Finds the host that runs on a data folder.
    pub fn find(data: &Path) -> Result<Self, AccessError> {
        let path = data.join(FILE_NAME);
        let bytes = fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => AccessError::NotRunning(data.to_owned()),
            _ => AccessError::Unreadable { path: path.clone(), source },
        })?;
        serde_json::from_slice(&bytes).map_err(|source| AccessError::Invalid { path, source })
    }

    /// Tells others; until [`Announced`] is dropped.
    pub fn announce(&self, data: &Path) -> io::Result<Announced> {
        let path = data.join(FILE_NAME);
        let unfinished = data.join(format!("{FILE_NAME}.new"));
        // A file that is there may have another mode.
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&unfinished)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        drop(file);
        fs::rename(unfinished, &path)?;
        Ok(Announced(path))
    }
}

/// The announcement; dropping it takes it back.
pub struct Announced(PathBuf);

impl Drop for Announced {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "cannot be removed");
        }
    }
}

/// The token, as the listener keeps it.
pub struct Guard([u8; 32]);

impl Guard {
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Whether an `Authorization` header has the token. The digests are compared, so that the
    /// time it takes says nothing about the token.
    pub fn admits(&self, authorization: Option<&http::HeaderValue>) -> bool {
        let token = authorization.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        token.is_some_and(|token| <[u8; 32]>::from(Sha256::digest(token.trim())) == self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_announcement_is_private_and_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let access = Access { url: "http://h".into(), token: "t".to_owned() };
        let announced = access.announce(folder.path()).unwrap();
        let mode = fs::metadata(folder.path().join(FILE_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(Access::find(folder.path()).unwrap().token, access.token);
        drop(announced);
        let error = Access::find(folder.path()).err().unwrap().to_string();
        assert!(error.starts_with("no host is running"), "{error}");
    }

    #[test]
    fn only_the_token_opens() {
        let guard = Guard::new("secret");
        let admits = |value: &str| guard.admits(Some(&value.parse().unwrap()));
        assert!(admits("Bearer secret"));
        assert!(!admits("Bearer secre") && !admits("secret") && !admits("Bearer ") && !admits("Basic secret"));
        assert!(!guard.admits(None));
    }
}
