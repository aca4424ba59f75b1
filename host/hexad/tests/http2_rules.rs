//! The rules of HTTP/2 (RFC 9113) and of its header compression (RFC 7541), with a case for each. Frames that break a
//! rule end their stream or connection, and never become a request. Allowed frames are answered.

use crate::http2::{CONTINUATION, DATA, Frames, PRIORITY, field, frames_after, goaway_code, head_of};
use crate::*;
use Outcome::{Answer, ConnectionError, StreamError};
use std::iter;

const PUSH_PROMISE: u8 = 5;
const ACK: u8 = 1;
const PADDED: u8 = 8;
const PRIORITIZED: u8 = 0x20;

/// `:status: 200` in the static table (RFC 7541, appendix A).
const STATUS_200: u8 = 0x88;

/// The host's reaction to the frames.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    /// Stream 1 is answered with 200.
    Answer,
    /// Stream 1 is reset or answered with 4xx, or the connection fails, which section 5.4.2 allows.
    StreamError,
    /// The connection is closed with an error.
    ConnectionError,
}

type Case = (&'static str, Vec<Vec<u8>>, Outcome);

fn request() -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, 1, &head("hello"))
}

/// The head of a request whose body follows.
fn post() -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, &head_of("POST", "count"))
}

/// A request with these fields only.
fn request_of(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(fields))
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        field(&mut block, name, value);
    }
    block
}

/// A valid request, and these fields after its own.
fn request_and(fields: &[(&str, &str)]) -> Vec<u8> {
    let block = [head("hello"), block(fields)].concat();
    frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

fn update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

/// A frame whose padding field declares `length`.
fn padded(kind: u8, flags: u8, length: u8, content: &[u8]) -> Vec<u8> {
    frame(kind, flags | PADDED, 1, &[&[length], content, &[0; 4]].concat())
}

/// Sections 3 to 6: frames.
fn frames() -> Vec<Case> {
    let opaque = [1; 8];
    let [split, rest] = [head("hello")[..10].to_vec(), head("hello")[10..].to_vec()];
    vec![
        ("an unknown frame", vec![frame(0x16, 0xff, 0, b"grease"), request()], Answer),
        ("an unknown frame on a stream", vec![post(), frame(0x16, 0, 1, b"grease"), frame(DATA, 1, 1, b"a")], Answer),
        ("flags without a meaning", vec![frame(PING, 0x16, 0, &opaque), request()], Answer),
        ("a reserved bit", vec![frame(PING, 0, 1 << 31, &opaque), request()], Answer),
        ("padding", vec![padded(HEADERS, END_STREAM | END_HEADERS, 4, &head("hello"))], Answer),
        ("padding of a body", vec![post(), padded(DATA, END_STREAM, 4, b"body")], Answer),
        ("a head in two frames", vec![frame(HEADERS, 1, 1, &split), frame(CONTINUATION, 4, 1, &rest)], Answer),
        ("an empty continuation", vec![frame(HEADERS, 1, 1, &head("hello")), frame(CONTINUATION, 4, 1, &[])], Answer),
        ("trailers", vec![post(), frame(DATA, 0, 1, b"a"), frame(HEADERS, 5, 1, &block(&[("x-a", "b")]))], Answer),
        (
            "a head with a priority",
            vec![frame(HEADERS, 5 | PRIORITIZED, 1, &[&[0, 0, 0, 3, 9][..], &head("hello")].concat())],
            Answer,
        ),
        ("an answer to settings", vec![frame(SETTINGS, ACK, 0, &[]), request()], Answer),
        ("an unknown setting", vec![setting(0xff, 1), request()], Answer),
        ("a priority of an idle stream", vec![frame(PRIORITY, 0, 7, &[0, 0, 0, 1, 9]), request()], Answer),
        ("padding longer than a head", vec![padded(HEADERS, 5, 200, &head("hello"))], ConnectionError),
        ("padding longer than a body", vec![post(), padded(DATA, 1, 200, b"body")], ConnectionError),
        ("a head on no stream", vec![frame(HEADERS, 5, 0, &head("hello"))], ConnectionError),
        ("a priority on no stream", vec![frame(PRIORITY, 0, 0, &[0, 0, 0, 1, 9])], ConnectionError),
        ("a priority of a wrong size", vec![post(), frame(PRIORITY, 0, 1, &[0; 4])], StreamError),
        ("a reset of no stream", vec![frame(RST_STREAM, 0, 0, &[0, 0, 0, 8])], ConnectionError),
        ("a reset of an idle stream", vec![frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])], ConnectionError),
        ("a reset of a wrong size", vec![post(), frame(RST_STREAM, 0, 1, &[0; 3])], ConnectionError),
        ("an answer to settings with content", vec![frame(SETTINGS, ACK, 0, &[0; 6])], ConnectionError),
        ("a push that is neither on nor off", vec![setting(2, 2)], ConnectionError),
        ("a window above its maximum", vec![setting(4, 1 << 31)], ConnectionError),
        ("frames below the minimum", vec![setting(5, 16_383)], ConnectionError),
        ("frames above the maximum", vec![setting(5, 1 << 24)], ConnectionError),
        ("a promise of a client", vec![frame(PUSH_PROMISE, 4, 1, &[0, 0, 0, 2])], ConnectionError),
        ("a goodbye on a stream", vec![frame(GOAWAY, 0, 1, &[0; 8])], ConnectionError),
        ("an update of a wrong size", vec![frame(WINDOW_UPDATE, 0, 0, &[0; 3])], ConnectionError),
        ("an update of an idle stream", vec![update(1, 1)], ConnectionError),
        ("an update of zero on a stream", vec![post(), update(1, 0)], StreamError),
        ("a window that overflows", vec![update(0, 0x7fff_ffff)], ConnectionError),
        ("a stream's window that overflows", vec![post(), update(1, 0x7fff_ffff)], StreamError),
        (
            "a continuation of another stream",
            vec![frame(HEADERS, 1, 1, &split), frame(9, 4, 3, &rest)],
            ConnectionError,
        ),
        ("a continuation after the end", vec![request(), frame(CONTINUATION, 4, 1, &rest)], ConnectionError),
        ("a second head without an end", vec![frame(HEADERS, 1, 1, &split), request()], ConnectionError),
        ("a head that is too large a frame", vec![frame(HEADERS, 5, 1, &[0; 20_000])], ConnectionError),
    ]
}

