//! Outbound requests of guests: only to allowed hosts, and within limits whatever the server does.

use crate::upstream::Names;
use crate::*;
use hexad::imports::outbound::OutboundCounters;
use http::Version;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A server whose guests may reach every port of this machine by its address.
fn open(tool: &str) -> Server {
    Server::reaching(&["http://127.0.0.1:*"], tool, OutboundOptions::default())
}

pub fn named(hosts: &[&str], tool: &str, names: Arc<Names>) -> Server {
    Server::reaching(hosts, tool, OutboundOptions { resolver: names, ..OutboundOptions::default() })
}

fn counters(server: &Server) -> Arc<OutboundCounters> {
    server.service("probe").outbound().unwrap().counters().clone()
}

pub async fn fetch(server: &Server, url: &str) -> String {
    server.ok(&format!("outbound?url={url}")).await
}

#[tokio::test]
async fn an_allowed_host_is_reached_and_its_connection_is_reused() {
    let (server, upstream) = (open(""), Upstream::start());
    for _ in 0..3 {
        assert_eq!(fetch(&server, &upstream.url("hello")).await, "200\ncontent-length: 5\n\nhello");
    }
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 1);
    let counters = counters(&server);
    assert_eq!((counters.requests.get(), counters.answered.get(), counters.received.get()), (3, 3, 15));
    assert_eq!(counters.connections.get(), 1);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_replaced() {
    let (server, upstream) = (open(""), Upstream::start());
    for _ in 0..3 {
        assert!(fetch(&server, &upstream.url("close")).await.ends_with("hello"));
    }
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn the_request_arrives_as_the_guest_made_it() {
    let (server, upstream) = (open(""), Upstream::start());
    let url = upstream.url("head");
    let answer = server.ok(&format!("outbound?url={url}&method=PUT&header=x-mine:1&body=70000")).await;
    let host = format!("host: {}\r\n", upstream.address);
    for line in ["put /head http/1.1\r\n", "x-mine: 1\r\n", "transfer-encoding: chunked\r\n", &host] {
        assert!(answer.contains(line), "{line:?} is not in {answer}");
    }
    let answer = server.ok(&format!("outbound?url={url}&header=host:elsewhere.example")).await;
    assert!(answer.contains("InternalError"), "{answer}");
}

#[tokio::test]
async fn guests_of_wasi_0_2_reach_the_same_hosts() {
    let (server, upstream) = (open(""), Upstream::start());
    for (url, expected) in
        [(upstream.url("hello"), "200 hello"), ("http://127.0.0.2:1/".to_owned(), "ErrorCode::HttpRequestDenied")]
    {
        let request = http::Request::get(format!("/incoming?url={url}")).header("host", "forge.test");
        let response = server.host.handle(request.body(http_body_util::Empty::new()).unwrap()).await;
        assert_eq!(text(response).await, (200, expected.to_owned()));
    }
}

#[tokio::test]
async fn other_hosts_are_denied() {
    let server = Server::reaching(&["https://api.example.com"], "", OutboundOptions::default());
    let urls = "http://api.example.com/ https://api.example.com:8443/ https://api.example.com./ https://example.com/ \
        https://b.api.example.com/ https://127.0.0.1/";
    for url in urls.split(' ') {
        assert_eq!(fetch(&server, url).await, "ErrorCode::HttpRequestDenied", "{url}");
    }
    assert_eq!(counters(&server).denied.get(), 6);
    for url in ["https://api.example.com@evil.example/", "ftp://api.example.com/", "/relative"] {
        let answer = fetch(&server, url).await;
        assert!(answer.starts_with("ErrorCode::"), "{url}: {answer}");
    }
}

#[tokio::test]
async fn redirects_and_encodings_are_passed_to_the_guest() {
    let (server, upstream) = (open(""), Upstream::start());
    let answer = fetch(&server, &upstream.url("redirect")).await;
    assert!(answer.starts_with("302\nlocation: http://169.254.169.254/latest/\n"), "{answer}");
    let answer = fetch(&server, &upstream.url("not-gzip")).await;
    assert_eq!(answer, "200\ncontent-encoding: gzip\ncontent-length: 8\n\nnot gzip");
    assert_eq!(fetch(&server, &upstream.url("hops")).await, "200\nx-end: 2\ncontent-length: 0\n\n");
}

#[tokio::test]
async fn each_failure_has_its_code() {
    let (server, upstream) = (open(""), Upstream::start());
    for (path, expected) in [
        ("nothing", "ErrorCode::HttpResponseIncomplete"),
        ("garbage", "ErrorCode::HttpProtocolError"),
        ("large-head", "ErrorCode::HttpResponseHeaderSectionSize(None)"),
        ("many-headers", "ErrorCode::HttpResponseHeaderSectionSize(None)"),
        ("switch", "ErrorCode::HttpUpgradeFailed"),
        ("short", "200\ncontent-length: 100\n\nbroken after 10: ErrorCode::HttpResponseIncomplete"),
    ] {
        assert_eq!(fetch(&server, &upstream.url(path)).await, expected, "{path}");
    }
    let answer = server.ok(&format!("outbound?method=CONNECT&url={}", upstream.url("hello"))).await;
    assert_eq!(answer, "ErrorCode::HttpRequestMethodInvalid");
    // A port that was bound and closed again, so no server listens on it.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(fetch(&server, &format!("http://{free}/")).await, "ErrorCode::ConnectionRefused");
}

#[tokio::test]
async fn a_request_to_a_silent_server_times_out() {
    let server = open("outbound = { head_timeout = \"50ms\", connect_timeout = \"50ms\", idle_timeout = \"50ms\" }");
    let upstream = Upstream::start();
    assert_eq!(fetch(&server, &upstream.url("silent")).await, "ErrorCode::HttpResponseTimeout");
    let stalled = "200\ncontent-length: 100\n\nbroken after 10: ErrorCode::ConnectionReadTimeout";
    assert_eq!(fetch(&server, &upstream.url("stall")).await, stalled);
    assert_eq!(counters(&server).timeouts.get(), 2);
    assert!(fetch(&server, &upstream.url("hello")).await.ends_with("hello"));
}

#[tokio::test]
async fn a_guest_may_shorten_the_timeouts() {
    let (server, upstream) = (open(""), Upstream::start());
    let url = upstream.url("silent");
    let answer = server.ok(&format!("outbound?url={url}&head=20&connect=20")).await;
    assert_eq!(answer, "ErrorCode::HttpResponseTimeout");
    let url = upstream.url("stall");
    let answer = server.ok(&format!("outbound?url={url}&idle=20")).await;
    assert!(answer.ends_with("ErrorCode::ConnectionReadTimeout"), "{answer}");
    // The kernel accepts connections for this listener; no TLS handshake follows.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let server = Server::reaching(&["https://127.0.0.1:*"], "", OutboundOptions::default());
    let answer = server.ok(&format!("outbound?url={url}&connect=20")).await;
    assert_eq!(answer, "ErrorCode::ConnectionTimeout");
}

#[tokio::test]
async fn a_response_ends_at_its_timeout() {
    let server = open("outbound = { timeout = \"100ms\" }");
    let answer = fetch(&server, &Upstream::start().url("stall")).await;
    assert!(answer.ends_with("broken after 10: ErrorCode::HttpResponseTimeout"), "{answer}");
}

#[tokio::test]
async fn the_size_of_a_response_is_bounded() {
    let server = open("outbound = { max_response = \"1MiB\" }");
    let upstream = Upstream::start();
    let too_large = "ErrorCode::HttpResponseBodySize(Some(1048576))";
    assert_eq!(fetch(&server, &upstream.url("declared")).await, too_large);
    let answer = fetch(&server, &upstream.url("endless")).await;
    assert!(answer.ends_with(too_large), "{answer:.300}");
}

#[tokio::test]
async fn concurrent_requests_are_bounded_and_others_wait_or_are_refused() {
    let server = open("outbound = { requests = 2, queue_timeout = \"50ms\" }");
    let upstream = Upstream::start();
    let relay = |path| server.send(get(&format!("relay?url={}", upstream.url(path))));
    // Two responses that stay unread.
    let unread = [relay("stall").await, relay("stall").await];
    assert_eq!(fetch(&server, &upstream.url("hello")).await, "ErrorCode::ConnectionLimitReached");
    assert_eq!(counters(&server).busy.get(), 1);
    // Ending a guest releases its permits.
    drop(unread);
    assert!(fetch(&server, &upstream.url("hello")).await.ends_with("hello"));
}

#[tokio::test]
async fn idle_connections_are_closed_for_new_ones() {
    let server = open("outbound = { requests = 1, connect_timeout = \"2s\" }");
    let upstreams: Vec<_> = (0..70).map(|_| Upstream::start()).collect();
    for upstream in &upstreams {
        assert!(fetch(&server, &upstream.url("hello")).await.ends_with("hello"));
    }
    assert_eq!(counters(&server).connections.get(), 70);
}

#[tokio::test]
async fn a_silent_server_does_not_delay_other_guests() {
    let (server, upstream) = (open(""), Upstream::start());
    let path = format!("outbound?url={}", upstream.url("silent"));
    let silent = server.ok(&path);
    let others = async {
        for _ in 0..20 {
            assert!(fetch(&server, &upstream.url("hello")).await.ends_with("hello"));
        }
    };
    let silent = std::pin::pin!(silent);
    let others = std::pin::pin!(others);
    match futures::future::select(silent, others).await {
        futures::future::Either::Left((answer, _)) => panic!("the silent server answered: {answer}"),
        futures::future::Either::Right(_) => {}
    }
}

/// A TLS server for `127.0.0.1`, and the file with the certificate that it shows.
async fn tls(protocols: &[&str], folder: &tempfile::TempDir, version: Version) -> (SocketAddr, std::path::PathBuf) {
    let issued = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, issued.cert.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der()));
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| async move {
                    assert_eq!(request.version(), version);
                    let length = request.into_body().collect().await.unwrap().to_bytes().len();
                    Ok::<_, Infallible>(hyper::Response::new(Full::new(Bytes::from(format!("{length}")))))
                });
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (address, file)
}

