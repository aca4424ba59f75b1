//! The certificates of a listener, which the host can reload while it listens.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::ServerConfig;
use rustls::pki_types::UnixTime;

use super::certificate_validity::CertificateValidity;
use crate::tls::{self, TlsError};

/// The name of HTTP/2 over TLS (RFC 9113, section 3.2).
pub const HTTP2: &[u8] = b"h2";

/// The advice to the operator about the files.
const FILES: &str = "--tls-cert names a file of certificates in PEM, --tls-key one of their key";

/// Certificates with their key, and the files that they were read from.
pub struct Certificates {
    chain: PathBuf,
    key: PathBuf,
    current: ArcSwap<Loaded>,
    failure: ArcSwapOption<ReloadFailure>,
}

/// The certificates in use.
struct Loaded {
    config: Arc<ServerConfig>,
    /// The validity of the first certificate, which is the listener's own.
    validity: Option<CertificateValidity>,
}

/// The certificates of a listener at one moment.
pub struct CertificateState {
    /// Why the last reload failed, if the certificates in use are not those of the files.
    pub failure: Option<Arc<ReloadFailure>>,
    /// Why clients refuse the listener's own certificate, if they do: a sentence for the operator.
    pub refusal: Option<String>,
    /// The last second in which the listener's own certificate is valid, since the Unix epoch.
    pub not_after: Option<u64>,
}

/// Why the last reload of the files failed. The older certificates stay in use.
#[derive(Debug)]
pub struct ReloadFailure {
    pub reason: String,
    pub at: SystemTime,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error(transparent)]
    File(#[from] TlsError),
    #[error("the certificates in {chain} and the key in {key} cannot be used: {}", in_words(source))]
    Unusable { chain: PathBuf, key: PathBuf, source: rustls::Error },
}

impl Certificates {
    pub fn load(chain: PathBuf, key: PathBuf) -> Result<Self, CertificateError> {
        let current = ArcSwap::from_pointee(read(&chain, &key)?);
        Ok(Self { chain, key, current, failure: ArcSwapOption::empty() })
    }

    /// Reads the files again. On an error, the certificates stay as they are.
    pub fn reload(&self) -> Result<(), CertificateError> {
        match read(&self.chain, &self.key) {
            Ok(loaded) => {
                self.current.store(Arc::new(loaded));
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

    pub fn state(&self) -> CertificateState {
        let validity = self.current.load().validity.clone();
        let not_after = validity.map(|validity| validity.not_after.as_secs());
        CertificateState { failure: self.failure.load_full(), refusal: self.refusal(), not_after }
    }

    /// Why clients refuse the certificate in use now, if they do: a sentence for the operator.
    pub fn refusal(&self) -> Option<String> {
        let current = self.current.load();
        let validity = current.validity.as_ref()?;
        let invalidity = validity.invalidity(UnixTime::now())?;
        let (path, names) = (self.chain.display(), validity.names());
        let names = if names.is_empty() { String::new() } else { format!(" for {names}") };
        Some(format!(
            "the certificate{names} in {path} {invalidity}, and clients refuse it; replace it, and send SIGHUP to the host"
        ))
    }

    /// The configuration for the next handshake.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.load().config.clone()
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("chain", &self.chain).finish_non_exhaustive()
    }
}

/// Why a server cannot use the certificates and the key, in words for the operator.
fn in_words(error: &rustls::Error) -> String {
    match error {
        // rustls returns this for a key that none of its algorithms can read.
        rustls::Error::General(_) => {
            "the key is damaged, or of a kind that is not supported; RSA of 2048 to 8192 bits, ECDSA with P-256 or P-384, and \
             Ed25519 are"
                .to_owned()
        }
        rustls::Error::InconsistentKeys(_) => "the key is not that of the first certificate".to_owned(),
        rustls::Error::InvalidCertificate(why) => format!("the first certificate is invalid: {why}"),
        other => other.to_string(),
    }
}

fn read(chain: &Path, key: &Path) -> Result<Loaded, CertificateError> {
    let certificates = tls::read_certificates(chain, FILES)?;
    let validity = certificates.first().and_then(CertificateValidity::of);
    let unusable = |source| CertificateError::Unusable { chain: chain.to_owned(), key: key.to_owned(), source };
    let mut config = tls::server(certificates, tls::read_private_key(key, FILES)?).map_err(unusable)?;
    config.alpn_protocols = [HTTP2, b"http/1.1", b"http/1.0"].map(<[u8]>::to_vec).into();
    Ok(Loaded { config: Arc::new(config), validity })
}
