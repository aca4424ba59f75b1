//! HTTP/2 connections of clients that break the rules.

use crate::http2_unread::client_with_window;
use crate::slow_readers::begin;
use crate::*;
use hexad_testing::wait::{assert_in_time, write_to_close};

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames (RFC 9113, section 6).
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// A window before any setting or update (RFC 9113, section 6.9.2).
pub const DEFAULT_WINDOW: u32 = 65_535;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The header block of `GET /probe/{path}`, without compression.
pub fn head(path: &str) -> Vec<u8> {
    head_of("GET", path)
}

pub fn head_of(method: &str, path: &str) -> Vec<u8> {
    let mut block = Vec::new();
    let path = format!("/probe/{path}");
    for (name, value) in [(":method", method), (":scheme", "http"), (":authority", "forge.test"), (":path", &path)] {
        field(&mut block, name, value);
    }
    block
}

/// A literal field that is not indexed (RFC 7541, section 6.2.2); lengths below 127.
pub fn field(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        block.push(u8::try_from(text.len()).unwrap());
        block.extend(text.as_bytes());
    }
}

/// Frames: type, stream and payload.
pub type Frames = [(u8, u32, Vec<u8>)];

/// A connection that has sent its preface and empty settings.
pub fn connect(address: SocketAddr) -> TcpStream {
    let mut client = wait::connect(address);
    client.write_all(PREFACE).unwrap();
    client.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    client
}

/// Sends as many of the frames as the host reads. Returns the host's frames until it closes.
pub fn frames_after(
    mut client: TcpStream,
    sent: impl Iterator<Item = Vec<u8>> + Send + 'static,
) -> Vec<(u8, u32, Vec<u8>)> {
    let mut writer = client.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        for frame in sent {
            if writer.write_all(&frame).is_err() {
                return;
            }
        }
    });
    let frames = std::iter::from_fn(|| next_frame(&mut client)).collect();
    drop(client);
    join(writing, "the end of the writes");
    frames
}

/// The next frame. `None` if the host has closed the connection, perhaps by a reset.
#[track_caller]
pub fn next_frame(client: &mut impl Read) -> Option<(u8, u32, Vec<u8>)> {
    let mut read = |buffer: &mut [u8]| client.read_exact(buffer).inspect_err(assert_in_time).ok();
    let mut head = [0; 9];
    read(&mut head)?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    let mut payload = vec![0; length as usize];
    read(&mut payload)?;
    Some((head[3], stream, payload))
}

pub fn goaway_code(frames: &Frames) -> Option<u32> {
    let goaway = frames.iter().rev().find(|(kind, ..)| *kind == GOAWAY)?;
    Some(u32::from_be_bytes(goaway.2[4..8].try_into().unwrap()))
}

pub fn hello(address: SocketAddr) {
    assert_hello(&rest(begin(address, "hello")).unwrap());
}

pub fn get(path: &str) -> Request<()> {
    Request::get(format!("http://forge.test/probe/{path}")).body(()).unwrap()
}

/// The whole body of a response.
pub async fn whole(response: http::Response<h2::RecvStream>) -> Vec<u8> {
    let (mut body, mut whole) = (response.into_body(), Vec::new());
    while let Some(data) = body.data().await {
        whole.extend_from_slice(&data.unwrap());
    }
    whole
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_takes_no_requests_when_it_is_too_old() {
    let options = IngressOptions { max_connection_age: Duration::from_millis(100), ..IngressOptions::default() };
    let (_server, address, _) = listen("", options);
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let mut client: SendRequest<Bytes> = client;
    let (response, _) = client.send_request(get("sleep?ms=500"), true).unwrap();
    let ended = tokio::spawn(connection);
    assert_eq!(whole(response.await.unwrap()).await, b"slept");
    drop(client);
    ended.await.unwrap().unwrap();
}

#[test]
fn an_idle_connection_makes_room_for_another_client() {
    let keep_alive = Duration::from_secs(3600);
    let options = IngressOptions { connections: 2, keep_alive, ..IngressOptions::default() };
    let (_server, address, _) = listen("", options);
    let mut idle: Vec<_> = (0..2).map(|_| connect(address)).collect();
    for client in &mut idle {
        client.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &head("hello"))).unwrap();
        while next_frame(client).expect("a response").0 != HEADERS {}
    }
    hello(address);
    let frames: Vec<_> = std::iter::from_fn(|| next_frame(&mut idle[0])).collect();
    assert!(frames.iter().any(|(kind, ..)| *kind == GOAWAY), "{frames:?}");
}

