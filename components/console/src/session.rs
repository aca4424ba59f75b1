//! The visitor's session: a cookie with the visitor's own token, sealed ([`crate::seal`]), and the tokens of forms.
//!
//! Nothing is stored. The cookie is for this host only (`HttpOnly`, `SameSite=Strict`; behind TLS `Secure` and the
//! prefix `__Host-`). It ends with the browser, after a week, or by signing out. A cookie that does not open is no
//! session. A form's token is a MAC under the cookie's value: no other site knows it, and it does not reveal the
//! cookie. A visitor without a token has a random cookie for it.
//!
//! Seals a visitor's token for the session's cookie: XChaCha20-Poly1305, with the cookie's name as associated data and
//! the end of the session inside.
//!
//! The keys are this component's alone. Several keys are separated by commas: the first key seals, and each key opens.
//! To rotate, put a new key in front, and remove the old key after [`LIFETIME`].
//!
//! Flash messages: the outcome of a form, shown by the page to which the browser is redirected.
//!
//! A cookie holds the message until the page is shown. The message has a MAC under the token of the session's forms, so
//! that no other site can make a page show its text.

use base64::alphabet;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use hmac_sha256::HMAC;
use http::header::{COOKIE, ORIGIN};
use kit::id::Entropy;
use kit::variables::Variables;
use kit::{Env, Request, Timestamp};
use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

const NAME: &str = "hexad-session";
const SECURE_NAME: &str = "__Host-hexad-session";

/// The prefix of the cookie of a visitor without a token.
const ANONYMOUS: &str = "anonymous-";

/// Separates the tokens of forms from other uses of the same key.
const FORM: &[u8] = b"hexad console form";

/// Bytes of a random cookie: 128 bits.
const RANDOM_BYTES: usize = 16;

/// The longest token that signs in, in bytes.
const MAX_TOKEN: usize = 1024;

/// The longest cookie that is read, in bytes: room for a sealed token.
const MAX_COOKIE: usize = 2048;

/// A visitor's session.
pub struct Session {
    /// `None` if the variable has no valid key. Then visitors cannot sign in.
    keys: Option<SessionKeys>,
    /// The token that the cookie has.
    token: Option<String>,
    /// The cookie's value. A new value is drawn only when a page needs it, because the host caches no page that used
    /// randomness. Without a session, most pages have no form.
    value: OnceCell<String>,
    entropy: Rc<dyn Entropy>,
    now: Timestamp,
    is_secure: bool,
    /// The browser does not have the cookie yet.
    is_new: bool,
    /// The browser has a cookie that does not open.
    is_over: bool,
}

impl Session {
    /// The session of a request's cookie, or a new one without a token.
    pub fn of(env: &Env, request: &Request) -> Self {
        let is_secure = env.external_url(request).starts_with("https:");
        let keys = SessionKeys::of(&env.variables);
        let sent = cookie(request, name(is_secure));
        let token = sent.zip(keys.as_ref()).and_then(|(sent, keys)| keys.open(name(is_secure), sent, env.now));
        let value = sent.filter(|sent| token.is_some() || sent.starts_with(ANONYMOUS)).map(str::to_owned);
        let is_over = keys.is_some() && sent.is_some() && value.is_none();
        Session {
            keys,
            token,
            entropy: env.entropy.clone(),
            now: env.now,
            is_secure,
            is_new: value.is_none(),
            // Without a key, the console cannot tell a valid cookie from an invalid one.
            is_over,
            value: value.map_or_else(OnceCell::new, OnceCell::from),
        }
    }

    fn value(&self) -> &str {
        self.value.get_or_init(|| {
            let mut random = [0; RANDOM_BYTES];
            self.entropy.fill(&mut random);
            format!("{ANONYMOUS}{}", hex::encode(random))
        })
    }

    /// The visitor's token.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Whether visitors can sign in: there is a key.
    pub fn can_sign_in(&self) -> bool {
        self.keys.is_some()
    }

    /// The token of this session's forms.
    pub fn form_token(&self) -> String {
        hex::encode(HMAC::mac(FORM, self.value().as_bytes()))
    }

    /// Whether a form was sent by a page of this session.
    pub fn is_own_form(&self, request: &Request, form_token: Option<&str>) -> bool {
        let is_same_site = match request.header("sec-fetch-site") {
            Some(site) => site == "same-origin",
            // Older browsers send the origin `null` with a form.
            None => request.header(ORIGIN.as_str()).is_none_or(|origin| origin == "null" || is_host(origin, request)),
        };
        let own = HMAC::mac(FORM, self.value().as_bytes());
        let is_own = form_token.and_then(|token| hex::decode(token).ok()).is_some_and(|token| is_equal(&token, &own));
        is_same_site && !self.is_new && is_own
    }