/// Section 8: requests.
fn requests() -> Vec<Case> {
    let [method, scheme] = [(":method", "GET"), (":scheme", "http")];
    let [authority, path] = [(":authority", "forge.test"), (":path", "/probe/hello")];
    let refused = |name, sent: Vec<u8>| (name, vec![sent], StreamError);
    let body = |length: &str, end: &[u8]| {
        let head = [head_of("POST", "count"), block(&[("content-length", length)])].concat();
        vec![frame(HEADERS, END_HEADERS, 1, &head), frame(DATA, END_STREAM, 1, end)]
    };
    vec![
        ("`te: trailers`", vec![request_and(&[("te", "trailers")])], Answer),
        ("cookies in parts", vec![request_and(&[("cookie", "a=b"), ("cookie", "c=d")])], Answer),
        ("a length that is right", body("4", b"body"), Answer),
        refused("no method", request_of(&[scheme, authority, path])),
        refused("no scheme", request_of(&[method, authority, path])),
        refused("no path", request_of(&[method, scheme, authority])),
        refused("an empty path", request_of(&[method, scheme, authority, (":path", "")])),
        refused("a path without a slash", request_of(&[method, scheme, authority, (":path", "?a")])),
        refused("a fragment for a path", request_of(&[method, scheme, authority, (":path", "#a")])),
        refused("an asterisk without OPTIONS", request_of(&[method, scheme, authority, (":path", "*")])),
        refused("another scheme", request_of(&[method, (":scheme", "ftp"), authority, path])),
        refused("no server", request_of(&[method, scheme, path])),
        refused("another server in `host`", request_and(&[("host", "other.test")])),
        refused("another port in `host`", request_and(&[("host", "forge.test:81")])),
        ("the same server in `host`", vec![request_and(&[("host", "forge.test:80")])], Answer),
        ("the server in `host` only", vec![request_of(&[method, scheme, path, ("host", "forge.test")])], Answer),
        refused("two methods", request_of(&[method, method, scheme, authority, path])),
        refused("two schemes", request_of(&[method, scheme, scheme, authority, path])),
        refused("two paths", request_of(&[method, scheme, authority, path, path])),
        refused("a pseudo-header after a header", request_of(&[method, scheme, authority, ("a", "b"), path])),
        refused("a pseudo-header of answers", request_of(&[method, scheme, authority, path, (":status", "200")])),
        refused("an unknown pseudo-header", request_of(&[method, scheme, authority, path, (":test", "ok")])),
        refused("a name in capitals", request_and(&[("X-TEST", "ok")])),
        refused("`connection`", request_and(&[("connection", "keep-alive")])),
        refused("`transfer-encoding`", request_and(&[("transfer-encoding", "chunked")])),
        refused("`te` of another kind", request_and(&[("te", "trailers, deflate")])),
        refused("a line feed in a value", request_and(&[("x-a", "b\nc: d")])),
        refused("a name that is none", request_and(&[("x a", "b")])),
        ("a length above the body", body("5", b"body"), StreamError),
        ("a length below the body", body("3", b"body"), StreamError),
        ("a length that is no number", body("+4", b"body"), StreamError),
        // h2 drops it, although section 8.1 requires an error. No component sees it.
        (
            "a pseudo-header in trailers",
            vec![post(), frame(DATA, 0, 1, b"a"), frame(HEADERS, 5, 1, &block(&[(":method", "GET")]))],
            Answer,
        ),
        (
            "trailers that do not end the stream",
            vec![post(), frame(DATA, 0, 1, b"a"), frame(HEADERS, END_HEADERS, 1, &block(&[("a", "b")]))],
            StreamError,
        ),
    ]
}

