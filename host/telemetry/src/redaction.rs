//! Request targets and URLs for logs, traces and messages, without the secrets in them.

use std::borrow::Cow;

use http::Uri;
use url::form_urlencoded;

/// A query parameter is a secret if its name contains one of these.
const SECRETS: [&str; 8] = ["token", "secret", "password", "passwd", "auth", "key", "signature", "credential"];

/// The path, without its secrets: segments after one called `token`, as in npm's `-/user/token/<token>`.
pub fn path(uri: &Uri) -> Cow<'_, str> {
    without_tokens(uri.path())
}

fn without_tokens(path: &str) -> Cow<'_, str> {
    if !path.split('/').any(is_token) {
        return Cow::Borrowed(path);
    }
    let mut is_secret = false;
    let segments = path.split('/').map(|segment| {
        let shown = if is_secret && !segment.is_empty() { "REDACTED" } else { segment };
        // As in routes, an empty segment does not count.
        is_secret = is_token(segment) || (is_secret && segment.is_empty());
        shown
    });
    Cow::Owned(segments.collect::<Vec<_>>().join("/"))
}

/// Whether the segment is the word `token`, percent-encoded or not.
fn is_token(segment: &str) -> bool {
    form_urlencoded::parse(segment.as_bytes()).next().is_some_and(|(word, _)| word.eq_ignore_ascii_case("token"))
}

/// The path and the query, without the values of secret parameters.
pub fn target(uri: &Uri) -> String {
    let mut target = path(uri).into_owned();
    for (index, pair) in uri.query().into_iter().flat_map(|query| query.split('&')).enumerate() {
        target.push(if index == 0 { '?' } else { '&' });
        // Components decode the name, so the comparison does too.
        let name = form_urlencoded::parse(pair.as_bytes()).next().map(|(name, _)| name.to_ascii_lowercase());
        match (pair.split_once('='), name) {
            (Some((raw, _)), Some(name)) if SECRETS.iter().any(|secret| name.contains(secret)) => {
                target.push_str(raw);
                target.push_str("=REDACTED");
            }
            _ => target.push_str(pair),
        }
    }
    target
}

/// A URL without the user's name and password, the query, and the secrets of the path. It may be another application's,
/// as in `Referer`.
pub fn url(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    // Browsers read a backslash as a slash.
    let is_slash = |c: char| c == '/' || c == '\\';
    let scheme =
        url.find(':').filter(|end| !url.get(..*end).unwrap_or_default().contains(is_slash)).map_or(0, |end| end + 1);
    let rest = url.get(scheme..).unwrap_or_default();
    let start = rest.find(|c| !is_slash(c)).unwrap_or(rest.len());
    if scheme == 0 && start < 2 {
        return without_tokens(url).into_owned();
    }
    let (slashes, rest) = rest.split_at(start);
    let (authority, path) = rest.split_at(rest.find(is_slash).unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{}{slashes}{host}{}", url.get(..scheme).unwrap_or_default(), without_tokens(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_no_user() {
        for (given, shown) in [
            ("https://mia:word@forge.test/a/@scope/b?token=x#y", "https://forge.test/a/@scope/b"),
            ("https://mia:w@rd@forge.test", "https://forge.test"),
            ("https:\\\\mia:word@forge.test\\a", "https:\\\\forge.test\\a"),
            ("//mia:word@forge.test/a", "//forge.test/a"),
            ("https:mia:word@forge.test/a", "https:forge.test/a"),
            ("https://forge.test:8080/-/user/token/secret", "https://forge.test:8080/-/user/token/REDACTED"),
            ("/-/user/token/secret", "/-/user/token/REDACTED"),
            ("/a:b@c/d", "/a:b@c/d"),
            ("", ""),
        ] {
            assert_eq!(url(given), shown);
        }
    }

    #[test]
    fn a_segment_after_token_is_not_shown() {
        for (given, shown) in [
            ("/api/npm/-/user/token/glpat-abc", "/api/npm/-/user/token/REDACTED"),
            ("/-/user/Token//abc/x", "/-/user/Token//REDACTED/x"),
            ("/-/user/%74oken/abc", "/-/user/%74oken/REDACTED"),
            ("/-/user/token/", "/-/user/token/"),
            ("/tokens/abc", "/tokens/abc"),
        ] {
            assert_eq!(path(&Uri::from_static(given)), shown);
        }
    }
}
