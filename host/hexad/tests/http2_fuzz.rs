//! Frames and header blocks of HTTP/2 that are not what they seem, requests to the operator's listener, and random
//! changes of all of them.
//!
//! `corpus/frames` has one file for each sequence of frames that a client sends once its connection is open, and
//! `corpus/header-blocks` one for each head of a request. The name begins with the expected result. `200` means that
//! stream 1 gets this status, `error` that the connection ends with an error. `any` allows everything but a failure of
//! the host. `corpus/operator` is like `corpus/requests`.

use crate::fuzz::{Changes, assert_no_panic, bytes, corpus, watch_panics};
use crate::health::ask;
use crate::http2::{frames_after, goaway_code};
use crate::http2_rules::is_answered;
use crate::ingress_fuzz::{HANGS, assert_statuses, exchange, read_until_closed, statuses};
use crate::*;
use std::iter;
use std::net::Shutdown;

/// Changed inputs of each kind per run. They are the same in each run.
const CHANGED: usize = 1500;

/// Changed inputs over TLS. Each needs a handshake.
const CHANGED_OVER_TLS: usize = 300;

/// Changed inputs between two well-formed requests.
const BATCH: usize = 50;

/// Frames that change the state of a connection or of stream 1, and heads of frames.
const FRAMES: &[&[u8]] = &[
    // Settings: an answer, no window, no table of headers, the largest frames.
    b"\0\0\0\x04\x01\0\0\0\0",
    b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0",
    b"\0\0\x06\x04\0\0\0\0\0\0\x01\0\0\0\0",
    b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\xff\xff\xff",
    // Windows: of the connection and of a stream, up to the maximum, and not at all.
    b"\0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0",
    b"\0\0\x04\x08\0\0\0\0\x01\x7f\xff\xff\xff",
    b"\0\0\x04\x08\0\0\0\0\x01\0\0\0\0",
    // A ping, a reset, a stream that depends on itself, a goodbye.
    b"\0\0\x08\x06\0\0\0\0\0 a ping ",
    b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08",
    b"\0\0\x05\x02\0\0\0\0\x01\x80\0\0\x01\xff",
    b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0",
    // Data with and without an end, a continuation, a head, a promise.
    b"\0\0\x01\0\x01\0\0\0\x01x",
    b"\0\0\x05\0\x08\0\0\0\x01\x04\0\0\0\0",
    b"\0\0\x01\x09\x04\0\0\0\x01\x82",
    b"\0\0\x02\x01\x05\0\0\0\x03\x82\x86",
    b"\0\0\x05\x05\x04\0\0\0\x01\0\0\0\x02\x82",
    b"\xff\xff\xff\0\0\0\0\0\x01",
    b"\0\0\0\xff\xff\xff\xff\xff\xff",
];

/// Fields, and beginnings of them.
const FIELDS: &[&[u8]] = &[
    // Indices: none, of the static table, of the first field that was added, above all, without an end.
    b"\x80",
    b"\x82",
    b"\x84",
    b"\x88",
    b"\xbe",
    b"\xff\x80\x01",
    b"\xff\xff\xff\xff\xff\x0f",
    // Sizes of the table.
    b"\x20",
    b"\x3f\xe1\x1f",
    b"\x3f\xff\xff\xff\xff\x0f",
    // Fields that are added, are not, and never are.
    b"\x40\x03x-a\x01b",
    b"\0\x03x-a\0",
    b"\x10\x03X-A\x01\n",
    b"\x60\x03a=b",
    b"\x0f\x0d\x015",
    b"\0\x02te\x08trailers",
    // Texts: longer than the block, with the end of the Huffman code, with too much padding.
    b"\0\x7f\xff\xff\xff\x07",
    b"\0\x84\xff\xff\xff\xff\x01a",
    b"\0\x83\xa3\xff\xff\x01a",
];

/// The bytes by which a client opens a connection.
fn opening() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// The head of a request without a body.
fn request(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, block)
}

/// A connection on which a hang is an error.
fn connect_in_time(address: SocketAddr) -> TcpStream {
    let client = connect(address);
    client.set_read_timeout(Some(HANGS)).unwrap();
    client
}

/// Each frame of an input.
fn frames(mut input: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let [high, middle, low, ..] = *input {
        let end = 9 + u32::from_be_bytes([0, high, middle, low]) as usize;
        let (frame, rest) = input.split_at(end.min(input.len()));
        frames.push(frame);
        input = rest;
    }
    frames
}

/// Sends a well-formed request on a new connection.
fn assert_serves(mut client: impl Read + Write) {
    client.write_all(&[opening(), request(1, &head("hello"))].concat()).unwrap();
    let answer = iter::from_fn(|| next_frame(&mut client)).find(|(kind, ..)| *kind == HEADERS);
    assert!(is_answered(&[answer.expect("an answer")]));
}

/// Checks that the host has failed no request.
fn assert_in_order(server: &Server) {
    wait_for_busy(server, 0);
    for service in server.host.services() {
        let statuses = service.metrics().statuses();
        assert!(statuses.iter().all(|(status, _)| *status < 500), "{statuses:?}");
    }
    assert_no_panic();
}

