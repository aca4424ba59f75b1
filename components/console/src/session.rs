//! The visitor's session: a cookie with the visitor's own token, and the tokens of forms.
//!
//! Nothing is stored. The cookie is for this host only (`HttpOnly`, `SameSite=Strict`; behind TLS `Secure`
//! and the prefix `__Host-`), and ends with the browser or by signing out. A form's token is a MAC under
//! the cookie's value, so that no other site knows it, and it cannot be traced back to the cookie. A
//! visitor without a token has a random cookie for that purpose.

use hmac_sha256::HMAC;
use http::header::ORIGIN;
use kit::id::Entropy;
use kit::{Env, Request};
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

/// The longest cookie that is read, in bytes.
const MAX_COOKIE: usize = 1024;

/// A visitor's session.
pub struct Session {
    /// The cookie's value. A new one is drawn when it is needed: most pages of visitors without a session
    /// have no form, and the host caches no page that used randomness.
    value: OnceCell<String>,
    entropy: Rc<dyn Entropy>,
    is_secure: bool,
    /// The browser does not have the cookie yet.
    is_new: bool,
}

impl Session {
    /// The session of a request's cookie, or a new one without a token.
    pub fn of(env: &Env, request: &Request) -> Self {
        let is_secure = env.external_url(request).starts_with("https:");
        let value = cookie(request, name(is_secure)).map(str::to_owned);
        let (is_new, value) = (value.is_none(), value.map_or_else(OnceCell::new, OnceCell::from));
        Session { value, entropy: env.entropy.clone(), is_secure, is_new }
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
        self.value.get().filter(|value| !value.starts_with(ANONYMOUS)).map(String::as_str)
    }

    /// The token of this session's forms.
    pub fn form_token(&self) -> String {
        hex::encode(HMAC::mac(FORM, self.value().as_bytes()))
    }

    /// Whether a form was sent by a page of this session.
    pub fn is_own_form(&self, request: &Request, form_token: Option<&str>) -> bool {
        let is_same_site = match request.header("sec-fetch-site") {
            Some(site) => site == "same-origin",
            // Without a referrer policy of its own, a form of an older browser has the origin `null`.
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

    /// The header that begins a session with a token; `None` if the token has a character that no cookie may have
    /// (RFC 6265, 4.1.1). An imported token may have any other.
    pub fn sign_in(&self, token: &str) -> Option<String> {
        let is_cookie = |byte: u8| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte);
        let is_valid = !token.is_empty() && token.len() <= MAX_COOKIE && token.bytes().all(is_cookie);
        (is_valid && !token.starts_with(ANONYMOUS)).then(|| self.header(token, ""))
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

/// Whether an origin is the host that the request was sent to. The scheme is not compared, because a
/// proxy in front may have ended TLS.
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

    fn session(url: &str, headers: &[(&'static str, &str)]) -> Session {
        Session::of(&env(MemoryStore::default(), &[("external_url", url)]), &request(headers))
    }

    #[test]
    fn the_cookie_is_for_this_host_only() {
        let plain = session("http://forge.test", &[]);
        assert_eq!(
            plain.sign_in("glpat-x").as_deref(),
            Some("hexad-session=glpat-x; Path=/; HttpOnly; SameSite=Strict")
        );
        let secure = session("https://forge.test", &[("cookie", "hexad-session=glpat-x")]);
        assert_eq!(secure.token(), None, "a cookie without the prefix does not count behind TLS");
        assert_eq!(secure.sign_out(), "__Host-hexad-session=; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=0");
    }

    #[test]
    fn a_token_cannot_add_to_the_header() {
        let session = session("http://forge.test", &[]);
        for token in ["", "a;b", "a b", "a\r\nset-cookie: x", "a,b", "\"a\"", "a\\", "anonymous-1", &"a".repeat(2000)] {
            assert_eq!(session.sign_in(token), None, "{token:?}");
        }
    }

    #[test]
    fn every_token_that_a_cookie_can_hold_signs_in() {
        let token = "glpat-a+b/c=d.e_f~g!h(i)";
        let set = session("http://forge.test", &[]).sign_in(token).expect("a session");
        let (pair, _) = set.split_once(';').expect("attributes");
        let pair = pair.to_owned().leak();
        assert_eq!(session("http://forge.test", &[("cookie", pair)]).token(), Some(token));
    }

    #[test]
    fn a_form_needs_the_token_of_its_session_and_this_site() {
        let cookie = ("cookie", "a=b; hexad-session=glpat-x");
        let session = session("http://forge.test", &[cookie]);
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
