//! Requests of a guest that the host sends between two calls by value. They have the same limits as those of
//! `wasi:http/client`.

use crate::by_value::manifest;
use crate::*;

fn start(grants: &str, tool: &str) -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    let host = fixture::start(&folder, &manifest(grants, tool), &[], store()).unwrap();
    (folder, host)
}

fn open() -> (tempfile::TempDir, Host) {
    start(r#"allowed_outbound_hosts = ["http://127.0.0.1:*"]"#, "")
}

/// Status, declared length and body of a response to a request that makes an exchange. For a body that breaks off, the
/// body is the error's text.
async fn exchange(host: &Host, end: &str, url: &str, body: &'static str) -> (u16, Option<String>, String) {
    let request = Request::post(format!("https://forge.test/by-value/exchange-and-{end}?{url}"));
    let request = request.header("host", "forge.test").body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap();
    let (head, body) = host.handle(request).await.into_parts();
    let length = head.headers.get("content-length").map(|length| length.to_str().unwrap().to_owned());
    let body = match body.collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Err(error) => format!("broken off: {error}"),
    };
    (head.status.as_u16(), length, body)
}

/// The guest's report of its exchange.
async fn report(host: &Host, end: &str, url: &str, body: &'static str) -> String {
    let (status, _, report) = exchange(host, end, url, body).await;
    assert_eq!(status, 200, "{report}");
    report
}

#[tokio::test]
async fn the_request_arrives_as_the_guest_made_it_and_the_response_as_the_server_made_it() {
    let ((_folder, host), upstream) = (open(), Upstream::start());
    assert_eq!(report(&host, "report", &upstream.url("hello"), "").await, "200\ncontent-length: 5\n5\nhello");
    assert_eq!(report(&host, "report", &upstream.url("none"), "").await, "404\ncontent-length: 4\n4\nnone");
    let head = report(&host, "report", &upstream.url("head"), "a body").await;
    let authority = format!("host: {}\r\n", upstream.address);
    for line in ["put /head http/1.1\r\n", "x-mine: 1\r\n", "content-length: 6\r\n", &authority] {
        assert!(head.contains(line), "{line:?} is not in {head}");
    }
    let head = report(&host, "report", &format!("{}%23content-length:99", upstream.url("head")), "a body").await;
    assert!(head.contains("content-length: 6\r\n") && !head.contains("length: 99"), "{head}");
    let hops = report(&host, "report", &upstream.url("hops"), "").await;
    assert_eq!(hops, "200\nx-end: 2\ncontent-length: 0\n0\n");
}

#[tokio::test]
async fn a_guest_gets_the_beginning_of_a_large_response_and_can_read_the_rest() {
    let ((_folder, host), upstream) = (open(), Upstream::start());
    for path in ["large", "large-chunked"] {
        let beginning = report(&host, "report", &upstream.url(path), "").await;
        assert!(beginning.contains("\n131072 and more\nxxx"), "{path}");
        assert_eq!(report(&host, "read", &upstream.url(path), "").await, "200 307200 whole", "{path}");
    }
    assert_eq!(report(&host, "read", &upstream.url("hello"), "").await, "200 5 whole");
    for path in ["short", "large-and-short"] {
        let broken = report(&host, "read", &upstream.url(path), "").await;
        assert!(broken.ends_with("HttpResponseIncomplete"), "{path}: {broken}");
    }
}

#[tokio::test]
async fn the_rest_of_a_response_goes_back_to_the_host() {
    let ((_folder, host), upstream) = (open(), Upstream::start());
    for (path, length) in [("hello", Some("5")), ("large", Some("307200")), ("large-chunked", None)] {
        let (status, declared, body) = exchange(&host, "relay", &upstream.url(path), "").await;
        assert_eq!((status, declared.as_deref()), (200, length), "{path}");
        assert_eq!(body.len(), if path == "hello" { 5 } else { 307_200 }, "{path}");
    }
    let (status, _, body) = exchange(&host, "relay", &upstream.url("large-and-short"), "").await;
    assert!(status == 502 || body.starts_with("broken off: "), "{status} {body}");
    // The guest declares a smaller length than its body has.
    let (status, _, body) = exchange(&host, "declare", &upstream.url("large"), "").await;
    assert!(status == 502 || body.starts_with("broken off: "), "{status} {body}");
}

