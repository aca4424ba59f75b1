//! TLS of outbound connections: which certificate authorities the host trusts.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use crate::bounded_file;
use crate::pem;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read certificates from {path}: {source}; name a file of certificates in PEM with --outbound-ca")]
    Authority { path: PathBuf, source: io::Error },
    #[error("cannot set up TLS for outbound requests: {0}")]
    Protocol(rustls::Error),
}

/// The largest file of authorities, in bytes. A system's file has a quarter of a megabyte.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// TLS settings of all outbound connections. The host trusts the system's certificate authorities (of `SSL_CERT_FILE`
/// and `SSL_CERT_DIR`, if set) and the ones in the PEM file `authority`.
pub fn client_config(authority: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    for error in &native.errors {
        tracing::warn!(%error, "some of the system's certificate authorities cannot be read");
    }
    roots.add_parsable_certificates(native.certs);
    if let Some(path) = authority {
        let authority_error = |source| TlsError::Authority { path: path.to_owned(), source };
        let content = bounded_file::read(path, MAX_BYTES).map_err(authority_error)?;
        let certificates = pem::certificates(&content).map_err(|error| authority_error(io::Error::other(error)))?;
        for certificate in certificates {
            roots.add(certificate).map_err(|error| authority_error(io::Error::other(error)))?;
        }
    }
    if roots.is_empty() {
        tracing::warn!("no certificate authority is known; outbound requests with TLS will fail");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Protocol)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
