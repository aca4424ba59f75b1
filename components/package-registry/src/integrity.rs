//! The digests and the length of a package file: computed here, and compared with the publisher's declarations. Only
//! computed values are served.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use std::fmt;

/// Computes the digests of a file that arrives in pieces.
pub struct Hasher {
    sha512: Sha512,
    sha1: Sha1,
    weaker: Option<Box<(Sha384, Sha256)>>,
    length: u64,
}

impl Hasher {
    /// `weaker`: compute SHA-384 and SHA-256 as well, for a declaration that has nothing stronger. They
    /// make hashing about twice as slow.
    pub fn new(weaker: bool) -> Self {
        let weaker = weaker.then(|| Box::new((Sha384::new(), Sha256::new())));
        Hasher { sha512: Sha512::new(), sha1: Sha1::new(), weaker, length: 0 }
    }

    pub fn update(&mut self, piece: &[u8]) {
        self.sha512.update(piece);
        self.sha1.update(piece);
        if let Some(weaker) = &mut self.weaker {
            weaker.0.update(piece);
            weaker.1.update(piece);
        }
        self.length += piece.len() as u64;
    }

    pub fn finish(self) -> ComputedDigests {
        let weaker = self.weaker.map(|weaker| (weaker.0.finalize().into(), weaker.1.finalize().into()));
        ComputedDigests {
            integrity: Integrity { sha512: self.sha512.finalize().into(), sha1: self.sha1.finalize().into() },
            weaker,
            length: self.length,
        }
    }
}

/// The digests that metadata lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integrity {
    sha512: [u8; 64],
    sha1: [u8; 20],
}

impl Integrity {
    /// The digests of `bytes`.
    #[cfg(test)]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(false);
        hasher.update(bytes);
        hasher.finish().integrity
    }

    /// Reads the texts of [`Integrity::sri`] and [`Integrity::shasum`].
    pub fn read(sri: &str, shasum: &str) -> Option<Self> {
        let sha512 = STANDARD.decode(sri.strip_prefix("sha512-")?).ok()?.try_into().ok()?;
        let mut sha1 = [0; 20];
        hex::decode_to_slice(shasum, &mut sha1).ok()?;
        let integrity = Integrity { sha512, sha1 };
        // The registry writes lower-case digits, so capital digits are damage.
        (integrity.shasum() == shasum).then_some(integrity)
    }

    /// `sha512-` and base64: the subresource integrity form of `dist.integrity`.
    pub fn sri(&self) -> String {
        format!("sha512-{}", STANDARD.encode(self.sha512))
    }

    /// The SHA-1 in lower-case hexadecimal: `dist.shasum`.
    pub fn shasum(&self) -> String {
        hex::encode(self.sha1)
    }

    /// The SHA-512 in lower-case hexadecimal, as attestations have it.
    pub fn sha512_hex(&self) -> String {
        hex::encode(self.sha512)
    }
}

/// The digests and the length, in bytes, of one file.
pub struct ComputedDigests {
    pub integrity: Integrity,
    weaker: Option<([u8; 48], [u8; 32])>,
    pub length: u64,
}

/// The digests and the length that a publisher declares; each may be absent.
#[derive(Debug, Default)]
pub struct DeclaredDigests {
    /// `dist.integrity`: hashes separated by white space, `<algorithm>-<base64>[?options]`.
    pub integrity: Option<String>,
    /// `dist.shasum`: SHA-1 in hexadecimal.
    pub shasum: Option<String>,
    /// `_attachments.<file>.length`: bytes.
    pub length: Option<u64>,
}

/// Why a declaration does not match the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The algorithm of the strongest hash that was declared.
    Integrity(Algorithm),
    /// `dist.integrity` has no hash of a known algorithm.
    Unverifiable,
    Shasum,
    /// The declared and the received length, in bytes.
    Length(u64, u64),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Mismatch::Integrity(algorithm) => {
                write!(f, "dist.integrity does not match the attachment: its {} differs", algorithm.name())
            }
            Mismatch::Unverifiable => f.write_str("dist.integrity has no sha512 hash"),
            Mismatch::Shasum => f.write_str("dist.shasum does not match the attachment"),
            Mismatch::Length(declared, received) => {
                write!(f, "attachment has {received} bytes, but its length is declared as {declared}")
            }
        }
    }
}

/// Hash algorithms of subresource integrity, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Algorithm {
    const ALL: [Algorithm; 4] = [Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha384, Algorithm::Sha512];

    fn name(self) -> &'static str {
        match self {
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha384 => "sha384",
            Algorithm::Sha512 => "sha512",
        }
    }
}

impl ComputedDigests {
    fn digest(&self, algorithm: Algorithm) -> Option<&[u8]> {
        match algorithm {
            Algorithm::Sha1 => Some(&self.integrity.sha1),
            Algorithm::Sha256 => self.weaker.as_ref().map(|weaker| &weaker.1[..]),
            Algorithm::Sha384 => self.weaker.as_ref().map(|weaker| &weaker.0[..]),
            Algorithm::Sha512 => Some(&self.integrity.sha512),
        }
    }

    /// Compares the declared values with the computed ones. Of several hashes the strongest known
    /// algorithm counts, and one hash of it must match
    /// (<https://www.w3.org/TR/SRI/#does-response-match-metadatalist>).
    pub fn verify(&self, declared: &DeclaredDigests) -> Result<(), Mismatch> {
        if let Some(length) = declared.length
            && length != self.length
        {
            return Err(Mismatch::Length(length, self.length));
        }
        if let Some(integrity) = declared.integrity.as_deref().filter(|text| !text.trim().is_empty()) {
            self.verify_integrity(integrity)?;
        }
        match &declared.shasum {
            Some(shasum) if !shasum.eq_ignore_ascii_case(&self.integrity.shasum()) => Err(Mismatch::Shasum),
            _ => Ok(()),
        }
    }

