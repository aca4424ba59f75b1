//! The outcome of a form, told by the page that the browser is sent to afterwards.
//!
//! A cookie keeps the sentence until that page is shown. It has a MAC under the token of the session's forms, so that
//! no other site can make a page show its text.

use hmac_sha256::HMAC;
use http::header::COOKIE;
use kit::Request;

const NAME: &str = "hexad-notice";
const SECURE_NAME: &str = "__Host-hexad-notice";

/// After how many seconds it is forgotten, if no page was shown.
const MAX_AGE: u32 = 60;

/// The longest sentence that is kept, in bytes.
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

/// The header that keeps a sentence.
pub fn keep(text: &str, form_token: &str, is_secure: bool) -> String {
    let end = (0..=text.len().min(MAX_TEXT)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let text = text.as_bytes().get(..end).unwrap_or_default();
    header(is_secure, &format!("{}.{}", hex::encode(text), mac(text, form_token)), MAX_AGE)
}

/// The header that forgets it.
pub fn forget(is_secure: bool) -> String {
    header(is_secure, "", 0)
}

/// The value that the browser sent.
pub fn sent(request: &Request, is_secure: bool) -> Option<String> {
    let lines = request.headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name(is_secure)).map(|(_, value)| value.to_owned())
}

/// The sentence of a value that this session keeps.
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
    fn only_the_session_that_keeps_a_sentence_reads_it() {
        let kept = keep("Tag “é” is set.", "ab", true);
        let pair = kept.split(';').next().unwrap();
        assert!(kept.contains("; Secure; Max-Age=60"), "{kept}");
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
