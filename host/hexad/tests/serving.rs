//! Connections: several requests on one, limits of the head, and a stop that loses no request.

use crate::*;

/// Sends bytes and reads until the host closes.
fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut client = wait::connect(address);
    client.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn several_requests_share_a_connection() {
    let mut server = Server::with("");
    let address = server.listen();
    let one = "GET /probe/served HTTP/1.1\r\nhost: a\r\n\r\n";
    let last = "GET /probe/request HTTP/1.1\r\nhost: a:1\r\nconnection: close\r\n\r\n";
    let answer = exchange(address, format!("{one}{one}{last}").as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 3, "{answer}");
    assert!(answer.contains("Method::Get a:1 /probe/request"), "{answer}");
}

#[test]
fn requests_that_http_does_not_allow_are_refused() {
    let mut server = Server::with("");
    let address = server.listen();
    let many: String = (0..101).map(|n| format!("x-{n}: 1\r\n")).collect();
    for (request, status) in [
        ("GET /probe/hello HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(), "400"),
        ("GET /probe/hello HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n\r\n".to_owned(), "400"),
        (format!("GET /probe/hello HTTP/1.1\r\nhost: a\r\n{many}\r\n"), "431"),
        (format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "a".repeat(70_000)), "4"),
        ("GET /elsewhere HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_owned(), "404"),
    ] {
        let answer = exchange(address, request.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
}

#[test]
fn a_request_under_way_is_finished_before_the_host_stops() {
    let mut server = Server::with("");
    let address = server.listen();
    let mut client = wait::connect(address);
    // When the head of the response arrives, the request is under way.
    client.write_all(b"GET /probe/flood?mib=32 HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    assert_eq!(status_line(&mut client), "HTTP/1.1 200");
    let Server { host, folder: _folder } = server;
    let stopping = std::thread::spawn(move || host.stop(Duration::from_secs(60)));
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.len() > 32 << 20, "{} bytes", rest.len());
    assert!(rest.ends_with(b"0\r\n\r\n"), "the body is complete");
    join(stopping, "the end of the host");
    TcpStream::connect(address).expect_err("the host still listens");
}

#[test]
fn a_request_that_does_not_end_does_not_delay_the_stop() {
    let mut server = Server::with("request_timeout = \"1h\"");
    let address = server.listen();
    let mut client = wait::connect(address);
    client.write_all(b"GET /probe/stall HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut start = [0; 12];
    client.read_exact(&mut start).unwrap();
    server.host.stop(Duration::ZERO);
    // The host may close the connection by a reset.
    let rest = wait::read_to_close(&mut client);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "the body looks complete");
}
