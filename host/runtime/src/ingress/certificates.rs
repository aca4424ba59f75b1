//! The certificates of a listener, which the host can reload while it listens.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use hexad_support::tls::{self, TlsError};
use jiff::Timestamp;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, Error, KeyUsage};

/// The name of HTTP/2 over TLS (RFC 9113, section 3.2).
pub const HTTP2: &[u8] = b"h2";

/// The advice to the operator about the files.
const FILES: &str = "--tls-cert names a file of certificates in PEM, --tls-key one of their key";

/// How many names of a certificate the log and the status show.
const MAX_NAMES: usize = 4;

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

/// When a certificate is valid, both bounds included, and for which names.
#[derive(Clone, Debug)]
struct CertificateValidity {
    not_before: UnixTime,
    pub not_after: UnixTime,
    names: String,
}

/// Why clients refuse a certificate at some time.
#[derive(Debug, PartialEq, Eq)]
enum Invalidity {
    NotYet { not_before: UnixTime },
    Expired { not_after: UnixTime },
}

impl CertificateValidity {
    /// `None` if clients cannot read the certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = EndEntityCert::try_from(certificate).ok()?;
        // webpki gives these times in errors only, and checks them before it looks for an issuer.
        let error_at = |since_epoch| {
            let (time, usage) = (UnixTime::since_unix_epoch(since_epoch), KeyUsage::server_auth());
            certificate.verify_for_usage(&[], &[], &[], time, usage, None, None).err()
        };
        let not_before = match error_at(Duration::ZERO) {
            Some(Error::CertNotValidYet { not_before, .. }) => not_before,
            _ => UnixTime::since_unix_epoch(Duration::ZERO),
        };
        let Some(Error::CertExpired { not_after, .. }) = error_at(Duration::MAX) else { return None };
        let names: Vec<&str> = certificate.valid_dns_names().take(MAX_NAMES).collect();
        Some(Self { not_before, not_after, names: names.join(", ") })
    }

    /// Why the certificate is invalid at `now`; `None` if it is valid.
    pub fn invalidity(&self, now: UnixTime) -> Option<Invalidity> {
        let Self { not_before, not_after, .. } = *self;
        if now < not_before {
            return Some(Invalidity::NotYet { not_before });
        }
        (now > not_after).then_some(Invalidity::Expired { not_after })
    }

    /// The names in the certificate, separated by commas; empty if it is for addresses.
    pub fn names(&self) -> &str {
        &self.names
    }
}

impl fmt::Display for Invalidity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, time) = match self {
            Self::NotYet { not_before } => ("is not valid before", not_before),
            Self::Expired { not_after } => ("has expired at", not_after),
        };
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        write!(f, "{text} {}", Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn the_times_and_names_of_a_certificate_are_read() {
        // Self-signed certificates are often marked as an authority's, and webpki refuses to check those.
        for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
            let mut params = CertificateParams::new(["forge.example", "*.forge.example"].map(str::to_owned)).unwrap();
            (params.not_before, params.not_after) = (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 1, 1));
            params.is_ca = is_ca;
            let issued = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            let validity = CertificateValidity::of(issued.der()).unwrap();
            assert_eq!(validity.names(), "forge.example, *.forge.example");
            let (begin, end) = (1_546_300_800, 1_577_836_800);
            let text = |seconds| validity.invalidity(at(seconds)).map(|invalidity| invalidity.to_string());
            assert_eq!(text(begin - 1).unwrap(), "is not valid before 2019-01-01T00:00:00Z");
            assert_eq!((text(begin), text(end)), (None, None));
            assert_eq!(text(end + 1).unwrap(), "has expired at 2020-01-01T00:00:00Z");
        }
        assert!(CertificateValidity::of(&CertificateDer::from_slice(b"no certificate")).is_none());
    }
}
