//! Flash messages: the outcome of a form, shown by the page to which the browser is redirected.
//!
//! A cookie holds the message until the page is shown. The message has a MAC under the token of the session's forms, so
//! that no other site can make a page show its text.

use hmac_sha256::HMAC;
use http::header::COOKIE;
use kit::Request;

const NAME: &str = "hexad-notice";
const SECURE_NAME: &str = "__Host-hexad-notice";

/// The cookie's lifetime in seconds, if no page is shown.
const MAX_AGE: u32 = 60;

/// The longest message, in bytes.
const MAX_TEXT: usize = 1000;

fn name(is_secure: bool) -> &'static str {
    if is_secure { SECURE_NAME } else { NAME }
}

fn header(is_secure: bool, value: &str, max_age: u32) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}; Max-Age={max_age}", name(is_secure))
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
    pairs.find(|(found, _)| *found == name(is_secure)).map(|(_, value)| value.to_owned())
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
