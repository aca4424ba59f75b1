//! Request paths. They are split before they are decoded, because a `%2F` in a segment is data, not a separator.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::borrow::Cow;

/// A raw path segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a>(pub &'a str);

impl<'a> Segment<'a> {
    /// The decoded text; `None` if it is not UTF-8 or has a control character, which no identifier has.
    pub fn decode(self) -> Option<Cow<'a, str>> {
        let text = percent_decode_str(self.0).decode_utf8().ok()?;
        (!text.chars().any(char::is_control)).then_some(text)
    }
}

/// `path` with single slashes and without a final one, as the reference service's router reads it. Clients send
/// `/api/v4/features/` and `//api/v4/user`. An encoded slash in a segment stays.
pub fn normalize(path: &str) -> Cow<'_, str> {
    let is_normal = path.starts_with('/') && !path.contains("//") && (path == "/" || !path.ends_with('/'));
    if is_normal {
        return Cow::Borrowed(path);
    }
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    Cow::Owned(format!("/{}", segments.join("/")))
}

/// The initial capacity of a list of segments. Most paths have fewer.
const SEGMENTS: usize = 12;

/// The segments of `path` below `base`; `None` if the path is not below it.
///
/// `below("/api/v4/a/b%2Fc", "/api/v4")` has the segments `a` and `b%2Fc`. The path of a [`Request`](crate::Request) is
/// normalized ([`normalize`]), so no segment is empty.
pub fn below<'a>(path: &'a str, base: &str) -> Option<Vec<Segment<'a>>> {
    let rest = path.strip_prefix(base)?.strip_prefix('/')?;
    let mut segments = Vec::with_capacity(SEGMENTS);
    segments.extend(rest.split('/').map(Segment));
    Some(segments)
}

/// The characters that stay unescaped in a path segment (RFC 3986, `unreserved`).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes `text` as one path segment or as a query value.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_before_decoding() {
        let segments = below("/api/v4/projects/group%2Fproject/x", "/api/v4").unwrap();
        assert_eq!(segments, [Segment("projects"), Segment("group%2Fproject"), Segment("x")]);
        assert_eq!(segments[1].decode().as_deref(), Some("group/project"));
    }

    #[test]
    fn is_not_below_a_mere_prefix() {
        assert_eq!(below("/api/v40/x", "/api/v4"), None);
        assert_eq!(below("/api/v4", "/api/v4"), None);
    }

    #[test]
    fn slashes_are_single_and_none_is_at_the_end() {
        for (path, normal) in [
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b"),
            ("//a///b//", "/a/b"),
            ("/", "/"),
            ("//", "/"),
            ("", "/"),
            ("a", "/a"),
            ("/a%2F%2Fb/", "/a%2F%2Fb"),
        ] {
            assert_eq!(normalize(path), normal, "{path}");
        }
    }

    #[test]
    fn keeps_empty_segments() {
        assert_eq!(below("/a//b/", "/a").unwrap(), [Segment(""), Segment("b"), Segment("")]);
    }

    #[test]
    fn decodes_once() {
        assert_eq!(Segment("%252f").decode().as_deref(), Some("%2f"));
        assert_eq!(Segment("%40acme").decode().as_deref(), Some("@acme"));
        assert_eq!(Segment("a+b").decode().as_deref(), Some("a+b"));
    }

    #[test]
    fn segments_that_are_no_text_are_refused() {
        assert_eq!(Segment("%ff").decode(), None);
        assert_eq!(Segment("a%00").decode(), None);
        assert_eq!(Segment("a%0d%0a").decode(), None);
    }

    #[test]
    fn encodes_a_segment() {
        assert_eq!(encode("@acme/lib 1.0~x"), "%40acme%2Flib%201.0~x");
    }
}
