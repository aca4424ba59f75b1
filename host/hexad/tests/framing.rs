//! HTTP/1 bytes without content: endless size lines of chunks, and interim responses.

use crate::*;

/// More than the host reads and the kernel buffers of a connection.
const FLOOD: usize = 64 << 20;

const HEAD: &str = "POST /probe/count HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n";

fn connect(address: SocketAddr, head: &str) -> TcpStream {
    let mut client = wait::connect(address);
    client.write_all(head.as_bytes()).unwrap();
    client
}

/// Sends a request and reads the answer at the same time, until the host closes.
fn exchange(address: SocketAddr, request: &str) -> String {
    let client = wait::connect(address);
    let mut writer = client.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write_all(request.as_bytes()).unwrap());
        read_text(client)
    })
}

#[test]
fn size_lines_that_do_not_end_close_the_connection() {
    let (_server, address, _) = listen("", IngressOptions::default());
    for (begin, endless) in [("1", b' '), ("1", b'\t'), ("", b'0')] {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    let mut client = connect(address, &format!("{HEAD}\r\n{begin}"));
                    let block = [endless; 64 << 10];
                    let accepts = |_: &usize| client.write_all(&block).inspect_err(wait::assert_in_time).is_ok();
                    let accepted = (0..FLOOD / block.len()).take_while(accepts).count();
                    assert!(accepted < FLOOD / block.len(), "{begin:?} {endless}: everything was read");
                });
            }
        });
    }
    let answer = exchange(address, &format!("{HEAD}connection: close\r\n\r\n1\r\nx\r\n0\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_body(answer.as_bytes(), "1");
}

#[test]
fn framing_that_carries_something_passes() {
    let (_server, address, _) = listen("", IngressOptions::default());
    // Far more than the host reads of a body that is discarded.
    let chunks = "0000000000000001 \r\nx\r\n".repeat(50_000);
    let answer = exchange(address, &format!("{HEAD}connection: close\r\n\r\n{chunks}0\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_body(answer.as_bytes(), "50000");
}

#[test]
fn many_requests_of_a_connection_pass() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let padding = "x".repeat(8 << 10);
    let request = |more: &str| format!("{HEAD}x-padding: {padding}\r\n{more}\r\n1\r\nx\r\n0\r\n\r\n");
    let answers = exchange(address, &(request("").repeat(199) + &request("connection: close\r\n")));
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 200);
}

#[test]
fn bytes_after_an_answer_to_an_unread_body_are_no_request() {
    let (_server, address, _) = listen("", IngressOptions::default());
    for (path, rest) in [
        ("ignore", "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n"),
        ("sleep?ms=20", "expect: 100-continue\r\ncontent-length: 100\r\n\r\n"),
    ] {
        for _ in 0..20 {
            let mut client = connect(address, &format!("POST /probe/{path} HTTP/1.1\r\nhost: a\r\n{rest}"));
            client.peek(&mut [0]).unwrap();
            let smuggled = format!("GET /probe/hello HTTP/1.1\r\nhost: a\r\nx: {:100}\r\n\r\n", "");
            // The host may have closed the connection.
            let _ = client.write_all(smuggled.as_bytes());
            let answers = wait::read_to_close(&mut client);
            let answers = String::from_utf8_lossy(&answers);
            assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{path}: {answers}");
        }
    }
}

#[tokio::test]
async fn a_response_that_carries_nothing_fails() {
    let (server, upstream) =
        (Server::reaching(&["http://127.0.0.1:*"], "", OutboundOptions::default()), Upstream::start());
    let fetch = async |path: &str| server.ok(&format!("outbound?url={}", upstream.url(path))).await;
    assert_eq!(fetch("interim").await, "ErrorCode::HttpProtocolError");
    assert_eq!(fetch("endless-size").await, "200\n\nbroken after 0: ErrorCode::HttpProtocolError");
    let answer = fetch("small-chunks").await;
    assert_eq!(answer.rsplit('\n').next().unwrap(), "x".repeat(50_000));
}
