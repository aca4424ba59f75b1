//! The operator's policy of trusted components: listed digests, and components that a trusted key has signed. Without a
//! list and without keys, the host trusts all components.
//!
//! The host reads the files for every decision, so that a change applies immediately. A file that cannot be read or
//! parsed trusts nothing.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use ed25519_dalek::pkcs8::{DecodePublicKey, spki};
use ed25519_dalek::{SIGNATURE_LENGTH, VerifyingKey};
use hexad_support::bounded_file;
use hexad_support::digest::Digest;

/// The extension of signature files: `a.wasm.sig` has the signature of `a.wasm`.
const EXTENSION: &str = "sig";

/// The largest list of digests, and the largest key, in bytes.
const MAX_LIST: usize = 16 * 1024 * 1024;

/// The largest file of a signature that is read, in bytes.
const MAX_SIGNATURE_FILE: usize = 64 * 1024;

/// The policy, which the host applies before it compiles a component.
#[derive(Clone, Debug, Default)]
pub struct TrustPolicy {
    /// A file with a SHA-256 per line; text after a space or `#` is a comment.
    pub digests: Option<PathBuf>,
    /// Files with one Ed25519 public key each, PEM (SPKI).
    pub keys: Vec<PathBuf>,
}

/// An Ed25519 signature over the bytes of a component's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature([u8; SIGNATURE_LENGTH]);

/// A file of the policy, or a signature file, that the host cannot use.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("cannot read {path}: {source}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{path}, line {line}: {reason}")]
    Digest { path: PathBuf, line: usize, reason: String },
    #[error("{path} is not the public key of an Ed25519 pair in PEM: {source}")]
    Key { path: PathBuf, source: spki::Error },
    #[error("{path} is no signature: {reason}")]
    Signature { path: PathBuf, reason: String },
}

/// Why a component is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    #[error("its digest {digest} is not listed{and}")]
    NotListed { digest: Digest, and: &'static str },
    #[error("its signature is not that of a trusted key over these bytes (digest {digest})")]
    Forged { digest: Digest },
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl Untrusted {
    /// Whether the policy could be read, and does not admit the component.
    pub fn is_withdrawn(&self) -> bool {
        !matches!(self, Self::Policy(_))
    }
}

/// The reason for trusting a component, for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// No policy exists.
    NoPolicy,
    Listed,
    /// The key in this file has signed it.
    Signed(PathBuf),
}

impl Trust {
    /// For the audit log; `None` without a policy.
    pub fn for_audit(&self) -> Option<String> {
        (*self != Self::NoPolicy).then(|| self.to_string())
    }
}

impl TrustPolicy {
    /// Whether there is a list or a key.
    pub fn is_set(&self) -> bool {
        self.digests.is_some() || !self.keys.is_empty()
    }

    /// Reads all files once, so that a mistake in them is found at the start.
    pub fn check(&self) -> Result<(), PolicyError> {
        self.digests.iter().chain(&self.keys).try_for_each(|path| check_name(path))?;
        if let Some(path) = &self.digests {
            listed(path)?;
        }
        self.keys.iter().try_for_each(|path| key(path).map(drop))
    }

    pub fn admit(&self, wasm: &[u8], digest: &Digest, signature: Option<&Signature>) -> Result<Trust, Untrusted> {
        if !self.is_set() {
            return Ok(Trust::NoPolicy);
        }
        if let Some(path) = &self.digests
            && listed(path)?.contains(digest)
        {
            return Ok(Trust::Listed);
        }
        let Some(signature) = signature.filter(|_| !self.keys.is_empty()) else {
            let and = if self.keys.is_empty() { "" } else { ", and it comes without a signature" };
            return Err(Untrusted::NotListed { digest: *digest, and });
        };
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        for path in &self.keys {
            // Strict verification rejects weak keys and malleable signatures.
            if key(path)?.verify_strict(wasm, &signature).is_ok() {
                return Ok(Trust::Signed(path.clone()));
            }
        }
        Err(Untrusted::Forged { digest: *digest })
    }
}

