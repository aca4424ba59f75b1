//! Bodies: streamed, limited, and drained so that the client sees the response.

use crate::fixture::request;
use crate::*;
use futures::stream;
use http_body::Body;

const CHUNK: usize = 64 * 1024;

/// A body of unknown length, in chunks.
async fn upload(server: &Server, path: &str, chunks: usize) -> Response<ResponseBody> {
    let chunks = stream::iter((0..chunks).map(|_| Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[7; CHUNK])))));
    let request = Request::post(format!("/probe/{path}")).header("host", "forge.test");
    server.host.handle(request.body(StreamBody::new(chunks)).unwrap()).await
}

#[tokio::test]
async fn bodies_stream_through() {
    let server = Server::with("");
    let echoed = upload(&server, "echo", 100).await.into_body().collect().await.unwrap();
    assert_eq!(echoed.to_bytes(), vec![7; 100 * CHUNK]);
}

#[tokio::test]
async fn a_body_that_is_complete_at_once_is_sent_with_its_length() {
    let server = Server::with("max_requests_per_instance = 100000");
    let lengths = async || {
        let response = server.send(get("recall?key=probe/v1/a&act=chunked")).await;
        assert!(!response.headers().contains_key("content-length"), "the guest declares none");
        let declared = response.body().size_hint().exact();
        (declared, response.into_body().collect().await.unwrap().to_bytes().len() as u64)
    };
    let mut known = 0;
    for _ in 0..100 {
        let (declared, length) = lengths().await;
        assert!(length > 0 && declared.is_none_or(|declared| declared == length), "{declared:?} {length}");
        known += u32::from(declared.is_some());
    }
    // On a busy machine a guest may be interrupted before its end.
    assert!(known > 0);
}

#[tokio::test]
async fn a_body_that_is_not_complete_is_streamed() {
    let server = Server::with("");
    let response = server.send(get("stall")).await;
    assert_eq!(response.body().size_hint().exact(), None);
    assert_eq!(response.into_body().frame().await.unwrap().unwrap().into_data().unwrap().len(), 10);
}

#[tokio::test]
async fn a_body_that_declares_too_much_is_refused_at_once() {
    let server = Server::with("max_body = \"1000\"");
    let exact = server.send(request("POST", "count", vec![0; 1000])).await;
    assert_eq!(text(exact).await, (200, "1000".to_owned()));
    let mut larger = request("POST", "count", vec![0; 1001]);
    larger.headers_mut().insert("content-length", 1001.into());
    let (status, body) = text(server.send(larger).await).await;
    assert_eq!(status, 413);
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["message"], "413 Request Entity Too Large");
    assert!(body["error"].as_str().unwrap().contains("1000 bytes"), "{body}");
}

#[tokio::test]
async fn a_body_that_grows_too_large_is_refused() {
    let server = Server::with("max_body = \"1MiB\"");
    assert_eq!(text(upload(&server, "count", 16).await).await, (200, (1 << 20).to_string()));
    assert_eq!(upload(&server, "count", 17).await.status(), 413);
    let server = Server::with("max_body = \"1KiB\"");
    assert_eq!(upload(&server, "echo", 1).await.status(), 413, "also if the guest answers before it has read it");
}

#[test]
fn a_client_that_stops_sending_gets_a_timeout() {
    let mut server = Server::with("request_timeout = \"1s\"");
    let address = server.listen();
    let mut client = wait::connect(address);
    client.write_all(b"POST /probe/count HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhalf").unwrap();
    assert_eq!(status_line(&mut client), "HTTP/1.1 408");
}

#[tokio::test]
async fn a_guest_sees_that_its_client_disconnected() {
    let server = Server::with("");
    let half = [Ok(Frame::data(Bytes::from_static(b"half"))), Err(wasmtime_wasi_http::Error::ConnectionTerminated)];
    let request = Request::post("/probe/count").header("host", "forge.test");
    let response = server.host.handle(request.body(StreamBody::new(stream::iter(half))).unwrap()).await;
    assert_eq!(text(response).await, (200, "broken after 4: ErrorCode::ConnectionTerminated".to_owned()));
}