#[tokio::test]
async fn tls_servers_need_a_trusted_certificate() {
    for (protocols, version) in
        [(&["h2", "http/1.1"][..], Version::HTTP_2), (&["http/1.1"], Version::HTTP_11), (&[], Version::HTTP_11)]
    {
        let folder = tempfile::tempdir().unwrap();
        let (address, file) = tls(protocols, &folder, version).await;
        let options = OutboundOptions { authority: Some(file), ..OutboundOptions::default() };
        let server = Server::reaching(&["https://127.0.0.1:*"], "", options);
        let url = format!("outbound?url=https://{address}/&method=POST&body=100000");
        let responses = join_all((0..8).map(|_| server.ok(&url))).await;
        for answer in responses {
            assert!(answer.starts_with("200\n") && answer.ends_with("\n100000"), "{version:?}: {answer}");
        }
        let untrusting = Server::reaching(&["https://127.0.0.1:*"], "", OutboundOptions::default());
        assert_eq!(fetch(&untrusting, &format!("https://{address}/")).await, "ErrorCode::TlsCertificateError");
    }
    let plain = Upstream::start();
    let server = Server::reaching(&["https://127.0.0.1:*"], "", OutboundOptions::default());
    let answer = fetch(&server, &format!("https://{}/hello", plain.address)).await;
    assert!(answer.starts_with("ErrorCode::"), "{answer}");
}

#[test]
fn the_error_of_a_bad_certificate_file_names_it() {
    let folder = tempfile::tempdir().unwrap();
    for (name, contents) in [("missing.pem", None), ("empty.pem", Some("")), ("bad.pem", Some("text"))] {
        let file = folder.path().join(name);
        if let Some(contents) = contents {
            std::fs::write(&file, contents).unwrap();
        }
        let options = OutboundOptions { authority: Some(file), ..OutboundOptions::default() };
        let error = match hexad::imports::outbound::SharedOutbound::new(
            &options,
            hexad::memory_budget::MemoryBudget::new(u64::MAX),
        ) {
            Ok(_) => panic!("accepted {name}"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(name) && error.contains("--outbound-ca"), "{error}");
    }
}

#[tokio::test]
async fn bodies_stream_through() {
    let server = open("outbound = { max_response = \"1GiB\" }");
    let response = server.send(get(&format!("relay?url={}", Upstream::start().url("endless")))).await;
    let mut body = response.into_body();
    let mut received = 0;
    while received < 256 << 20 {
        received += body.frame().await.unwrap().unwrap().into_data().unwrap().len();
    }
    drop(body);
    assert_eq!(server.ok("hello").await, "hello");
}