#[test]
fn a_request_that_crosses_the_end_of_an_idle_connection_is_answered() {
    let keep_alive = Duration::from_secs(3600);
    let options = IngressOptions { connections: 1, keep_alive, ..IngressOptions::default() };
    let (_server, address, _) = listen("", options);
    let mut client = connect(address);
    client.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &head("hello"))).unwrap();
    while next_frame(&mut client).expect("a response").0 != HEADERS {}
    // The other client needs the only connection that the listener may have.
    let other = std::thread::spawn(move || hello(address));
    while next_frame(&mut client).expect("the end of the connection").0 != GOAWAY {}
    // Until the client answers the ping that follows, the host cannot know which requests the client sent before.
    client.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 3, &head("sleep?ms=1500"))).unwrap();
    let mut answer: Vec<u8> = Vec::new();
    while answer.len() < b"slept".len() {
        let (kind, stream, payload) = next_frame(&mut client).expect("an answer");
        answer.extend(payload.iter().filter(|_| (kind, stream) == (DATA, 3)));
    }
    assert_eq!(answer, b"slept");
    // The client does not answer the ping. The host closes its connection once no request is under way.
    join(other, "the other client");
}

#[test]
fn a_head_that_never_ends_closes_the_connection() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let start = std::iter::once(frame(HEADERS, END_STREAM, 1, &head("hello")));
    let mut filler = Vec::new();
    field(&mut filler, "x-filler", &"a".repeat(100));
    let endless = std::iter::repeat_with(move || frame(CONTINUATION, 0, 1, &filler.repeat(100)));
    let frames = frames_after(connect(address), start.chain(endless));
    assert!(frames.iter().all(|(kind, ..)| *kind != HEADERS), "no response");
    hello(address);
}

#[test]
fn a_head_that_is_too_large_fails_its_stream_only() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let mut large = head("hello");
    for n in 0..1000 {
        field(&mut large, &format!("x-{n}"), &"a".repeat(100));
    }
    let mut blocks = large.chunks(16_000);
    let mut sent = vec![frame(HEADERS, END_STREAM, 1, blocks.next().unwrap())];
    let blocks: Vec<_> = blocks.collect();
    for (index, block) in blocks.iter().enumerate() {
        let flags = if index + 1 == blocks.len() { END_HEADERS } else { 0 };
        sent.push(frame(CONTINUATION, flags, 1, block));
    }
    sent.push(frame(HEADERS, END_STREAM | END_HEADERS, 3, &head("hello")));
    sent.push(frame(GOAWAY, 0, 0, &[0; 8]));
    let frames = frames_after(connect(address), sent.into_iter());
    let small = frames.iter().filter(|(kind, stream, _)| *kind == HEADERS && *stream == 3).count();
    // hyper refuses the stream, or the connection if the head is far too large.
    assert!(small == 1 || goaway_code(&frames).is_some(), "{frames:?}");
    hello(address);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_has_at_most_as_many_fields_as_over_http1() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let mut client = client_with_window(address, DEFAULT_WINDOW).await;
    for (fields, status) in [(100, 200), (101, 431), (1, 200)] {
        let mut request = get("hello");
        // The host removes this header, but counts it.
        request.headers_mut().insert("x-real-ip", "192.0.2.1".parse().unwrap());
        for _ in 1..fields {
            request.headers_mut().append("x", "".parse().unwrap());
        }
        let response = client.send_request(request, true).unwrap().0.await.unwrap();
        assert_eq!(response.status(), status, "{fields} fields");
    }
}

#[test]
fn rapid_resets_close_the_connection() {
    let (server, address, _) = listen("", IngressOptions::default());
    let resets = (0..100_000u32).flat_map(|n| {
        let stream = 2 * n + 1;
        let cancel = 8u32.to_be_bytes();
        [frame(HEADERS, END_STREAM | END_HEADERS, stream, &head("hello")), frame(RST_STREAM, 0, stream, &cancel)]
    });
    let frames = frames_after(connect(address), resets);
    let enhance_your_calm = 11;
    assert_eq!(goaway_code(&frames), Some(enhance_your_calm));
    wait_for_busy(&server, 0);
    hello(address);
}

/// The host closes the connection with unread bytes, so the kernel may reset it before the client has read the reason.
fn assert_calm_or_reset(frames: &Frames) {
    let enhance_your_calm = 11;
    let code = goaway_code(frames);
    assert!(code.is_none_or(|code| code == enhance_your_calm), "{code:?}");
}

