//! Heads of messages that cross the sandbox by value (`wit/platform.wit`): lines as in HTTP/1.1, in one buffer.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

/// The initial capacity of a buffer, in bytes. The head of a usual message fits.
const CAPACITY: usize = 1024;

/// The initial capacity of a header map, in fields. A usual request has fewer.
const FIELDS: usize = 24;

/// The head of a request. Its first line is `method scheme authority target`.
pub struct RequestHead {
    pub method: Bytes,
    /// `http` or `https`.
    pub scheme: Bytes,
    /// The host and the port.
    pub authority: Bytes,
    /// The path with its query.
    pub target: Bytes,
    pub headers: HeaderMap,
}

impl RequestHead {
    /// `None` if the first line has fewer than four words.
    pub fn parse(head: Vec<u8>) -> Option<Self> {
        let head = Bytes::from(head);
        let line = head.get(..memchr::memchr(b'\n', &head)?)?;
        let mut words = line.splitn(4, |byte| *byte == b' ').map(|word| head.slice_ref(word));
        let (method, scheme, authority, target) = (words.next()?, words.next()?, words.next()?, words.next()?);
        Some(Self { method, scheme, authority, target, headers: fields(&head, line.len() + 1) })
    }
}

/// Writes the head of a request to `url`.
pub fn request_head(method: &Method, url: &Uri, headers: &HeaderMap) -> Vec<u8> {
    let scheme = url.scheme_str().unwrap_or_default();
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let target = url.path_and_query().map_or("/", |target| target.as_str());
    let mut head = Vec::with_capacity(CAPACITY);
    for part in [method.as_str(), " ", scheme, " ", authority, " ", target, "\n"] {
        head.extend_from_slice(part.as_bytes());
    }
    write_fields(headers, &mut head);
    head
}

/// Writes `headers` as lines.
pub fn field_lines(headers: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::with_capacity(CAPACITY);
    write_fields(headers, &mut lines);
    lines
}

fn write_fields(headers: &HeaderMap, lines: &mut Vec<u8>) {
    for (name, value) in headers {
        lines.extend_from_slice(name.as_str().as_bytes());
        lines.push(b':');
        lines.extend_from_slice(value.as_bytes());
        lines.push(b'\n');
    }
}

/// Parses lines into fields, whose values share the buffer. The host has validated the lines; a line that `http`
/// rejects is left out.
pub fn parse_fields(lines: impl Into<Bytes>) -> HeaderMap {
    fields(&lines.into(), 0)
}

/// Parses the lines from `start` on.
fn fields(lines: &Bytes, mut start: usize) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(FIELDS);
    while let Some(rest) = lines.get(start..)
        && let Some(length) = memchr::memchr(b'\n', rest)
    {
        let (from, line) = (start, rest.get(..length).unwrap_or_default());
        start += length + 1;
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let value = lines.slice(from + colon + 1..from + length);
        let name = line.get(..colon).unwrap_or_default();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_maybe_shared(value)) {
            headers.append(name, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_request_head_is_read_back_unchanged() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("accept", "*/*"), ("empty", ""), ("cookie", "a: b"), ("cookie", " c "), ("x", "\u{fc}")]
        {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let url = "https://example.org:8443/a%20b?c=:d".parse().unwrap();
        let head = RequestHead::parse(request_head(&Method::PATCH, &url, &headers)).unwrap();
        assert_eq!((&*head.method, &*head.scheme), (&b"PATCH"[..], &b"https"[..]));
        assert_eq!((&*head.authority, &*head.target), (&b"example.org:8443"[..], &b"/a%20b?c=:d"[..]));
        assert_eq!(head.headers, headers);
        assert_eq!(parse_fields(field_lines(&headers)), headers);
    }

    #[test]
    fn lines_that_are_none_are_left_out() {
        assert_eq!(parse_fields(Vec::from("a b:c\nno colon\n:d\nx:\r\ny:1\nz:2")).len(), 1, "`y`");
        for head in ["", "GET http a /", "GET http /\n"] {
            assert!(RequestHead::parse(head.into()).is_none(), "{head:?}");
        }
        let head = RequestHead::parse("OPTIONS http  *\n".into()).unwrap();
        assert_eq!((&*head.authority, &*head.target), (&b""[..], &b"*"[..]));
    }
}
