//! Certificates and keys in PEM (RFC 7468), and the defects of a file in words for its owner.

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why a file has no certificates or no key. Each text is a part of a sentence about the file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PemError {
    #[error("it is not in PEM, in which a line says -----BEGIN")]
    NotPem,
    #[error("it has no certificate: no line begins with -----BEGIN CERTIFICATE")]
    NoCertificate,
    #[error("it has no private key: no line begins with -----BEGIN PRIVATE KEY or the like")]
    NoKey,
    #[error("its key is encrypted; `openssl pkey -in FILE -out NEW-FILE` writes it without a passphrase")]
    Encrypted,
    #[error("it is cut off: a section has no end")]
    CutOff,
    /// A text of the host, because the library's texts quote the file.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

/// All certificates, at least one.
pub fn certificates(content: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let content = without_mark(content);
    let certificates = CertificateDer::pem_slice_iter(content).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| described(error, content, PemError::NoCertificate))?;
    match certificates.is_empty() {
        true => Err(described(pem::Error::NoItemsFound, content, PemError::NoCertificate)),
        false => Ok(certificates),
    }
}

/// The first private key.
pub fn private_key(content: &[u8]) -> Result<PrivateKeyDer<'static>, PemError> {
    let content = without_mark(content);
    let key = PrivateKeyDer::from_pem_slice(content);
    key.map_err(|error| match contains(content, "ENCRYPTED") {
        // The word is in the first line of a PKCS #8 section, or in a field of a section of the older form.
        true => PemError::Encrypted,
        false => described(error, content, PemError::NoKey),
    })
}

fn described(error: pem::Error, content: &[u8], missing: PemError) -> PemError {
    match error {
        pem::Error::NoItemsFound if contains(content, "-----BEGIN") => missing,
        pem::Error::NoItemsFound => PemError::NotPem,
        // The library's text of these errors quotes the file, which may be a key.
        pem::Error::MissingSectionEnd { end_marker } if contains(&end_marker, "-----") => {
            PemError::Damaged("a line goes on after -----BEGIN and its section's name, as if line breaks were lost")
        }
        pem::Error::MissingSectionEnd { .. } => PemError::CutOff,
        pem::Error::IllegalSectionStart { .. } => PemError::Damaged("a line -----BEGIN is cut off"),
        pem::Error::Base64Decode(_) => PemError::Damaged("a section is not base64"),
        _ => PemError::Damaged("a section cannot be read"),
    }
}

/// Some editors write a byte order mark before the first line.
fn without_mark(content: &[u8]) -> &[u8] {
    content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content)
}

fn contains(content: &[u8], text: &str) -> bool {
    content.windows(text.len()).any(|window| window == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(name: &str, content: &str) -> String {
        format!("-----BEGIN {name}-----\n{content}\n-----END {name}-----\n")
    }

    #[test]
    fn a_file_without_certificates_says_why() {
        let of = |content: &str| certificates(content.as_bytes()).expect_err("no certificates");
        assert_eq!(of(""), PemError::NotPem);
        assert_eq!(of("\u{30}\u{82}"), PemError::NotPem);
        assert_eq!(of(&section("PRIVATE KEY", "AAAA")), PemError::NoCertificate);
        assert_eq!(of("-----BEGIN CERTIFICATE-----\nAAAA\n"), PemError::CutOff);
        assert_eq!(of(&section("CERTIFICATE", "!!!!")), PemError::Damaged("a section is not base64"));
        assert_eq!(of("-----BEGIN CERTIF\nAAAA\n"), PemError::Damaged("a line -----BEGIN is cut off"));
        let two = section("CERTIFICATE", "AAAA").repeat(2);
        assert_eq!(certificates(two.as_bytes()).map(|found| found.len()), Ok(2));
        assert_eq!(certificates(format!("\u{feff}{two}").as_bytes()).map(|found| found.len()), Ok(2));
    }

    #[test]
    fn a_file_without_a_key_says_why() {
        let of = |content: &str| private_key(content.as_bytes()).expect_err("no key");
        assert_eq!(of(""), PemError::NotPem);
        assert_eq!(of(&section("CERTIFICATE", "AAAA")), PemError::NoKey);
        assert_eq!(of(&section("ENCRYPTED PRIVATE KEY", "AAAA")), PemError::Encrypted);
        let older = section("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA");
        assert_eq!(of(&older), PemError::Encrypted);
        for lost in ["", " ", "\\n"] {
            let problem = of(&section("PRIVATE KEY", "MIIEsecret").replace('\n', lost)).to_string();
            assert!(problem.contains("it is damaged: a line ") && !problem.contains("secret"), "{problem}");
        }
        assert_eq!(of("-----BEGIN PRIVATE KEY-----\nAAAA\n"), PemError::CutOff);
    }
}