fn listed(path: &Path) -> Result<Vec<Digest>, PolicyError> {
    let mut digests = Vec::new();
    for (index, line) in read_text(path)?.lines().enumerate() {
        let line = line.split_once('#').map_or(line, |(line, _)| line);
        // The host accepts the format of `sha256sum`: the file's name follows.
        let Some(word) = line.split_whitespace().next() else { continue };
        let digest = word.to_lowercase().parse();
        digests.push(digest.map_err(|reason| PolicyError::Digest { path: path.into(), line: index + 1, reason })?);
    }
    Ok(digests)
}

fn key(path: &Path) -> Result<VerifyingKey, PolicyError> {
    let text = read_text(path)?;
    VerifyingKey::from_public_key_pem(&text).map_err(|source| PolicyError::Key { path: path.into(), source })
}

fn read_text(path: &Path) -> Result<String, PolicyError> {
    bounded_file::read_text(path, MAX_LIST).map_err(|source| PolicyError::Unreadable { path: path.into(), source })
}

/// Refuses an anonymous pipe, as a shell makes it of `<(...)`: its content can be read only once.
fn check_name(path: &Path) -> Result<(), PolicyError> {
    let is_there = std::fs::metadata(path).is_ok();
    match std::fs::canonicalize(path) {
        Err(_) if is_there => {
            let source = std::io::Error::other("it is read for every decision, and must be a file with a name");
            Err(PolicyError::Unreadable { path: path.into(), source })
        }
        _ => Ok(()),
    }
}

impl Signature {
    /// The path of the signature of the file at `path`: `a.wasm.sig` beside `a.wasm`.
    pub fn beside(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(EXTENSION);
        name.into()
    }