#[test]
fn a_client_that_is_still_sending_sees_the_response() {
    let mut server = Server::with("max_body = \"4MiB\"");
    let address = server.listen();
    for (length, status) in [(3 << 20, "401"), (40 << 20, "413")] {
        let mut client = wait::connect(address);
        write!(client, "POST /probe/ignore HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n").unwrap();
        let chunk = vec![0; CHUNK];
        for _ in 0..length / CHUNK {
            client.write_all(&chunk).unwrap();
        }
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = read_text(&mut client);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{length}: {answer}");
    }
}

#[test]
fn a_client_that_waits_for_100_continue_is_refused() {
    let mut server = Server::with("max_body = \"1000\"");
    let address = server.listen();
    let mut client = wait::connect(address);
    client
        .write_all(b"POST /probe/count HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 1001\r\n\r\n")
        .unwrap();
    let answer = read_text(&mut client);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

/// How long the test's client waits: longer than an idle connection keeps its buffers.
const LATE: Duration = Duration::from_millis(400);

#[test]
fn late_bytes_of_a_body_are_no_request() {
    let mut server = Server::with("");
    let address = server.listen();
    let smuggled = "GET /probe/recall?key=probe/v1/a HTTP/1.1\r\nhost: a\r\n\r\n";
    let length = smuggled.len();
    let chunked = format!("{length:x}\r\n{smuggled}\r\n0\r\n\r\n");
    for (framing, body) in
        [(format!("content-length: {length}"), smuggled), ("transfer-encoding: chunked".to_owned(), &*chunked)]
    {
        let mut client = wait::connect(address);
        write!(client, "POST /probe/ignore HTTP/1.1\r\nhost: a\r\n{framing}\r\n\r\n").unwrap();
        // The component answers before it has received the body.
        client.peek(&mut [0]).unwrap();
        wait::pause(LATE);
        client.write_all(body.as_bytes()).unwrap();
        let next = "POST /probe/count HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc";
        client.write_all(next.as_bytes()).unwrap();
        let answers = read_text(&mut client);
        let statuses: Vec<_> =
            answers.match_indices("HTTP/1.1 ").filter_map(|(at, _)| answers.get(at + 9..at + 12)).collect();
        assert_eq!(statuses, ["401", "200"], "{framing}: {answers}");
        assert_body(answers.as_bytes(), "3");
    }
}

#[test]
fn bytes_after_trailers_are_no_request() {
    let mut server = Server::with("");
    let address = server.listen();
    let smuggled = "GET /probe/request?smuggled HTTP/1.1\r\nhost: a\r\n\r\n";
    let next = format!("POST /probe/count HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{smuggled}", smuggled.len());
    for path in ["count", "ignore", "echo"] {
        for end in ["0\r\n\n", "0;a\r\n\n", "0\r\nx: 1\n\r\n", "0\r\nx: 1\n\n", "0\r\nx: 1\r\n\n", "0\r\nx: 1\r\n\r\n"]
        {
            for pause in [false, true] {
                let mut client = wait::connect(address);
                let head = format!("POST /probe/{path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n");
                let body = format!("5\r\nhello\r\n{end}{next}");
                if pause {
                    client.write_all(head.as_bytes()).unwrap();
                    wait::pause(LATE);
                    client.write_all(body.as_bytes()).unwrap();
                } else {
                    client.write_all((head + &body).as_bytes()).unwrap();
                }
                // If the host closes the connection with unread bytes, the kernel resets it.
                let answers = wait::read_to_close(&mut client);
                let answers = String::from_utf8_lossy(&answers);
                assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{path} {end:?} {pause}: {answers}");
                assert!(!answers.contains("smuggled"), "{path} {end:?} {pause}: {answers}");
            }
        }
    }
}

#[test]
fn a_client_that_announces_a_body_and_sends_none_loses_its_connection() {
    let keep_alive = Duration::from_secs(3600);
    let (_server, address, _) = listen("", IngressOptions { keep_alive, ..IngressOptions::default() });
    let mut client = wait::connect(address);
    // The host closes it within 20 seconds.
    client.write_all(b"POST /probe/ignore HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n").unwrap();
    let answer = read_text(&mut client);
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}
