//! The heads of messages that cross the sandbox by value: lines as in HTTP/1.1, in one buffer (decision 0138).

use http::{HeaderMap, Request};
use wasmtime_wasi_http::{FieldMap, WasiHttpView};

use crate::guest::Guest;

/// The most bytes of all fields' names and values, as in `wasi:http`.
const MAX_FIELDS: usize = 128 * 1024;

/// The usual size of a head, in bytes.
const CAPACITY: usize = 1024;

/// The words of a request's first line.
pub struct RequestLine<'a> {
    pub method: &'a str,
    pub scheme: &'a str,
    pub authority: &'a str,
    pub target: &'a str,
}

/// The head of a client's request.
pub fn request_head<B>(request: &Request<B>, guest: &mut Guest) -> Vec<u8> {
    let uri = request.uri();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let mut head = Vec::with_capacity(CAPACITY);
    let (method, scheme) = (request.method().as_str(), uri.scheme_str().unwrap_or("http"));
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    for part in [method, " ", scheme, " ", authority, " ", target, "\n"] {
        head.extend_from_slice(part.as_bytes());
    }
    write_fields(request.headers(), guest, &mut head);
    head
}

/// The lines of the fields that a guest gets.
pub fn field_lines(headers: &HeaderMap, guest: &mut Guest) -> Vec<u8> {
    let mut lines = Vec::with_capacity(CAPACITY);
    write_fields(headers, guest, &mut lines);
    lines
}

fn write_fields(headers: &HeaderMap, guest: &mut Guest, lines: &mut Vec<u8>) {
    let hooks = guest.http().hooks;
    for (name, value) in headers.iter().filter(|(name, _)| !hooks.is_forbidden_header(name)) {
        lines.extend_from_slice(name.as_str().as_bytes());
        lines.push(b':');
        // A header value contains no line feed.
        lines.extend_from_slice(value.as_bytes());
        lines.push(b'\n');
    }
}

/// The first line of a guest's request, and the lines of its fields. `None` if the first line does not have four words.
pub fn parse_request_head(head: &[u8]) -> Option<(RequestLine<'_>, &[u8])> {
    let (line, fields) = split_once(head, b'\n')?;
    let mut words = std::str::from_utf8(line).ok()?.splitn(4, ' ');
    let (method, scheme, authority, target) = (words.next()?, words.next()?, words.next()?, words.next()?);
    Some((RequestLine { method, scheme, authority, target }, fields))
}

/// The fields that a guest may send.
pub fn parse_fields(lines: &[u8], guest: &mut Guest) -> wasmtime::Result<HeaderMap> {
    let hooks = guest.http().hooks;
    let mut fields = FieldMap::new_mutable(MAX_FIELDS);
    let mut rest = lines;
    while !rest.is_empty() {
        let field = split_once(rest, b'\n').and_then(|(line, rest)| Some((split_once(line, b':')?, rest)));
        let Some(((name, value), following)) = field else {
            wasmtime::bail!("a line of a field has no colon or no end");
        };
        fields.append(hooks, std::str::from_utf8(name)?.to_owned(), value.to_vec())?;
        rest = following;
    }
    Ok(fields.into())
}

/// The bytes before the first `separator`, and the bytes after it.
fn split_once(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let (before, [_separator, after @ ..]) = bytes.split_at(bytes.iter().position(|byte| *byte == separator)?) else {
        return None;
    };
    Some((before, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_line_has_four_words() {
        let (line, fields) = parse_request_head(b"GET http  /a?b c\nx:y\n").unwrap();
        assert_eq!((line.method, line.scheme, line.authority, line.target), ("GET", "http", "", "/a?b c"));
        assert_eq!(fields, b"x:y\n");
        for head in [&b""[..], b"GET http a /", b"GET http a\n", b"GET http \xff /\n"] {
            assert!(parse_request_head(head).is_none(), "{head:?}");
        }
    }
}