#[test]
fn each_input_of_the_corpora_has_the_result_in_its_name() {
    watch_panics();
    let (server, address, _) = listen("", IngressOptions::default());
    let heads = corpus("header-blocks").into_iter().map(|(name, block)| (name, request(1, &block)));
    for (name, sent) in corpus("frames").into_iter().chain(heads) {
        // The host answers the requests under way, then closes the connection.
        let goodbye = frame(GOAWAY, 0, 0, &[0; 8]);
        let received = frames_after(connect(address), iter::once([sent, goodbye].concat()));
        let has_failed = goaway_code(&received).is_some_and(|code| code != 0);
        match name.split_once('-').unwrap().0 {
            "200" => assert!(is_answered(&received) && !has_failed, "{name}: {received:?}"),
            "error" => assert!(has_failed, "{name}: {received:?}"),
            _ => {}
        }
    }
    assert_in_order(&server);
}

#[test]
fn changed_bytes_neither_hang_nor_fail_the_host() {
    watch_panics();
    let (server, address, _) = listen("", IngressOptions::default());
    for (number, sent) in Changes::of_corpus("frames", bytes, FRAMES).take(CHANGED).enumerate() {
        exchange(address, &[opening(), sent].concat(), true);
        if number % BATCH == 0 {
            assert_serves(wait::connect(address));
        }
    }
    assert_in_order(&server);
}

#[test]
fn changed_bytes_over_tls_neither_hang_nor_fail_the_host() {
    watch_panics();
    let folder = tempfile::tempdir().unwrap();
    let root = certificate(folder.path());
    let (server, address, _) = listen("", with_tls(&folder));
    let connect = || {
        let client = connect_tls(address, &root, "h2").unwrap();
        client.sock.set_read_timeout(Some(HANGS)).unwrap();
        client
    };
    for (number, sent) in Changes::of_corpus("frames", bytes, FRAMES).take(CHANGED_OVER_TLS).enumerate() {
        let mut client = connect();
        // The host may close the connection before it has read everything.
        let _ = client.write_all(&[opening(), sent.clone()].concat());
        client.conn.send_close_notify();
        let _ = client.flush();
        read_until_closed(&mut client, &sent);
        if number % BATCH == 0 {
            assert_serves(connect());
        }
    }
    assert_in_order(&server);
}

#[test]
fn changed_sequences_of_frames_neither_hang_nor_fail_the_host() {
    const LAST: &[u8] = b"the last";
    watch_panics();
    let (server, address, _) = listen("", IngressOptions::default());
    for (number, sent) in Changes::of_corpus("frames", frames, FRAMES).take(CHANGED).enumerate() {
        let mut client = connect_in_time(address);
        let _ = client.write_all(&[&sent[..], &frame(PING, 0, 0, LAST)].concat());
        // No input is cut off, so the host also answers the ping, unless it closes the connection.
        if iter::from_fn(|| next_frame(&mut client)).any(|(kind, _, payload)| kind == PING && payload == LAST) {
            let _ = client.shutdown(Shutdown::Write);
        }
        read_until_closed(&mut client, &sent);
        if number % BATCH == 0 {
            assert_serves(wait::connect(address));
        }
    }
    assert_in_order(&server);
}

#[test]
fn changed_header_blocks_neither_hang_nor_fail_the_host() {
    watch_panics();
    let (server, address, _) = listen("", IngressOptions::default());
    // The requests of a connection share its dynamic header table.
    let (mut client, mut stream) = (connect_in_time(address), 1);
    for (number, block) in Changes::of_corpus("header-blocks", bytes, FIELDS).take(CHANGED).enumerate() {
        let _ = client.write_all(&request(stream, &block));
        let is_end = |kind| kind == HEADERS || kind == RST_STREAM;
        if iter::from_fn(|| next_frame(&mut client)).any(|(kind, of, _)| of == stream && is_end(kind)) {
            stream += 2;
        } else {
            read_until_closed(&mut client, &block);
            (client, stream) = (connect_in_time(address), 1);
        }
        if number % BATCH == 0 {
            assert_serves(wait::connect(address));
        }
    }
    drop(client);
    assert_in_order(&server);
}

#[test]
fn changed_requests_neither_hang_nor_fail_the_operators_listener() {
    watch_panics();
    let mut server = Server::with("");
    // The token that requests of the corpus have.
    let access = server.host.administer("127.0.0.1:0".parse().unwrap(), Some("operator".to_owned())).unwrap();
    let address: SocketAddr = access.url.strip_prefix("http://").unwrap().parse().unwrap();
    assert_statuses(address, "operator");
    for (number, sent) in Changes::of_corpus("operator", bytes, ingress_fuzz::PIECES).take(CHANGED).enumerate() {
        let found = statuses(&exchange(address, &sent, true));
        assert!(found.iter().all(|status| *status < 500), "{:?}: {found:?}", String::from_utf8_lossy(&sent));
        if number % BATCH == 0 {
            assert_eq!(ask(&access, "/readyz"), (200, "ready\n".to_owned()));
        }
    }
    assert_in_order(&server);
}