    /// The header that stores this session in the browser, unless it has it.
    pub fn set_cookie(&self) -> Option<String> {
        self.is_new.then(|| self.header(self.value(), ""))
    }

    /// The header that begins a session with a token; `None` if no request can have such a token, or without a key.
    pub fn sign_in(&self, token: &str) -> Option<String> {
        let is_valid =
            !token.is_empty() && token.len() <= MAX_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic());
        let keys = self.keys.as_ref().filter(|_| is_valid)?;
        Some(self.header(&keys.seal(name(self.is_secure), token, self.now, &*self.entropy)?, ""))
    }

    /// The header that removes a cookie that does not open.
    pub fn clean_up(&self) -> Option<String> {
        self.is_over.then(|| self.sign_out())
    }

    /// The header that ends the session.
    pub fn sign_out(&self) -> String {
        self.header("", "; Max-Age=0")
    }

    fn header(&self, value: &str, end: &str) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{end}", name(self.is_secure))
    }
}

fn name(is_secure: bool) -> &'static str {
    if is_secure { SECURE_NAME } else { NAME }
}

fn cookie<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let lines = request.headers.get_all(http::header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(found, value)| *found == name && !value.is_empty() && value.len() <= MAX_COOKIE)
        .map(|(_, value)| value)
}

/// Whether an origin is the host that the request was sent to. The scheme is not compared, because a proxy may have
/// terminated TLS.
fn is_host(origin: &str, request: &Request) -> bool {
    origin.split_once("://").is_some_and(|(_, host)| host.eq_ignore_ascii_case(&request.origin.authority))
}

/// Compares in a time that does not depend on the contents.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

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

const FLASH_NAME: &str = "hexad-notice";
const SECURE_FLASH_NAME: &str = "__Host-hexad-notice";

/// The cookie's lifetime in seconds, if no page is shown.
const MAX_AGE: u32 = 60;

/// The longest message, in bytes.
const MAX_TEXT: usize = 1000;

fn flash_name(is_secure: bool) -> &'static str {
    if is_secure { SECURE_FLASH_NAME } else { FLASH_NAME }
}

fn header(is_secure: bool, value: &str, max_age: u32) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}; Max-Age={max_age}", flash_name(is_secure))
}

fn mac(text: &[u8], form_token: &str) -> String {
    hex::encode(HMAC::mac(text, form_token.as_bytes()))
}

/// The header that sets a message.
pub fn set(text: &str, form_token: &str, is_secure: bool) -> String {
    let end = (0..=text.len().min(MAX_TEXT)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let text = text.as_bytes().get(..end).unwrap_or_default();
    header(is_secure, &format!("{}.{}", hex::encode(text), mac(text, form_token)), MAX_AGE)
}

/// The header that removes the cookie.
pub fn clear(is_secure: bool) -> String {
    header(is_secure, "", 0)
}

/// The cookie's value, as the browser sent it.
pub fn sent(request: &Request, is_secure: bool) -> Option<String> {
    let lines = request.headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == flash_name(is_secure)).map(|(_, value)| value.to_owned())
}