/// Client frames that cost work and carry nothing, more of each than any client needs.
fn floods() -> Vec<(&'static str, Vec<u8>)> {
    let setting = [0, 4, 0, 0, 0xff, 0xff];
    vec![
        ("pings", frame(PING, 0, 0, &[1; 8])),
        ("answers to pings", frame(PING, 1, 0, &[1; 8])),
        ("settings", frame(SETTINGS, 0, 0, &setting)),
        ("empty settings", frame(SETTINGS, 0, 0, &[])),
        ("priorities", frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 10])),
        ("updates of windows", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("unknown frames", frame(0xb7, 0, 0, b"grease")),
    ]
}

#[test]
fn floods_of_frames_that_carry_nothing_close_the_connection() {
    let (_server, address, _) = listen("", IngressOptions::default());
    for (name, flood) in floods() {
        let frames = frames_after(connect(address), std::iter::repeat_n(flood.repeat(100), 1000));
        assert_calm_or_reset(&frames);
        let answers = frames.iter().filter(|(kind, ..)| *kind == PING || *kind == SETTINGS).count();
        assert!(answers <= 1100, "{name}: {answers} answers");
    }
    hello(address);
}

#[test]
fn a_flood_whose_answers_are_not_read_closes_the_connection() {
    let (_server, address, _) = listen("", IngressOptions::default());
    for (_, flood) in floods() {
        let mut client = connect(address);
        // The host reads no more than it can answer, and closes the connection by a reset.
        write_to_close(&mut client, &flood.repeat(100));
        hello(address);
    }
}

#[test]
fn empty_data_that_does_not_end_closes_the_connection() {
    let (server, address, _) = listen("", IngressOptions::default());
    let post = frame(HEADERS, END_HEADERS, 1, &head_of("POST", "count"));
    let padded = 8;
    for (name, empty) in [
        ("empty", frame(DATA, 0, 1, &[])),
        ("without padding", frame(DATA, padded, 1, &[0])),
        ("padding alone", frame(DATA, padded, 1, &[&[255][..], &[0; 255]].concat())),
    ] {
        let sent = std::iter::once(post.clone()).chain(std::iter::repeat_n(empty.repeat(100), 1000));
        let frames = frames_after(connect(address), sent);
        assert!(!frames.is_empty(), "{name}");
        assert_calm_or_reset(&frames);
        wait_for_busy(&server, 0);
    }
    hello(address);
}

#[test]
fn as_many_pings_as_a_client_needs_are_answered() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let pings = (0..500u64).map(|number| frame(PING, 0, 0, &number.to_be_bytes()));
    let frames = frames_after(connect(address), pings.chain([frame(GOAWAY, 0, 0, &[0; 8])]));
    let answers: Vec<_> = frames.iter().filter(|(kind, ..)| *kind == PING).collect();
    assert_eq!(answers.len(), 500);
    assert_eq!(answers[499].2, 499u64.to_be_bytes());
}

#[test]
fn frames_against_the_rules_close_the_connection() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let request = |stream| frame(HEADERS, END_STREAM | END_HEADERS, stream, &head("hello"));
    for (name, sent) in [
        ("a stream of the server", vec![request(2)]),
        ("a lower stream", vec![request(5), request(3)]),
        ("a ping of a wrong size", vec![frame(PING, 0, 0, &[0; 7])]),
        ("a ping on a stream", vec![frame(PING, 0, 1, &[0; 8])]),
        ("settings on a stream", vec![frame(SETTINGS, 0, 1, &[])]),
        ("settings of a wrong size", vec![frame(SETTINGS, 0, 0, &[0; 5])]),
        ("an increment of zero", vec![frame(WINDOW_UPDATE, 0, 0, &[0; 4])]),
        ("a continuation of nothing", vec![frame(CONTINUATION, END_HEADERS, 1, &[])]),
        ("another frame in a head", vec![frame(HEADERS, 0, 1, &head("hello")), frame(PING, 0, 0, &[0; 8])]),
        ("data on no stream", vec![frame(0, 0, 0, b"data")]),
        ("data on an idle stream", vec![frame(0, 0, 1, b"data")]),
        ("a frame that is too large", vec![frame(0, 0, 1, &[0; 20_000])]),
        ("an invalid header block", vec![frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0xff; 20])]),
    ] {
        let frames = frames_after(connect(address), sent.into_iter());
        assert!(goaway_code(&frames).is_some_and(|code| code != 0), "{name}: {frames:?}");
    }
    hello(address);
}

#[test]
fn a_preface_that_is_cut_off_is_no_request() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let mut client = wait::connect(address);
    client.write_all(&PREFACE[..20]).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let answer = rest(client).unwrap();
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer));
}
