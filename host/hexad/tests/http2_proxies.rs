//! Proxies that share one HTTP/2 connection among their clients.

use crate::http2::{field, get, goaway_code, whole};
use crate::*;
use hexad_testing::wait::assert_in_time;

const ENHANCE_YOUR_CALM: u32 = 11;

/// The flag of a head with a dependency.
const PRIORITY: u8 = 0x20;

fn of_proxies() -> IngressOptions {
    IngressOptions { proxies: vec!["127.0.0.0/8".parse().unwrap()], ..IngressOptions::default() }
}

/// A head that the HTTP implementation refuses: no URI has this path.
fn malformed() -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [(":method", "GET"), (":scheme", "http"), (":authority", "forge.test"), (":path", "/a<b")] {
        field(&mut block, name, value);
    }
    block
}

/// Sends malformed requests one after the other, and returns how many of them were refused.
fn refused(client: &mut TcpStream, requests: u32) -> u32 {
    for number in 0..requests {
        let stream = 2 * number + 1;
        if client.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, stream, &malformed())).is_err() {
            return number;
        }
        loop {
            match next_frame(client) {
                Some((RST_STREAM, of, _)) if of == stream => break,
                Some((GOAWAY, ..)) | None => return number,
                Some(_) => {}
            }
        }
    }
    requests
}

fn assert_served(client: &mut TcpStream, stream: u32) {
    client.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, stream, &head("hello"))).unwrap();
    let answer = std::iter::from_fn(|| next_frame(client)).find(|(kind, ..)| [HEADERS, GOAWAY].contains(kind));
    assert!(answer.as_ref().is_some_and(|(kind, of, _)| (*kind, *of) == (HEADERS, stream)), "{answer:?}");
}

#[test]
fn malformed_requests_do_not_end_the_connection_of_a_proxy() {
    let (_server, address, _) = listen("", of_proxies());
    let mut client = connect(address);
    assert_eq!(refused(&mut client, 1000), 1000);
    assert_served(&mut client, 2001);
}

#[test]
fn malformed_requests_end_the_connection_of_a_client_that_sends_many_of_them() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let mut client = connect(address);
    assert_eq!(refused(&mut client, 200), 200, "few of them do not");
    assert_served(&mut client, 401);

    let mut client = connect(address);
    let requests = (0..100_000).map(|n| frame(HEADERS, END_STREAM | END_HEADERS, 2 * n + 1, &malformed()));
    let mut writer = client.try_clone().unwrap();
    let writing = std::thread::spawn(move || requests.take_while(|head| writer.write_all(head).is_ok()).count());
    let frames: Vec<_> = std::iter::from_fn(|| next_frame(&mut client)).collect();
    drop(client);
    assert!(join(writing, "the end of the writes") < 100_000);
    assert!(goaway_code(&frames).is_none_or(|code| code == ENHANCE_YOUR_CALM), "{:?}", goaway_code(&frames));
}

/// h2 keeps a stream for each reset until the reset is written.
#[test]
fn errors_of_a_client_that_does_not_read_are_bounded() {
    let drain = DrainPolicy { min_rate: 0, period: Duration::from_secs(3600) };
    let send = SendLimits { per_connection: 256 << 10, ..SendLimits::default() };
    let (server, address, ingress) = listen("", IngressOptions { drain, send, ..IngressOptions::default() });
    let mut client = connect(address);
    let window = (1u32 << 30).to_be_bytes();
    client.write_all(&frame(SETTINGS, 0, 0, &[&[0, 4][..], &window].concat())).unwrap();
    client.write_all(&frame(WINDOW_UPDATE, 0, 0, &window)).unwrap();
    client.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &head("flood?mib=64"))).unwrap();
    // Waits until the kernel takes no more bytes.
    wait_until(SOON, "a full send budget", || ingress.send_budgets.used() >= send.per_connection);
    // Streams that depend on themselves (RFC 9113, section 5.3.1).
    for stream in (3..20_000u32).step_by(2) {
        let dependency = [&stream.to_be_bytes()[..], &[0]].concat();
        let request = frame(HEADERS, END_STREAM | END_HEADERS | PRIORITY, stream, &dependency);
        if let Err(error) = client.write_all(&request) {
            assert_in_time(&error);
            break;
        }
    }
    // The connection has ended, and the guest's client with it.
    wait_for_busy(&server, 0);
}

/// A request of a client that the proxy names.
fn of(client: &str, path: &str) -> Request<()> {
    let mut request = get(path);
    request.headers_mut().insert("x-forwarded-for", client.parse().unwrap());
    request
}

async fn connect_proxy(address: SocketAddr) -> (SendRequest<Bytes>, h2::PingPong) {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    // Data of a stream that the client has reset is not an error of the host.
    let mut builder = h2::client::Builder::new();
    let handshake = builder.max_local_error_reset_streams(None).handshake(stream);
    let (client, mut connection) = handshake.await.unwrap();
    let pings = connection.ping_pong().unwrap();
    tokio::spawn(connection);
    (client, pings)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resets_of_one_client_of_a_proxy_cost_the_others_nothing() {
    for path in ["never", "stall", "flood?mib=8"] {
        let (server, address, _) = listen("instances = 64", of_proxies());
        let (mut client, mut pings) = connect_proxy(address).await;
        let (other, mut upload) = client.send_request(of("10.1.1.1", "echo"), false).unwrap();
        for _ in 0..400 {
            let request = of("10.2.2.2", path);
            let (response, mut sent) = client.send_request(request, false).unwrap();
            // The server has read the request's head when it answers.
            pings.ping(h2::Ping::opaque()).await.unwrap();
            if path != "never" {
                // The body of `stall` is in two frames; a client gives up on a host whose small frames it has not read.
                let mut body = response.await.unwrap().into_body();
                for _ in 0..2 {
                    body.data().await.transpose().unwrap();
                }
            }
            sent.send_reset(h2::Reason::CANCEL);
        }
        let (response, _) = client.send_request(of("10.2.2.2", "hello"), true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), 429, "{path}");
        assert!(response.headers().contains_key("retry-after"));
        let (response, _) = client.send_request(of("10.3.3.3", "hello"), true).unwrap();
        assert_eq!(response.await.unwrap().status(), 200, "{path}");
        upload.send_data(Bytes::from_static(b"the end"), true).unwrap();
        assert_eq!(whole(other.await.unwrap()).await, b"the end", "{path}");
        drop(client);
        tokio::task::spawn_blocking(move || wait_for_busy(&server, 0)).await.unwrap();
    }
}
