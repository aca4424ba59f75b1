//! The cookie of the operator's pages. A browser sends the cookies of a host to all of its ports, and each of them
//! can set all. No component may see this one, nor set it.

use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};

/// The names of the cookies of admin listeners begin with this.
pub const OPERATOR_COOKIE: &str = "hexad-operator-";

/// Removes them from a request.
pub fn remove_operator_cookies(headers: &mut HeaderMap) {
    let is_operators = |pair: &&[u8]| pair.trim_ascii_start().starts_with(OPERATOR_COOKIE.as_bytes());
    let pairs = |value: &HeaderValue| value.as_bytes().split(|byte| *byte == b';').any(|pair| is_operators(&pair));
    // Few requests have one, so that the search comes before any change.
    if !headers.get_all(COOKIE).iter().any(pairs) {
        return;
    }
    let lines: Vec<HeaderValue> = headers.get_all(COOKIE).iter().cloned().collect();
    headers.remove(COOKIE);
    for line in lines {
        let kept: Vec<&[u8]> = line.as_bytes().split(|byte| *byte == b';').filter(|pair| !is_operators(pair)).collect();
        if let Ok(value) = HeaderValue::from_bytes(kept.join(&b';').trim_ascii())
            && !value.is_empty()
        {
            headers.append(COOKIE, value);
        }
    }
}

/// Removes the lines that set one of them from a response.
pub fn remove_set_operator_cookies(headers: &mut HeaderMap) {
    let sets_operators = |line: &HeaderValue| {
        // Browsers skip the spaces, and send what follows the `=` of a cookie without a name as if it had one.
        let start = line.as_bytes().iter().position(|byte| !b" \t=".contains(byte)).unwrap_or_default();
        line.as_bytes().get(start..).is_some_and(|rest| rest.starts_with(OPERATOR_COOKIE.as_bytes()))
    };
    if !headers.get_all(SET_COOKIE).iter().any(sets_operators) {
        return;
    }
    let lines: Vec<HeaderValue> = headers.get_all(SET_COOKIE).iter().cloned().collect();
    headers.remove(SET_COOKIE);
    for line in lines.into_iter().filter(|line| !sets_operators(line)) {
        headers.append(SET_COOKIE, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_operators_cookies_are_removed() {
        for (lines, kept) in [
            (&["a=1; b=2"][..], &["a=1; b=2"][..]),
            (&["a=1; hexad-operator-40123=x; b=2"], &["a=1; b=2"]),
            (&["hexad-operator-1=x; a=1", "hexad-operator-2=y"], &["a=1"]),
            (&["hexad-session=hexad-operator-1=x"], &["hexad-session=hexad-operator-1=x"]),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(COOKIE, HeaderValue::from_static(line));
            }
            remove_operator_cookies(&mut headers);
            assert_eq!(headers.get_all(COOKIE).iter().collect::<Vec<_>>(), kept);
        }
    }

    #[test]
    fn a_response_sets_no_cookie_of_the_operators() {
        for (lines, kept) in [
            (&[][..], &[][..]),
            (&["a=1; Path=/", "b=hexad-operator-1"], &["a=1; Path=/", "b=hexad-operator-1"]),
            (&["a=1", "hexad-operator-1=x; Path=/operator", "b=2"], &["a=1", "b=2"]),
            (&[" \thexad-operator-1 =x"], &[]),
            (&["=hexad-operator-1=x", " = hexad-operator-1=x", "", "="], &["", "="]),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(SET_COOKIE, HeaderValue::from_static(line));
            }
            remove_set_operator_cookies(&mut headers);
            assert_eq!(headers.get_all(SET_COOKIE).iter().collect::<Vec<_>>(), kept);
        }
    }
}
