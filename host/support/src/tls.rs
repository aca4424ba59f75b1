//! The settings of TLS, and the PEM files that an operator names for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::bounded_file;
use crate::pem;

/// The largest file, in bytes. A system's file of authorities has a quarter of a megabyte.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path} cannot be used: {reason}; {advice}")]
    File { path: PathBuf, reason: anyhow::Error, advice: &'static str },
    #[error("TLS cannot be set up: {0}")]
    Settings(#[from] rustls::Error),
}

/// Reads a file. `advice` ends its errors: which option names the file, and what the file must have.
pub fn read_certificates(path: &Path, advice: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    read(path, advice, |content| Ok(pem::certificates(content)?))
}

pub fn read_private_key(path: &Path, advice: &'static str) -> Result<PrivateKeyDer<'static>, TlsError> {
    read(path, advice, |content| Ok(pem::private_key(content)?))
}

/// As [`read_certificates`], and adds them to `roots`.
pub fn read_authorities(
    path: &Path,
    advice: &'static str,
    roots: &mut RootCertStore,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    read(path, advice, |content| {
        let certificates = pem::certificates(content)?;
        certificates.iter().try_for_each(|certificate| roots.add(certificate.clone()))?;
        Ok(certificates)
    })
}

fn read<T>(path: &Path, advice: &'static str, parse: impl FnOnce(&[u8]) -> anyhow::Result<T>) -> Result<T, TlsError> {
    let content = bounded_file::read(path, MAX_BYTES).map_err(anyhow::Error::from);
    let parsed = content.and_then(|content| parse(&content));
    parsed.map_err(|reason| TlsError::File { path: path.to_owned(), reason, advice })
}

/// The system's certificate authorities: of `SSL_CERT_FILE` and `SSL_CERT_DIR`, if set.
pub fn system_authorities() -> RootCertStore {
    let native = rustls_native_certs::load_native_certs();
    for error in &native.errors {
        tracing::warn!(%error, "some of the system's certificate authorities cannot be read");
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(native.certs);
    roots
}

/// Named here, because rustls panics without a choice if several are linked.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The settings of a client that trusts these authorities.
pub fn client(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// The settings of a listener with this certificate, its issuers, and its key.
pub fn server(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    config.with_no_client_auth().with_single_cert(certificates, key)
}
