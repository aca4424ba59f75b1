//! The cookies of this program.
//!
//! A browser sends a host's cookies to all of its ports and paths, and each of them can set any. No component may see
//! or set the cookie of the operator's pages. The cookie of visitors' sessions is for components that take credentials
//! from the header `cookie`.

use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};

/// The prefix of the cookie names of admin listeners.
pub const OPERATOR_COOKIE: &str = "hexad-operator-";

/// The name of the cookie of visitors' sessions, possibly after a prefix that browsers know.
const SESSION_COOKIE: &str = "hexad-session";
const PREFIXES: [&str; 2] = ["__host-", "__secure-"];

/// Which of the cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnCookie {
    Operator,
    Session,
}

impl OwnCookie {
    /// Whether a pair of a `Cookie` line, or the beginning of a `Set-Cookie` line, has this name.
    fn is_in(self, pair: &[u8]) -> bool {
        // Browsers skip the spaces. They send the part after `=` of a cookie without a name as if it had that name.
        let start = pair.iter().position(|byte| !b" \t=".contains(byte)).unwrap_or(pair.len());
        let name = pair.get(start..).unwrap_or_default().split(|byte| b"=;".contains(byte)).next().unwrap_or_default();
        let name = name.trim_ascii().to_ascii_lowercase();
        match self {
            Self::Operator => name.starts_with(OPERATOR_COOKIE.as_bytes()),
            Self::Session => {
                let prefix = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix.as_bytes()));
                prefix.unwrap_or(&name) == SESSION_COOKIE.as_bytes()
            }
        }
    }

    /// Removes these cookies from a request.
    pub fn remove(self, headers: &mut HeaderMap) {
        let is_own = |pair: &&[u8]| self.is_in(pair);
        let pairs = |value: &HeaderValue| value.as_bytes().split(|byte| *byte == b';').any(|pair| is_own(&pair));
        // Few requests have one, so a search comes before any change.
        if !headers.get_all(COOKIE).iter().any(pairs) {
            return;
        }
        let lines: Vec<HeaderValue> = headers.get_all(COOKIE).iter().cloned().collect();
        headers.remove(COOKIE);
        for line in lines {
            let kept: Vec<&[u8]> = line.as_bytes().split(|byte| *byte == b';').filter(|pair| !is_own(pair)).collect();
            if let Ok(value) = HeaderValue::from_bytes(kept.join(&b';').trim_ascii())
                && !value.is_empty()
            {
                headers.append(COOKIE, value);
            }
        }
    }

    /// Removes the lines of a response that set one of these cookies.
    pub fn remove_set(self, headers: &mut HeaderMap) {
        if !headers.get_all(SET_COOKIE).iter().any(|line| self.is_in(line.as_bytes())) {
            return;
        }
        let lines: Vec<HeaderValue> = headers.get_all(SET_COOKIE).iter().cloned().collect();
        headers.remove(SET_COOKIE);
        for line in lines.into_iter().filter(|line| !self.is_in(line.as_bytes())) {
            headers.append(SET_COOKIE, line);
        }
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
            OwnCookie::Operator.remove(&mut headers);
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
            OwnCookie::Operator.remove_set(&mut headers);
            assert_eq!(headers.get_all(SET_COOKIE).iter().collect::<Vec<_>>(), kept);
        }
    }

    #[test]
    fn the_cookie_of_sessions_is_removed_under_all_of_its_names() {
        for (line, kept) in [
            ("hexad-session=x", None),
            ("a=1; __Host-hexad-session=x; b=2", Some("a=1; b=2")),
            ("__host-hexad-session=x; hexad-session =y;\thexad-session=z; =hexad-session=w; HEXAD-SESSION=v", None),
            (
                "__Secure-hexad-session=x; hexad-sessions=1; my-hexad-session=2",
                Some("hexad-sessions=1; my-hexad-session=2"),
            ),
            ("hexad-session", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.append(COOKIE, HeaderValue::from_static(line));
            OwnCookie::Session.remove(&mut headers);
            assert_eq!(headers.get(COOKIE).map(|value| value.to_str().unwrap()), kept, "{line}");
            let mut headers = HeaderMap::new();
            for pair in line.split(';') {
                headers.append(SET_COOKIE, HeaderValue::try_from(format!("{pair}; Path=/")).unwrap());
            }
            OwnCookie::Session.remove_set(&mut headers);
            let pairs = kept.map_or(0, |kept| kept.split(';').count());
            assert_eq!(headers.get_all(SET_COOKIE).iter().count(), pairs, "{line}");
        }
    }
}
