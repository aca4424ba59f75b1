//! The token of the admin listener. A program on the same machine finds address and token in a file of
//! the data folder that only the host's user can read.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hexad_support::bounded_file;
use hexad_support::private_files;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::entry_page;

/// The file in the data folder.
const FILE_NAME: &str = "admin.json";

/// The largest file that is read, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// How long after a failure the host tries again to write it.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The address and the token of a running host's admin listener.
#[derive(Clone, Serialize, Deserialize)]
pub struct AdminAccess {
    /// For example `http://127.0.0.1:40123`.
    pub url: String,
    pub token: String,
}

/// Why a running host was not found.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error(
        "no host is running on the data folder {0}, or there is no room for its admin.json (then its log says so); \
         start one with `hexad up`, or name another folder with --data"
    )]
    NotRunning(PathBuf),
    #[error("cannot read {path}: {source}; it belongs to the user who runs the host")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path} is damaged: {source}; restart the host, which writes it again")]
    Invalid { path: PathBuf, source: serde_json::Error },
}

impl AdminAccess {
    /// Finds the host that runs on a data folder.
    pub fn find(data: &Path) -> Result<Self, AccessError> {
        let path = data.join(FILE_NAME);
        let bytes = bounded_file::read(&path, MAX_BYTES).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => AccessError::NotRunning(data.to_owned()),
            _ => AccessError::Unreadable { path: path.clone(), source },
        })?;
        serde_json::from_slice(&bytes).map_err(|source| AccessError::Invalid { path, source })
    }

    /// Writes the file. [`AccessFile`] removes it when it is dropped.
    pub fn publish(&self, data: &Path) -> io::Result<AccessFile> {
        // After a crash, the old file and page have the address and the token of a former listener. On a full disk, the
        // host can remove them, but not replace them.
        remove(data)?;
        private_files::replace(&data.join(FILE_NAME), &[&serde_json::to_vec(self)?])?;
        Ok(AccessFile { data: data.to_owned() })
    }
}

/// The file. Dropping it removes it, with the page that leads to the listener.
pub struct AccessFile {
    data: PathBuf,
}

impl Drop for AccessFile {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.data) {
            tracing::debug!(data = %self.data.display(), %error, "a file of the admin listener cannot be removed");
        }
    }
}

/// Removes the file and the page, if they exist.
fn remove(data: &Path) -> io::Result<()> {
    [FILE_NAME, entry_page::FILE_NAME].iter().try_for_each(|name| private_files::remove(&data.join(name)))
}

/// Writes the file, and tries again after a failure.
pub struct Publisher {
    access: AdminAccess,
    data: PathBuf,
    /// `None` until it is written.
    file: Option<AccessFile>,
}

impl Publisher {
    pub fn new(access: AdminAccess, data: &Path) -> Self {
        Self { access, data: data.to_owned(), file: None }
    }

    /// Writes the file, or logs why it cannot.
    pub fn publish(&mut self) {
        match self.access.publish(&self.data) {
            Ok(file) => self.file = Some(file),
            Err(error) => tracing::warn!(
                data = %self.data.display(), %error,
                "admin.json cannot be written: `hexad status` and `hexad swap` do not find this host until there is \
                 room in its folder"
            ),
        }
    }

    /// Tries again until the file is written, then keeps it until the future is dropped.
    pub async fn keep_trying(mut self) {
        while self.file.is_none() {
            tokio::time::sleep(RETRY_AFTER).await;
            if let Ok(file) = self.access.publish(&self.data) {
                tracing::info!(data = %self.data.display(), "admin.json is written now");
                self.file = Some(file);
            }
        }
        std::future::pending::<()>().await;
    }
}

/// Checks tokens. It keeps the digest of the right one.
pub struct TokenVerifier([u8; 32]);

impl TokenVerifier {
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Whether an `Authorization` header has the token. The duration of the comparison reveals nothing
    /// about the token, because digests are compared.
    pub fn accepts(&self, authorization: Option<&http::HeaderValue>) -> bool {
        let credentials = authorization.and_then(|value| value.to_str().ok()?.split_once(' '));
        // RFC 9110, section 11.1: the case of the scheme has no meaning.
        credentials.is_some_and(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && self.accepts_token(token))
    }

    /// Whether this is the token.
    pub fn accepts_token(&self, token: &str) -> bool {
        <[u8; 32]>::from(Sha256::digest(token.trim())) == self.0
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_access_file_is_private_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let access = AdminAccess { url: "http://h".into(), token: "t".to_owned() };
        let left = entry_page::write(folder.path(), "http://h/operator").unwrap();
        let file = access.publish(folder.path()).unwrap();
        assert!(!left.exists());
        entry_page::write(folder.path(), "http://h/operator").unwrap();
        let mode = fs::metadata(folder.path().join(FILE_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(AdminAccess::find(folder.path()).unwrap().token, access.token);
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let error = AdminAccess::find(folder.path()).err().unwrap().to_string();
        assert!(error.starts_with("no host is running"), "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_replaced_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let of_dead_host = AdminAccess { url: "http://h".into(), token: "t".to_owned() };
        std::mem::forget(of_dead_host.publish(folder.path()).unwrap());
        // The host cannot remove a folder in the place of the page.
        fs::create_dir(folder.path().join(entry_page::FILE_NAME)).unwrap();
        assert!(AdminAccess { url: "http://i".into(), token: "u".to_owned() }.publish(folder.path()).is_err());
        let error = AdminAccess::find(folder.path()).err().unwrap().to_string();
        assert!(error.starts_with("no host is running"), "{error}");
    }

    #[test]
    fn only_the_token_is_accepted() {
        let verifier = TokenVerifier::new("secret");
        let accepts = |value: &str| verifier.accepts(Some(&value.parse().unwrap()));
        assert!(accepts("Bearer secret") && accepts("bearer secret") && accepts("BEARER  secret"));
        assert!(
            !accepts("Bearersecret")
                && !accepts("Bearer")
                && !accepts("Bearer secre")
                && !accepts("secret")
                && !accepts("Bearer ")
                && !accepts("Basic secret")
        );
        assert!(!verifier.accepts(None));
    }
}