    fn verify_integrity(&self, declared: &str) -> Result<(), Mismatch> {
        let hashes = declared.split_ascii_whitespace().filter_map(|hash| {
            let (name, value) = hash.split_once('-')?;
            let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)?;
            Some((algorithm, value.split_once('?').map_or(value, |(value, _)| value)))
        });
        let hashes: Vec<_> = hashes.collect();
        let strongest = hashes.iter().map(|(algorithm, _)| *algorithm).max().ok_or(Mismatch::Unverifiable)?;
        let digest = STANDARD.encode(self.digest(strongest).ok_or(Mismatch::Unverifiable)?);
        let matches = hashes.iter().any(|(algorithm, value)| *algorithm == strongest && *value == digest);
        if matches { Ok(()) } else { Err(Mismatch::Integrity(strongest)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // `printf hello | sha512sum`, and so on, of coreutils.
    const SHA512: &str =
        "sha512-m3HSJL1i83hdltRq0+o9czGb+8KJDKra4t/3JRlnPKcjI8PZm6XBHXx6zG4UuMXaDEZjR1wuXDre9G9zvN7AQw==";
    const SHA384: &str = "sha384-WeF0h3dEjGnea4ANejO7+5/xtGPkQ1TDVTvNucZm+pASWjx5+QOXvfX2oT3oKGhP";
    const SHA256: &str = "sha256-LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=";
    const SHA1: &str = "sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00=";
    const SHASUM: &str = "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d";

    fn computed(weaker: bool) -> ComputedDigests {
        let mut hasher = Hasher::new(weaker);
        hasher.update(b"he");
        hasher.update(b"llo");
        hasher.finish()
    }

    fn verify(integrity: &str, shasum: &str, length: u64) -> Result<(), Mismatch> {
        let declared =
            DeclaredDigests { integrity: Some(integrity.into()), shasum: Some(shasum.into()), length: Some(length) };
        computed(true).verify(&declared)
    }

    #[test]
    fn computes_digests_and_length() {
        let computed = computed(false);
        assert_eq!((computed.integrity.sri().as_str(), computed.length), (SHA512, 5));
        assert_eq!(computed.integrity.shasum(), SHASUM);
        assert_eq!(Integrity::read(SHA512, SHASUM), Some(computed.integrity));
        assert_eq!(Integrity::of(b"hello"), computed.integrity);
    }

    #[test]
    fn every_algorithm_is_verified() {
        for hash in [SHA512, SHA384, SHA256, SHA1] {
            assert_eq!(verify(hash, SHASUM, 5), Ok(()), "{hash}");
            assert_eq!(verify(&format!("{hash}?foo=bar"), SHASUM, 5), Ok(()), "{hash} with options");
            let wrong = hash.replace('=', "").replacen('-', "-A", 1);
            assert!(matches!(verify(&wrong, SHASUM, 5), Err(Mismatch::Integrity(_))), "{hash}");
        }
    }

    #[test]
    fn the_strongest_algorithm_counts() {
        assert_eq!(verify(&format!("sha1-AAAA {SHA512}"), SHASUM, 5), Ok(()));
        assert_eq!(verify(&format!("{SHA1} sha512-AAAA"), SHASUM, 5), Err(Mismatch::Integrity(Algorithm::Sha512)));
        assert_eq!(verify(&format!("sha512-AAAA\t{SHA512}"), SHASUM, 5), Ok(()));
        assert_eq!(verify(&format!("md5-AAAA {SHA1}"), SHASUM, 5), Ok(()));
    }

    #[test]
    fn a_declaration_that_cannot_be_verified_is_an_error() {
        for text in ["md5-AAAA", "sha512", "hello", "SHA512-AAAA"] {
            assert_eq!(verify(text, SHASUM, 5), Err(Mismatch::Unverifiable), "{text}");
        }
        let declared = DeclaredDigests { integrity: Some(SHA256.into()), ..DeclaredDigests::default() };
        assert_eq!(computed(false).verify(&declared), Err(Mismatch::Unverifiable));
    }

    #[test]
    fn length_and_shasum_are_verified() {
        assert_eq!(verify(SHA512, SHASUM, 6), Err(Mismatch::Length(6, 5)));
        assert_eq!(verify(SHA512, &SHASUM.replace('a', "b"), 5), Err(Mismatch::Shasum));
        assert_eq!(verify(SHA512, "", 5), Err(Mismatch::Shasum));
        assert_eq!(verify(SHA512, &SHASUM.to_uppercase(), 5), Ok(()));
    }

    #[test]
    fn absent_declarations_are_not_verified() {
        assert_eq!(computed(false).verify(&DeclaredDigests::default()), Ok(()));
        assert_eq!(verify("", SHASUM, 5), Ok(()));
    }

    #[test]
    fn malformed_digests_are_not_read() {
        for (sri, shasum) in [
            (SHA1, SHASUM),
            (SHA512, ""),
            ("sha512-AAAA", SHASUM),
            (SHA512, &"+1".repeat(20)),
            (SHA512, &SHASUM.to_uppercase()),
            (SHA512, &"é".repeat(20)),
        ] {
            assert_eq!(Integrity::read(sri, shasum), None, "{sri} {shasum}");
        }
    }
}
