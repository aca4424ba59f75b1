//! The certificates of a listener, which can be read again while it listens.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::bounded_file;

/// The largest file of certificates, and of a key, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// Certificates with their key, and the files that they were read from.
pub struct Certificates {
    chain: PathBuf,
    key: PathBuf,
    current: ArcSwap<ServerConfig>,
    failure: ArcSwapOption<ReloadFailure>,
}

/// Why the files could not be read when they last were, while older certificates stay in use.
#[derive(Debug)]
pub struct ReloadFailure {
    pub reason: String,
    pub at: SystemTime,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot read {path}: {source}; it must be in PEM, --tls-cert the certificates and --tls-key their key")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the certificates in {chain} and the key in {key} cannot be used: {source}")]
    Unusable { chain: PathBuf, key: PathBuf, source: rustls::Error },
}

impl Certificates {
    pub fn load(chain: PathBuf, key: PathBuf) -> Result<Self, CertificateError> {
        let current = ArcSwap::new(read(&chain, &key)?);
        Ok(Self { chain, key, current, failure: ArcSwapOption::empty() })
    }

    /// Reads the files again. If that fails, the certificates stay as they were.
    pub fn reload(&self) -> Result<(), CertificateError> {
        match read(&self.chain, &self.key) {
            Ok(config) => {
                self.current.store(config);
                self.failure.store(None);
                Ok(())
            }
            Err(error) => {
                let failure = ReloadFailure { reason: error.to_string(), at: SystemTime::now() };
                self.failure.store(Some(Arc::new(failure)));
                Err(error)
            }
        }
    }

    /// Why the certificates in use are not those of the files.
    pub fn failure(&self) -> Option<Arc<ReloadFailure>> {
        self.failure.load_full()
    }

    /// The configuration for the next handshake.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("chain", &self.chain).finish_non_exhaustive()
    }
}

fn read(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>, CertificateError> {
    let at =
        |path: &Path, error| CertificateError::Unreadable { path: path.to_owned(), source: io::Error::other(error) };
    let contents = |path: &Path| {
        let unreadable = |source| CertificateError::Unreadable { path: path.to_owned(), source };
        bounded_file::read(path, MAX_BYTES).map_err(unreadable)
    };
    let certificates = CertificateDer::pem_slice_iter(&contents(chain)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| at(chain, error))?;
    let private = PrivateKeyDer::from_pem_slice(&contents(key)?).map_err(|error| at(key, error))?;
    let unusable = |source| CertificateError::Unusable { chain: chain.to_owned(), key: key.to_owned(), source };
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(unusable)?;
    config.alpn_protocols = ["h2", "http/1.1", "http/1.0"].map(|name| name.as_bytes().to_vec()).into();
    Ok(Arc::new(config))
}
