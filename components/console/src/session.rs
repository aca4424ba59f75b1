//! The visitor's session: a cookie with the visitor's own token, sealed ([`crate::seal`]), and the tokens of forms.
//!
//! Nothing is stored. The cookie is for this host only (`HttpOnly`, `SameSite=Strict`; behind TLS `Secure` and the
//! prefix `__Host-`). It ends with the browser, after a week, or by signing out. A cookie that does not open is no
//! session. A form's token is a MAC under the cookie's value: no other site knows it, and it does not reveal the
//! cookie. A visitor without a token has a random cookie for it.

use crate::seal::SessionKeys;
use hmac_sha256::HMAC;
use http::header::ORIGIN;
use kit::id::Entropy;
use kit::{Env, Request, Timestamp};
use std::cell::OnceCell;
use std::rc::Rc;

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
    match is_secure {
        true => SECURE_NAME,
        false => NAME,
    }
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
