//! Encryption of stored secrets, such as keys for other services, with a key from a variable. Without a key, they are
//! stored in plain text. The cipher is XChaCha20-Poly1305. The name of the secret's field (its context) is the
//! associated data, so a secret opens only there.
//!
//! The nonce is synthetic, as in RFC 8452: it is derived from the secret, its context and the key. So sealing the same
//! secret again gives the same text, and storing it again changes nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use kit::Env;
use kit::store::StoreError;
use sha2::{Digest, Sha256};

/// The variable with the key: any text of at least 128 bits of entropy. Without it, secrets are stored in plain text.
pub const KEY: &str = "settings_encryption_key";

/// The variable with the previous key, which still opens secrets that were sealed with it.
pub const PREVIOUS_KEY: &str = "settings_encryption_key_previous";

/// The prefix of a sealed secret.
const PREFIX: &str = "sealed:v1:";

const NONCE: usize = 24;

/// Seals a secret for storage. No other secret has the same `context`.
pub(crate) fn seal(env: &Env, context: &str, secret: &str) -> Result<String, StoreError> {
    let Some(key) = env.variables.get(KEY) else { return Ok(secret.to_owned()) };
    let length = (context.len() as u64).to_be_bytes();
    let nonce = hash(&[b"hexad nonce v1", &hash(&[key.as_bytes()]), &length, context.as_bytes(), secret.as_bytes()]);
    let nonce = nonce.get(..NONCE).unwrap_or_default();
    let payload = Payload { msg: secret.as_bytes(), aad: context.as_bytes() };
    let sealed = cipher(key).encrypt(XNonce::from_slice(nonce), payload);
    let sealed = sealed.map_err(|_| StoreError::Other(format!("{context} cannot be sealed")))?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode([nonce, &sealed].concat())))
}

/// Opens a secret that was sealed for `context`. A secret that was stored without a key is returned unchanged.
pub(crate) fn open(env: &Env, context: &str, stored: &str) -> Result<String, StoreError> {
    let Some(sealed) = stored.strip_prefix(PREFIX) else { return Ok(stored.to_owned()) };
    let sealed = URL_SAFE_NO_PAD.decode(sealed).unwrap_or_default();
    let parts = sealed.split_at_checked(NONCE);
    let keys = [KEY, PREVIOUS_KEY].into_iter().filter_map(|name| env.variables.get(name));
    keys.zip(std::iter::repeat(parts))
        .find_map(|(key, parts)| {
            let (nonce, msg) = parts?;
            let opened =
                cipher(key).decrypt(XNonce::from_slice(nonce), Payload { msg, aad: context.as_bytes() }).ok()?;
            String::from_utf8(opened).ok()
        })
        .ok_or_else(|| StoreError::Other(format!("{context} cannot be opened with the variable {KEY}")))
}

fn cipher(key: &str) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&hash(&[b"hexad seal v1", &hash(&[key.as_bytes()])]).into())
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::testing::{MemoryStore, env};

    fn with(variables: &[(&'static str, &'static str)]) -> Env {
        env(MemoryStore::default(), variables)
    }

    #[test]
    fn a_secret_opens_only_with_its_key_and_context() {
        let env = with(&[(KEY, "one")]);
        for secret in ["hush", "", "ü".repeat(500).as_str(), "sealed:v1:x"] {
            let sealed = seal(&env, "a", secret).unwrap();
            assert!(sealed.starts_with(PREFIX) && (secret.is_empty() || !sealed.contains(secret)), "{sealed}");
            assert_eq!(seal(&env, "a", secret).unwrap(), sealed, "storing it again changes nothing");
            assert_eq!(open(&env, "a", &sealed).unwrap(), secret);
            assert_ne!(seal(&env, "b", secret).unwrap(), sealed);
            assert_ne!(seal(&with(&[(KEY, "two")]), "a", secret).unwrap(), sealed);
            for (env, context) in [(&env, "b"), (&with(&[(KEY, "two")]), "a"), (&with(&[]), "a")] {
                let why = open(env, context, &sealed).unwrap_err().to_string();
                assert!(why.contains("cannot be opened") && (secret.is_empty() || !why.contains(secret)), "{why}");
            }
        }
    }

    /// Secrets of earlier builds must open, so the stored format must not change.
    #[test]
    fn the_format_stays() {
        let sealed = "sealed:v1:sB0LKPJD-cMjYf6PJORKLYSVRTJfsvoBRBz2k09FvhKkPLQAYqhYqNN2rHc";
        assert_eq!(seal(&with(&[(KEY, "one")]), "settings/analytics_api_key", "hush").unwrap(), sealed);
    }

    #[test]
    fn a_changed_secret_does_not_open() {
        let env = with(&[(KEY, "one")]);
        let sealed = seal(&env, "a", "hush").unwrap();
        for at in PREFIX.len()..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert!(open(&env, "a", std::str::from_utf8(&changed).unwrap()).is_err(), "{at}");
            assert!(open(&env, "a", sealed.get(..at).unwrap()).is_err(), "{at}");
        }
    }

    #[test]
    fn the_key_can_be_rotated() {
        let sealed = seal(&with(&[(KEY, "one")]), "a", "hush").unwrap();
        let both = with(&[(KEY, "two"), (PREVIOUS_KEY, "one")]);
        assert_eq!(open(&both, "a", &sealed).unwrap(), "hush");
        let again = seal(&both, "a", "hush").unwrap();
        assert_eq!(open(&with(&[(KEY, "two")]), "a", &again).unwrap(), "hush");
        assert_eq!(open(&both, "a", "stored before").unwrap(), "stored before");
        assert_eq!(seal(&with(&[(PREVIOUS_KEY, "one")]), "a", "hush").unwrap(), "hush");
    }
}