/// RFC 7541: header blocks.
fn header_blocks() -> Vec<Case> {
    let refused = |name, after: &[u8]| {
        let block = [head("hello"), after.to_vec()].concat();
        (name, vec![frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)], ConnectionError)
    };
    let resized = |size: &[u8]| frame(HEADERS, 5, 1, &[size, &head("hello")].concat());
    vec![
        ("a smaller table", vec![resized(&[0x20])], Answer),
        ("a table above the limit", vec![resized(&[0x3f, 0xe2, 0x1f])], ConnectionError),
        refused("a size of the table at the end", &[0x20]),
        refused("index zero", &[0x80]),
        refused("an index above the tables", &[0xc6]),
        refused("a name's index above the tables", &[0x7f, 0x10, 1, b'a']),
        refused("a number without an end", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        refused("a text that is cut off", &[0, 5, b'a']),
        refused("Huffman code with too much padding", &[0, 0x83, 0xa3, 0xff, 0xff, 1, b'a']),
        refused("Huffman code that is padded by zeros", &[0, 0x81, 0x18, 1, b'a']),
        refused("Huffman code with its end", &[0, 0x84, 0xff, 0xff, 0xff, 0xff, 1, b'a']),
    ]
}

/// Whether stream 1 was answered with 200.
pub fn is_answered(frames: &Frames) -> bool {
    frames.iter().any(|(kind, stream, payload)| (*kind, *stream) == (HEADERS, 1) && payload[0] == STATUS_200)
}

fn is_refused(frames: &Frames) -> bool {
    frames.iter().any(|(kind, stream, payload)| match *kind {
        HEADERS => *stream == 1 && payload[0] != STATUS_200,
        RST_STREAM => *stream == 1,
        _ => false,
    })
}