/// If a head cannot be sent, the rest of its response is dropped, with its connection.
#[tokio::test]
async fn a_head_that_cannot_be_sent_gives_its_exchange_back() {
    let upstream = Upstream::start();
    let tool = "outbound.requests = 1\noutbound.queue_timeout = \"1ms\"";
    let (_folder, host) = start(r#"allowed_outbound_hosts = ["http://127.0.0.1:*"]"#, tool);
    for _ in 0..3 {
        let (status, _, body) = exchange(&host, "relay", &upstream.url("large-declared-twice"), "").await;
        assert_eq!(status, 500, "{body}");
    }
    assert!(report(&host, "report", &upstream.url("hello"), "").await.ends_with("hello"));
}

#[tokio::test]
async fn trailers_of_a_rest_are_not_sent() {
    let ((_folder, host), upstream) = (open(), Upstream::start());
    let url = upstream.url("large-with-trailers");
    let request = Request::post(format!("https://forge.test/by-value/exchange-and-relay?{url}"));
    let request = request.header("host", "forge.test").body(Full::new(Bytes::new())).unwrap();
    let body = host.handle(request).await.into_body().collect().await.unwrap();
    assert!(body.trailers().is_none());
    assert_eq!(body.to_bytes().len(), 307_200);
}

#[tokio::test]
async fn the_time_of_an_exchange_bounds_the_rest_of_its_response() {
    let ((_folder, host), upstream) = (open(), Upstream::start());
    let (status, _, body) = exchange(&host, "relay", &upstream.url("large-and-slow"), "").await;
    assert!(status == 200 && body.starts_with("broken off: "), "{status} {body}");
}

#[tokio::test]
async fn exchanges_follow_each_other() {
    let ((_folder, host), upstream) = (open(), Upstream::start());
    let second = report(&host, "repeat", &upstream.url("location"), "").await;
    assert_eq!(second, "200\ncontent-length: 5\n5\nhello");
}

#[tokio::test]
async fn the_guest_gets_the_errors_of_denied_and_failed_requests() {
    let ((_folder, host), upstream) = (open(), Upstream::start());
    for (url, error) in [
        ("http://127.0.0.2:1/".to_owned(), "HttpRequestDenied"),
        (upstream.url("silent"), "HttpResponseTimeout"),
        (upstream.url("switch"), "HttpUpgradeFailed"),
        (upstream.url("large-head"), "HttpResponseHeaderSectionSize"),
        (upstream.url("declared"), "HttpResponseBodySize"),
        (upstream.url("large-body"), "HttpRequestBodySize"),
        ("ftp://127.0.0.1/".to_owned(), "HttpProtocolError"),
        ("http://a b/".to_owned().replace(' ', "%20"), "HttpRequestUriInvalid"),
    ] {
        let got = report(&host, "report", &url, "").await;
        assert!(got.contains(error), "{url}: {got}");
    }
    let (_folder, closed) = start("", "");
    let got = report(&closed, "report", &upstream.url("hello"), "").await;
    assert!(got.contains("HttpRequestDenied"), "{got}");
}

#[tokio::test]
async fn a_forbidden_field_is_not_sent() {
    let ((_folder, host), upstream) = (open(), Upstream::start());
    for field in ["connection:close", "transfer-encoding:chunked", "a@b:c"] {
        let got = report(&host, "report", &format!("{}%23{field}", upstream.url("head")), "").await;
        assert!(got.contains("HttpProtocolError"), "{field}: {got}");
    }
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_exchange_ends_with_the_time_of_its_request() {
    let upstream = Upstream::start();
    let (_folder, host) = start(r#"allowed_outbound_hosts = ["http://127.0.0.1:*"]"#, "request_timeout = \"300ms\"");
    let (status, _, _) = exchange(&host, "report", &upstream.url("stall"), "").await;
    assert_eq!(status, 504);
    assert!(report(&host, "report", &upstream.url("hello"), "").await.ends_with("hello"));
}