/// The message in a cookie's value, if this session set it.
pub fn read(value: &str, form_token: &str) -> Option<String> {
    let (text, own) = value.split_once('.')?;
    let text = hex::decode(text).ok()?;
    // The comparison need not take constant time: an attacker who guesses a value does not see the page.
    (mac(&text, form_token) == own).then(|| String::from_utf8(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use kit::request::Origin;
    use kit::testing::{MemoryStore, env};

    fn request(headers: &[(&'static str, &str)]) -> Request {
        let mut request = Request::new(Method::POST, "/-/sign-in");
        request.origin = Origin::known("http", "forge.test");
        for (name, value) in headers {
            request.headers.append(*name, value.parse().unwrap());
        }
        request
    }

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn session(url: &str, headers: &[(&'static str, &str)]) -> Session {
        let variables = [("external_url", url), ("console_session_key", KEY)];
        Session::of(&env(MemoryStore::default(), &variables), &request(headers))
    }

    /// The pair of name and value of a header that sets a cookie.
    fn pair(header: &str) -> &str {
        header.split(';').next().unwrap()
    }

    #[test]
    fn the_cookie_is_for_this_host_only_and_has_no_token() {
        let plain = session("http://forge.test", &[]).sign_in("glpat-x").unwrap();
        let value = plain.strip_prefix("hexad-session=").unwrap();
        let value = value.strip_suffix("; Path=/; HttpOnly; SameSite=Strict").unwrap();
        assert!(!value.contains("glpat-x") && !value.contains(&hex::encode("glpat-x")), "{value}");
        assert_eq!(session("http://forge.test", &[("cookie", pair(&plain))]).token(), Some("glpat-x"));
        let secure = session("https://forge.test", &[("cookie", pair(&plain))]);
        assert_eq!(secure.token(), None, "a cookie without the prefix does not count behind TLS");
        let moved = session("https://forge.test", &[("cookie", &format!("__Host-{}", pair(&plain)))]);
        assert_eq!(moved.token(), None, "a cookie opens under its own name only");
        assert_eq!(secure.sign_out(), "__Host-hexad-session=; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=0");
    }

    #[test]
    fn a_cookie_that_does_not_open_is_no_session() {
        for value in ["glpat-x", "AAAA", &"a".repeat(1500)] {
            let session = session("http://forge.test", &[("cookie", &format!("hexad-session={value}"))]);
            assert_eq!((session.token(), session.clean_up()), (None, Some(session.sign_out())), "{value}");
            assert!(!session.is_own_form(&request(&[]), Some(&session.form_token())), "{value}");
            assert!(session.set_cookie().unwrap().starts_with("hexad-session=anonymous-"), "{value}");
        }
        assert_eq!(session("http://forge.test", &[]).clean_up(), None);
    }

    #[test]
    fn signing_in_needs_a_key() {
        let keyless = |value: &str| {
            let env =
                env(MemoryStore::default(), &[("external_url", "http://forge.test"), ("console_session_key", value)]);
            Session::of(&env, &request(&[("cookie", "hexad-session=glpat-x")]))
        };
        for value in ["", "too short"] {
            let session = keyless(value);
            assert_eq!((session.can_sign_in(), session.token(), session.sign_in("glpat-x")), (false, None, None));
        }
    }

    #[test]
    fn only_tokens_that_a_request_can_have_sign_in() {
        let session = session("http://forge.test", &[]);
        for token in ["", "a b", "a\r\nset-cookie: x", "ü", &"a".repeat(2000)] {
            assert_eq!(session.sign_in(token), None, "{token:?}");
        }
    }

    #[test]
    fn every_other_token_signs_in() {
        for token in ["glpat-a+b/c=d.e_f~g!h(i)", "a;b,c\"d\\", "anonymous-1", &"a".repeat(1024)] {
            let set = session("http://forge.test", &[]).sign_in(token).expect("a session");
            assert_eq!(session("http://forge.test", &[("cookie", pair(&set))]).token(), Some(token));
        }
    }

    #[test]
    fn a_form_needs_the_token_of_its_session_and_this_site() {
        let set = session("http://forge.test", &[]).sign_in("glpat-x").unwrap();
        let session = session("http://forge.test", &[("cookie", &format!("a=b; {}", pair(&set)))]);
        assert_eq!(session.token(), Some("glpat-x"));
        let token = session.form_token();
        let own = |headers: &[(&'static str, &str)], token: Option<&str>| session.is_own_form(&request(headers), token);
        assert!(own(&[], Some(&token)));
        assert!(own(&[("sec-fetch-site", "same-origin"), ("origin", "null")], Some(&token)));
        assert!(own(&[("origin", "http://forge.test")], Some(&token)));
        assert!(!own(&[], None));
        assert!(!own(&[], Some("")));
        assert!(!own(&[], Some(&hex::encode([0; 32]))));
        for site in ["cross-site", "same-site", "none"] {
            assert!(!own(&[("sec-fetch-site", site)], Some(&token)), "{site}");
        }
        assert!(!own(&[("origin", "http://evil.test")], Some(&token)));
    }

    #[test]
    fn a_visitor_without_a_token_has_forms_too() {
        let first = session("http://forge.test", &[]);
        let set = first.set_cookie().unwrap();
        let pair = set.split(';').next().unwrap();
        let second = session("http://forge.test", &[("cookie", pair)]);
        assert_eq!((second.token(), second.set_cookie()), (None, None));
        assert!(second.is_own_form(&request(&[]), Some(&first.form_token())));
        assert!(!first.is_own_form(&request(&[]), Some(&first.form_token())), "the browser has no cookie");
    }
}

#[cfg(test)]
mod seal_tests {
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

#[cfg(test)]
mod flash_tests {
    use super::*;

    #[test]
    fn only_the_session_that_set_a_message_reads_it() {
        let cookie = set("Tag “é” is set.", "ab", true);
        let pair = cookie.split(';').next().unwrap();
        assert!(cookie.contains("; Secure; Max-Age=60"), "{cookie}");
        let mut request = Request::new(http::Method::GET, "/");
        request.headers.insert(COOKIE, format!("a=b; {pair}").parse().unwrap());
        let value = sent(&request, true).unwrap();
        assert_eq!(sent(&request, false), None);
        assert_eq!(read(&value, "ab").as_deref(), Some("Tag “é” is set."));
        for (value, token) in [(value.as_str(), "cd"), ("", "ab"), ("61.00", "ab"), ("x.y", "ab")] {
            assert_eq!(read(value, token), None, "{value}");
        }
    }
}