fn check(cases: Vec<Case>) {
    let (_server, address, _) = listen("", IngressOptions::default());
    let mut failures = Vec::new();
    for (name, sent, expected) in cases {
        // The host answers the requests under way, then closes the connection.
        let goodbye = frame(GOAWAY, 0, 0, &[0; 8]);
        let received = frames_after(connect(address), sent.into_iter().chain(iter::once(goodbye)));
        let has_failed = goaway_code(&received).is_some_and(|code| code != 0);
        let is_as_expected = match expected {
            Answer => is_answered(&received) && !has_failed,
            StreamError => !is_answered(&received) && (is_refused(&received) || has_failed),
            ConnectionError => has_failed,
        };
        if !is_as_expected {
            failures.push((name, received));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    hello(address);
}

#[test]
fn frames_have_their_rules() {
    check(frames());
}

#[test]
fn requests_have_their_rules() {
    check(requests());
}

#[test]
fn header_blocks_have_their_rules() {
    check(header_blocks());
}

#[test]
fn a_body_after_its_end_is_refused() {
    let (_server, address, _) = listen("", IngressOptions::default());
    for late in [frame(DATA, END_STREAM, 1, b"late"), request()] {
        let received = frames_after(connect(address), [request(), late, frame(GOAWAY, 0, 0, &[0; 8])].into_iter());
        let has_failed = goaway_code(&received).is_some_and(|code| code != 0);
        let is_reset = received.iter().any(|(kind, stream, _)| (*kind, *stream) == (RST_STREAM, 1));
        assert!(has_failed || is_reset, "{received:?}");
    }
    hello(address);
}

#[test]
fn a_body_stops_at_the_end_of_its_window() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let mut client = connect(address);
    client.write_all(&[setting(4, 1), request()].concat()).unwrap();
    let body = |client: &mut _| iter::from_fn(|| next_frame(client)).find(|(kind, ..)| *kind == DATA).unwrap().2;
    assert_eq!(body(&mut client), b"h");
    client.write_all(&update(1, 100)).unwrap();
    // The host sends the last byte as a frame of its own.
    assert_eq!([body(&mut client), body(&mut client)].concat(), b"ello");
}

#[test]
fn streams_beyond_the_most_at_once_are_refused() {
    /// SETTINGS_MAX_CONCURRENT_STREAMS and REFUSED_STREAM.
    const MAX_STREAMS: [u8; 2] = [0, 3];
    const REFUSED: u32 = 7;
    let (_server, address, _) = listen("", IngressOptions { max_streams: 3, ..IngressOptions::default() });
    let mut client = connect(address);
    let begin = |stream| frame(HEADERS, END_HEADERS, stream, &head_of("POST", "count"));
    client.write_all(&[1, 3, 5, 7].map(begin).concat()).unwrap();
    let mut advertised = None;
    let refused = loop {
        let (kind, stream, payload) = next_frame(&mut client).unwrap();
        if kind == RST_STREAM {
            break (stream, u32::from_be_bytes(payload.try_into().unwrap()));
        }
        let setting = payload.chunks(6).find(|setting| kind == SETTINGS && setting.starts_with(&MAX_STREAMS));
        advertised = setting.map(|setting| setting[2..].to_vec()).or(advertised);
    };
    assert_eq!(refused, (7, REFUSED));
    assert_eq!(advertised, Some(vec![0, 0, 0, 3]));
    // When a stream and the data of its response have ended, another stream may begin.
    client.write_all(&frame(DATA, END_STREAM, 1, b"x")).unwrap();
    while next_frame(&mut client).is_some_and(|(kind, stream, _)| (kind, stream) != (DATA, 1)) {}
    client.write_all(&[begin(9), frame(DATA, END_STREAM, 9, b"x")].concat()).unwrap();
    let answer = iter::from_fn(|| next_frame(&mut client)).find(|(_, stream, _)| *stream == 9).unwrap();
    assert_eq!((answer.0, answer.2[0]), (HEADERS, STATUS_200));
}
