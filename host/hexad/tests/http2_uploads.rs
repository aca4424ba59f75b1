//! Bodies of requests over HTTP/2: how much a client may send before a guest has read it.

use crate::fairness::connect_from;
use crate::http2::{DATA, DEFAULT_WINDOW, head_of, whole};
use crate::http2_unread::client_with_window;
use crate::*;
use std::future::poll_fn;

const ACK: u8 = 1;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// The windows of a connection and of its streams.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Windows {
    connection: u32,
    stream: u32,
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().unwrap())
}

/// Reads until the host has answered `pings`, and records the windows that it announces before.
fn read_windows(client: &mut TcpStream, pings: u32, mut windows: Windows) -> Windows {
    for _ in 0..pings {
        client.write_all(&frame(PING, 0, 0, &[1; 8])).unwrap();
        loop {
            match next_frame(client).unwrap() {
                (PING, ..) => break,
                (SETTINGS, _, settings) => {
                    for setting in settings.chunks(6) {
                        if u16::from_be_bytes([setting[0], setting[1]]) == INITIAL_WINDOW_SIZE {
                            windows.stream = number(&setting[2..]);
                        }
                    }
                }
                (WINDOW_UPDATE, 0, increment) => windows.connection += number(&increment),
                (WINDOW_UPDATE, _, increment) => windows.stream += number(&increment),
                other => panic!("{other:?}"),
            }
        }
    }
    windows
}

fn connect_with_windows(address: SocketAddr) -> (TcpStream, Windows) {
    let mut client = connect(address);
    let windows = read_windows(&mut client, 2, Windows { connection: DEFAULT_WINDOW, stream: DEFAULT_WINDOW });
    // From here on, the host's own setting applies to the windows of streams.
    client.write_all(&frame(SETTINGS, ACK, 0, &[])).unwrap();
    (client, windows)
}

#[test]
fn the_more_connections_a_client_has_the_less_each_may_send_ahead() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let (_first, few) = connect_with_windows(address);
    assert_eq!(few, Windows { connection: 1 << 20, stream: 1 << 19 });
    let _connections: Vec<_> = (1..63).map(|_| connect(address)).collect();
    let (_last, many) = connect_with_windows(address);
    assert_eq!(many, Windows { connection: 256 << 10, stream: 128 << 10 });
    hello(address);
}

#[test]
fn a_body_that_no_guest_reads_opens_no_window() {
    let tool = "instances = 2\nqueue_timeout = \"1h\"\nrequest_timeout = \"1h\"";
    let (server, address, _) = listen(tool, IngressOptions::default());
    let (mut client, windows) = connect_with_windows(address);
    // The client's share is one of two instances, so its second request waits.
    client.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head("never"))).unwrap();
    wait_for_busy(&server, 1);
    client.write_all(&frame(HEADERS, END_HEADERS, 3, &head_of("POST", "count"))).unwrap();
    for _ in 0..windows.stream / 16_384 {
        client.write_all(&frame(DATA, 0, 3, &[0; 16_384])).unwrap();
    }
    assert_eq!(read_windows(&mut client, 2, windows), windows);
    drop(client);
    wait_for_busy(&server, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_its_guest_reads_may_be_larger_than_any_window() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let client = client_with_window(address, DEFAULT_WINDOW).await;
    let request = Request::post("http://forge.test/probe/count").body(()).unwrap();
    let (response, mut body) = client.ready().await.unwrap().send_request(request, false).unwrap();
    let mut left = 5_000_000;
    while left > 0 {
        body.reserve_capacity(left);
        let granted = poll_fn(|cx| body.poll_capacity(cx)).await.unwrap().unwrap().min(left);
        left -= granted;
        body.send_data(vec![0; granted].into(), left == 0).unwrap();
    }
    assert_eq!(whole(response.await.unwrap()).await, b"5000000");
}

/// Whether the first response of a connection has another status than 200.
fn is_refused(client: &mut TcpStream) -> bool {
    loop {
        if let (HEADERS, _, block) = next_frame(client).unwrap() {
            // The static table of HPACK has 200 under this index.
            return block.first() != Some(&0x88);
        }
    }
}

#[test]
fn an_address_may_fill_half_of_the_receive_budget() {
    let tool = "instances = 2\nqueue_timeout = \"1h\"\nrequest_timeout = \"1h\"";
    let options = IngressOptions { receive_buffer: 2 << 20, ..IngressOptions::default() };
    let (server, address, ingress) = listen(tool, options);
    let greedy = Ipv4Addr::new(127, 0, 0, 2);
    let begin = |source| {
        let mut client = connect_from(source, address);
        client.write_all(PREFACE).unwrap();
        client.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        client.write_all(&frame(HEADERS, END_HEADERS, 1, &head_of("POST", "count"))).unwrap();
        client
    };
    // One address may use half of the budget: two bodies.
    let mut held: Vec<_> = (0..2).map(|_| begin(greedy)).collect();
    wait_until(SOON, "two bodies in the receive budget", || ingress.receive_budget.used() >= 1 << 20);
    assert!(is_refused(&mut begin(greedy)));
    let mut other = begin(Ipv4Addr::new(127, 0, 0, 3));
    other.write_all(&frame(DATA, END_STREAM, 1, &[0; 10])).unwrap();
    assert!(!is_refused(&mut other));
    hello(address);
    for client in &mut held {
        client.write_all(&frame(DATA, END_STREAM, 1, &[0; 16_384])).unwrap();
        assert!(!is_refused(client));
    }
    drop((held, other));
    wait_until(SOON, "an empty receive budget", || ingress.receive_budget.used() == 0);
    wait_for_busy(&server, 0);
}

/// RFC 9110, section 10.1.1: a client that expects `100 Continue` gets that or a final status at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_waits_for_100_continue_is_told_to_send_without_it() {
    let mut server = Server::with("max_body = \"1000\"");
    let address = server.listen();
    let client = client_with_window(address, DEFAULT_WINDOW).await;
    let send = async |length: &str, ends: bool, data: &'static [u8]| {
        let mut client = client.clone().ready().await.unwrap();
        let request = Request::post("http://a/probe/count").header("expect", "100-continue");
        let request = request.header("content-length", length).body(()).unwrap();
        let (response, mut body) = client.send_request(request, ends).unwrap();
        if !data.is_empty() {
            body.send_data(Bytes::from_static(data), true).unwrap();
        }
        response.await.unwrap().status()
    };
    assert_eq!(send("1000", false, b"").await, 417);
    assert_eq!(send("1001", false, b"").await, 413, "it would be too large");
    assert_eq!(send("0", true, b"").await, 200, "there is no body to wait with");
    assert_eq!(send("4", false, b"data").await, 200, "it does not wait for ever");
}