    /// Reads a signature file: 64 bytes, or base64. `None` if there is no such file.
    pub fn read(path: &Path) -> Result<Option<Self>, PolicyError> {
        let bytes = match bounded_file::read(path, MAX_SIGNATURE_FILE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(PolicyError::Unreadable { path: path.into(), source }),
        };
        if let Ok(raw) = <[u8; SIGNATURE_LENGTH]>::try_from(&*bytes) {
            return Ok(Some(Self(raw)));
        }
        let text = String::from_utf8_lossy(&bytes).parse();
        text.map(Some).map_err(|reason| PolicyError::Signature { path: path.into(), reason })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The inverse of [`as_bytes`](Self::as_bytes).
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

/// From base64. The error is a sentence.
impl FromStr for Signature {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text: String = text.split_whitespace().collect();
        let signature = BASE64_STANDARD.decode(text).ok().and_then(|bytes| Self::from_bytes(&bytes));
        signature.ok_or_else(|| "it is neither 64 bytes nor their base64".to_owned())
    }
}

/// Base64, in one line.
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64_STANDARD.encode(self.0))
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPolicy => f.write_str("no policy"),
            Self::Listed => f.write_str("digest"),
            Self::Signed(path) => write!(f, "key {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    use ed25519_dalek::pkcs8::EncodePublicKey;
    use ed25519_dalek::pkcs8::spki::der::pem;
    use ed25519_dalek::{Signer, SigningKey};

    use super::*;

    /// A policy with a trusted key, and the key.
    fn trusting(folder: &Path) -> (TrustPolicy, SigningKey) {
        let signer = SigningKey::from_bytes(&[7; 32]);
        let path = folder.join("key.pem");
        fs::write(&path, signer.verifying_key().to_public_key_pem(pem::LineEnding::LF).unwrap()).unwrap();
        (TrustPolicy { digests: None, keys: vec![path] }, signer)
    }

    #[test]
    fn without_a_policy_everything_is_trusted() {
        assert_eq!(TrustPolicy::default().admit(b"x", &Digest::of(b"x"), None).unwrap(), Trust::NoPolicy);
    }

    #[test]
    fn a_listed_digest_is_trusted_as_soon_as_it_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("digests");
        let policy = TrustPolicy { digests: Some(path.clone()), keys: Vec::new() };
        let admitted = |wasm: &[u8]| policy.admit(wasm, &Digest::of(wasm), None);
        assert!(matches!(admitted(b"x"), Err(Untrusted::Policy(PolicyError::Unreadable { .. }))));
        fs::write(&path, format!("# ours\n\n{}  x.wasm\n", Digest::of(b"x").to_string().to_uppercase())).unwrap();
        assert_eq!(admitted(b"x").unwrap(), Trust::Listed);
        let error = admitted(b"y").unwrap_err().to_string();
        // Without a trusted key, a signature has no effect.
        let signature = Signature([0; SIGNATURE_LENGTH]);
        let signed = policy.admit(b"y", &Digest::of(b"y"), Some(&signature)).unwrap_err();
        assert_eq!(signed.to_string(), error);
        assert_eq!(error, format!("its digest {} is not listed", Digest::of(b"y")));
        fs::write(&path, "ab12\n").unwrap();
        assert!(admitted(b"x").unwrap_err().to_string().contains("line 1"));
    }

    #[test]
    fn a_list_without_a_name_is_refused_at_the_start() {
        let list = Command::new("echo").stdout(Stdio::piped()).spawn().unwrap();
        let output = list.stdout.as_ref().unwrap().as_raw_fd();
        let policy = TrustPolicy { digests: Some(format!("/dev/fd/{output}").into()), keys: Vec::new() };
        let error = policy.check().unwrap_err().to_string();
        assert!(error.ends_with("it is read for every decision, and must be a file with a name"), "{error}");
        list.wait_with_output().unwrap();
    }

    #[test]
    fn a_signature_of_a_trusted_key_over_these_bytes_is_trusted_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let (policy, signer) = trusting(folder.path());
        let sign = |signer: &SigningKey, bytes: &[u8]| Signature(signer.sign(bytes).to_bytes());
        let admitted = |signature: Option<Signature>| policy.admit(b"x", &Digest::of(b"x"), signature.as_ref());
        assert_eq!(admitted(Some(sign(&signer, b"x"))).unwrap(), Trust::Signed(policy.keys[0].clone()));
        assert!(matches!(admitted(Some(sign(&signer, b"y"))), Err(Untrusted::Forged { .. })));
        let stranger = SigningKey::from_bytes(&[8; 32]);
        assert!(matches!(admitted(Some(sign(&stranger, b"x"))), Err(Untrusted::Forged { .. })));
        assert!(admitted(None).unwrap_err().to_string().contains("without a signature"));
        let both = TrustPolicy { keys: vec!["nowhere.pem".into()], ..policy };
        assert!(both.check().unwrap_err().to_string().contains("nowhere.pem"));
    }

    #[test]
    fn a_signature_is_read_raw_or_as_base64() {
        let folder = tempfile::tempdir().unwrap();
        let signature = Signature(std::array::from_fn(|n| n as u8 * 3));
        let path = Signature::beside(&folder.path().join("a.wasm"));
        assert!(path.ends_with("a.wasm.sig"));
        assert_eq!(Signature::read(&path).unwrap(), None);
        let text = signature.to_string();
        assert_eq!(text.len(), 88);
        let (head, tail) = text.split_at(76);
        let broken = format!("{head}\n{tail}\n");
        for content in [&signature.0[..], text.as_bytes(), broken.as_bytes()] {
            fs::write(&path, content).unwrap();
            assert_eq!(Signature::read(&path).unwrap(), Some(signature));
        }
        for content in [&b""[..], b"text", &[0; 63], &[b'A'; 88], "é".repeat(44).as_bytes()] {
            fs::write(&path, content).unwrap();
            assert!(Signature::read(&path).unwrap_err().to_string().contains("base64"), "{content:?}");
        }
    }
}
