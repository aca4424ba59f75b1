//! The time in which clients accept a certificate.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, Error, KeyUsage};

/// How many names of a certificate the log and the status show.
const MAX_NAMES: usize = 4;

/// When a certificate is valid, both bounds included, and for which names.
#[derive(Clone, Debug)]
pub struct CertificateValidity {
    not_before: UnixTime,
    pub not_after: UnixTime,
    names: String,
}

/// Why clients refuse a certificate at some time.
#[derive(Debug, PartialEq, Eq)]
pub enum Invalidity {
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
