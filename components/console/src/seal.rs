//! Seals a visitor's token for the session's cookie: XChaCha20-Poly1305, with the cookie's name as associated data and
//! the end of the session inside.
//!
//! The keys are this component's alone. Several keys are separated by commas: the first key seals, and each key opens.
//! To rotate, put a new key in front, and remove the old key after [`LIFETIME`].

use base64::alphabet;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use kit::Timestamp;
use kit::id::Entropy;
use kit::variables::Variables;
use std::time::Duration;

/// The variable with the keys: 32 bytes each, in base64 or hex.
pub const KEYS: &str = "console_session_key";

/// How long a session lasts.
const LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

const NONCE: usize = 24;

/// Bytes of the end of the session, in milliseconds since 1970.
const END: usize = size_of::<i64>();

/// The keys of sessions.
pub struct SessionKeys(Vec<XChaCha20Poly1305>);

impl SessionKeys {
    /// The keys of the variable; `None` if it has no key, or an invalid key.
    pub fn of(variables: &Variables) -> Option<Self> {
        let given = variables.get(KEYS)?.split(',').map(str::trim).filter(|key| !key.is_empty());
        let keys: Vec<_> = given.map(|key| Some(XChaCha20Poly1305::new(&parse(key)?.into()))).collect::<Option<_>>()?;
        (!keys.is_empty()).then_some(SessionKeys(keys))
    }

    /// The token as the value of a cookie, which opens until the session ends.
    pub fn seal(&self, cookie: &str, token: &str, now: Timestamp, entropy: &dyn Entropy) -> Option<String> {
        let mut nonce = [0; NONCE];
        entropy.fill(&mut nonce);
        let end = now.millis().saturating_add(i64::try_from(LIFETIME.as_millis()).ok()?);
        let text = [&end.to_be_bytes(), token.as_bytes()].concat();
        let payload = Payload { msg: &text, aad: cookie.as_bytes() };
        let sealed = self.0.first()?.encrypt(XNonce::from_slice(&nonce), payload).ok()?;
        Some(URL_SAFE_NO_PAD.encode([&nonce, &*sealed].concat()))
    }

    /// The token of a cookie's value, unless the session is over.
    pub fn open(&self, cookie: &str, value: &str, now: Timestamp) -> Option<String> {
        let sealed = URL_SAFE_NO_PAD.decode(value).ok()?;
        let (nonce, sealed) = sealed.split_at_checked(NONCE)?;
        let payload = || Payload { msg: sealed, aad: cookie.as_bytes() };
        let text = self.0.iter().find_map(|key| key.decrypt(XNonce::from_slice(nonce), payload()).ok())?;
        let (end, token) = text.split_at_checked(END)?;
        let is_open = now.millis() < i64::from_be_bytes(end.try_into().ok()?);
        is_open.then(|| String::from_utf8(token.to_vec()).ok()).flatten()
    }
}

fn parse(key: &str) -> Option<[u8; 32]> {
    let any_padding = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let base64 = |alphabet| GeneralPurpose::new(alphabet, any_padding).decode(key).ok();
    let bytes = hex::decode(key).ok().or_else(|| base64(&alphabet::STANDARD)).or_else(|| base64(&alphabet::URL_SAFE));
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::testing::CountingEntropy;

    const ONE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const TWO: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHi8=";

    fn keys(value: &str) -> Option<SessionKeys> {
        SessionKeys::of(&Variables::from_iter([(KEYS, value)]))
    }

    fn seal(with: &str, token: &str) -> String {
        keys(with).unwrap().seal("cookie", token, Timestamp::from_millis(1000), &CountingEntropy::default()).unwrap()
    }

    fn open(with: &str, value: &str) -> Option<String> {
        keys(with).unwrap().open("cookie", value, Timestamp::from_millis(1000))
    }

    #[test]
    fn keys_are_32_bytes_in_hex_or_base64() {
        for valid in [ONE, &ONE.to_uppercase(), TWO, TWO.trim_end_matches('='), &TWO.replace('/', "_")] {
            assert!(keys(valid).is_some(), "{valid}");
        }
        assert!(keys(&format!(" {ONE} ,\n{TWO},")).is_some());
        let short = ONE.get(2..).unwrap();
        for invalid in ["", ",", "sesame", short, &format!("{ONE}00"), &format!("{ONE},sesame"), "AAECAw=="] {
            assert!(keys(invalid).is_none(), "{invalid}");
        }
        assert_eq!(open(ONE, &seal("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "t")).as_deref(), Some("t"));
    }

    #[test]
    fn a_token_opens_with_its_key_and_cookie_only() {
        let sealed = seal(ONE, "glpat-x");
        assert!(!sealed.contains("glpat"), "{sealed}");
        assert_eq!(open(ONE, &sealed).as_deref(), Some("glpat-x"));
        assert_eq!(open(TWO, &sealed), None);
        assert_eq!(keys(ONE).unwrap().open("other", &sealed, Timestamp::from_millis(1000)), None);
        for value in [
            "",
            "glpat-x",
            "anonymous-00",
            "====",
            sealed.get(1..).unwrap(),
            sealed.get(..sealed.len() - 1).unwrap(),
            &URL_SAFE_NO_PAD.encode([0; 24]),
        ] {
            assert_eq!(open(ONE, value), None, "{value}");
        }
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(open(ONE, std::str::from_utf8(&changed).unwrap()), None, "{at}");
        }
    }

    #[test]
    fn a_new_key_is_put_in_front_of_the_old_one() {
        let (old, both) = (seal(ONE, "t"), format!("{TWO}, {ONE}"));
        assert_eq!(open(&both, &old).as_deref(), Some("t"));
        let new = seal(&both, "t");
        assert_eq!((open(TWO, &new).as_deref(), open(ONE, &new)), (Some("t"), None));
    }

    #[test]
    fn a_session_ends_after_its_time() {
        let sealed = seal(ONE, "t");
        let at = |millis| keys(ONE).unwrap().open("cookie", &sealed, Timestamp::from_millis(millis));
        let end = 1000 + i64::try_from(LIFETIME.as_millis()).unwrap();
        assert_eq!((at(end - 1).as_deref(), at(end)), (Some("t"), None));
    }
}
