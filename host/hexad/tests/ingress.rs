//! Listeners: TLS, forwarded headers, malformed requests, connection limits.

use crate::*;
use hexad::ingress::{ForwardedFamily, Forwarding};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Sends bytes and reads until the host closes.
fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut client = wait::connect(address);
    // The host may close the connection by a reset.
    let _ = client.write_all(bytes);
    String::from_utf8_lossy(&wait::read_to_close(&mut client)).into_owned()
}

pub fn ask(address: SocketAddr, headers: &str) -> String {
    let request = format!("GET /probe/headers HTTP/1.1\r\nhost: forge.test\r\n{headers}connection: close\r\n\r\n");
    exchange(address, request.as_bytes())
}

#[test]
fn forwarded_headers_of_a_client_are_removed() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let forged = "x-forwarded-for: 1.1.1.1\r\nx-forwarded-proto: https\r\nx-forwarded-host: evil.test\r\n\
                  forwarded: for=1.1.1.1\r\nspin-client-addr: 1.1.1.1:1\r\nx-mine: kept\r\n";
    let answer = ask(address, forged);
    assert!(answer.contains("Http) forge.test") && answer.contains("x-mine: kept"), "{answer}");
    assert!(answer.contains("spin-client-addr: 127.0.0.1:"), "{answer}");
    assert!(!answer.contains("1.1.1.1") && !answer.contains("evil.test"), "{answer}");
}

#[test]
fn forwarded_headers_of_a_trusted_proxy_are_used() {
    let proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let options = IngressOptions { proxies, ..IngressOptions::default() };
    let headers = "x-forwarded-for: 9.9.9.9, 192.0.2.7\r\nx-forwarded-proto: https\r\nx-forwarded-host: forge.example\r\n\
                   forwarded: for=1.1.1.1;host=evil.test\r\nx-real-ip: 1.1.1.1\r\n";
    for (host, authority) in [(false, "forge.test"), (true, "forge.example")] {
        let forwarding = Forwarding { host, ..Forwarding::default() };
        let (_server, address, _) = listen("", IngressOptions { forwarding, ..options.clone() });
        let answer = ask(address, headers);
        assert!(answer.contains(&format!("Https) {authority}")), "{answer}");
        assert!(answer.contains("spin-client-addr: 192.0.2.7:0\n"), "{answer}");
        assert!(!answer.contains("1.1.1.1") && !answer.contains("evil.test"), "{answer}");
        assert_eq!(answer.contains("x-forwarded-host"), host, "{answer}");
    }
}

#[test]
fn a_client_behind_a_proxy_cannot_hide_its_address() {
    let proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let (_server, address, _) = listen("", IngressOptions { proxies, ..IngressOptions::default() });
    let request =
        b"GET /probe/headers HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-forwarded-for: \xff, 192.0.2.7\r\n\r\n";
    let answer = exchange(address, request);
    assert!(answer.contains("spin-client-addr: 192.0.2.7:0\n"), "{answer}");
}

/// The proxy quotes its client's `Host` in the header.
#[test]
fn a_client_cannot_forge_the_forwarded_header_of_its_proxy() {
    let proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let forwarding = Forwarding { family: ForwardedFamily::Forwarded, ..Forwarding::default() };
    let (_server, address, _) = listen("", IngressOptions { proxies, forwarding, ..IngressOptions::default() });
    for host in ["a;for=203.0.113.9", "a,for=203.0.113.9", "a;proto=https"] {
        let answer = ask(address, &format!("forwarded: for=198.51.100.7;host=\"{host}\"\r\n"));
        assert!(answer.contains("Http) forge.test"), "{answer}");
        assert!(answer.contains("spin-client-addr: 198.51.100.7:0\n"), "{answer}");
    }
}

#[test]
fn a_request_has_one_id_for_client_and_component() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let answer = ask(address, "x-request-id: web-42\r\n");
    assert_eq!(answer.matches("x-request-id: web-42").count(), 2, "{answer}");
    let answer = ask(address, "x-request-id: two words\r\n");
    assert!(!answer.contains("two words"), "{answer}");
    let id = answer.lines().find(|line| line.starts_with("x-request-id: ")).unwrap();
    assert_eq!(answer.matches(id).count(), 2, "{answer}");
}

#[test]
fn ambiguous_requests_are_refused() {
    let (_server, address, _) = listen("", IngressOptions::default());
    for head in [
        "content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        "content-length: 5, 6\r\n\r\nhello",
        "content-length: +5\r\n\r\nhello",
        "content-length: -1\r\n\r\n",
        "content-length: 18446744073709551616\r\n\r\n",
        "transfer-encoding: gzip\r\n\r\n",
        "transfer-encoding: chunked, gzip\r\n\r\n",
        "transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: , chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "x-a: 1\r\n folded\r\n\r\n",
        "x-a: \0\r\n\r\n",
        "x-\0a: 1\r\n\r\n",
        "x-a: 1\rx-b: 2\r\n\r\n",
    ] {
        let answer = exchange(address, format!("POST /probe/count HTTP/1.1\r\nhost: a\r\n{head}").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400"), "{head:?}: {answer}");
    }
    let lines = "GET /probe/hello\0 HTTP/1.1 | GET /probe/hello HTTP/1.1 x | GET  /probe/hello HTTP/1.1 | \
        GET /a b HTTP/1.1 | GET ftp://a/probe/hello HTTP/1.1 | GET gopher://a/nothing HTTP/1.1 | GET * HTTP/1.1";
    for line in lines.split(" | ") {
        let answer = exchange(address, format!("{line}\r\nhost: a\r\nconnection: close\r\n\r\n").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400"), "{line:?}: {answer}");
    }
    let answer =
        exchange(address, b"POST /probe/count HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n");
    assert!(answer.contains(" 400 "), "{answer}");
}

#[test]
fn a_request_with_two_lengths_smuggles_no_other() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let smuggled = "0\r\n\r\nGET /probe/hello HTTP/1.1\r\nhost: a\r\n\r\n";
    for lengths in [
        format!("content-length: {}\r\ntransfer-encoding: chunked", smuggled.len()),
        format!("transfer-encoding: chunked\r\ncontent-length: {}", smuggled.len()),
        "transfer-encoding: chunked\r\ncontent-length: 5".to_owned(),
    ] {
        let request = format!("POST /probe/count HTTP/1.1\r\nhost: a\r\n{lengths}\r\n\r\n{smuggled}");
        let answer = exchange(address, request.as_bytes());
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        assert!(!answer.contains("hello"), "{answer}");
    }
}

#[test]
fn a_malformed_chunk_fails_its_own_request() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let chunks = "x\r\nhello\r\n | 5\r\nhelloooo\r\n0\r\n\r\n | ffffffffffffffffff\r\n | -5\r\nhello\r\n | \
        5 \0\r\nhello\r\n";
    for chunk in chunks.split(" | ") {
        let request = format!("POST /probe/count HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{chunk}");
        let answer = exchange(address, request.as_bytes());
        assert!(answer.is_empty() || answer.contains("broken after"), "{chunk:?}: {answer}");
    }
}

#[test]
fn a_body_that_declares_too_much_is_refused_unread() {
    let (_server, address, _) = listen("", IngressOptions::default());
    // The largest is just below the values by which hyper marks bodies without a length.
    for length in [10_000_000_000, 1 << 63, u64::MAX - 2] {
        let mut client = wait::connect(address);
        write!(client, "PUT /probe/count HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n").unwrap();
        assert_eq!(status_line(&mut client), "HTTP/1.1 413", "{length}");
    }
}

#[test]
fn connections_of_one_address_are_limited() {
    let (_server, address, _) = listen("", IngressOptions { connections_per_address: 2, ..IngressOptions::default() });
    let hello = b"GET /probe/hello HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut kept: Vec<_> = (0..2).map(|_| wait::connect(address)).collect();
    for client in &mut kept {
        client.write_all(hello).unwrap();
        client.read_exact(&mut [0; 12]).unwrap();
    }
    assert_eq!(exchange(address, hello), "");
    // The host gives the permit back once it sees that the client has gone.
    drop(kept.pop());
    wait_until(SOON, "a permit for a connection", || ask(address, "").starts_with("HTTP/1.1 200"));
}

#[test]
fn connections_above_the_total_wait() {
    let (_server, address, _) = listen("", IngressOptions { connections: 1, ..IngressOptions::default() });
    let mut first = wait::connect(address);
    first.write_all(b"GET /probe/hello HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    first.read_exact(&mut [0; 12]).unwrap();
    let waiting = std::thread::spawn(move || ask(address, ""));
    drop(first);
    assert!(join(waiting, "the answer to the client that waits").starts_with("HTTP/1.1 200"));
}

#[test]
fn an_idle_connection_makes_room_for_another_client() {
    let keep_alive = Duration::from_secs(3600);
    let (_server, address, _) = listen("", IngressOptions { connections: 2, keep_alive, ..IngressOptions::default() });
    let mut idle: Vec<_> = (0..2).map(|_| wait::connect(address)).collect();
    for client in &mut idle {
        client.write_all(HELLO).unwrap();
        client.read_exact(&mut [0; 12]).unwrap();
    }
    assert!(ask(address, "").starts_with("HTTP/1.1 200"));
    let mut rest = Vec::new();
    idle[0].read_to_end(&mut rest).unwrap();
}

/// Writes a new certificate for `localhost` and its key, and returns the certificate.
pub fn certificate(folder: &Path) -> CertificateDer<'static> {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("cert.pem"), issued.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), issued.signing_key.serialize_pem()).unwrap();
    issued.cert.der().clone()
}

/// A connection over TLS.
pub type TlsClient = StreamOwned<ClientConnection, TcpStream>;

/// Connects. The handshake takes place with the first bytes.
pub fn connect_tls(address: SocketAddr, root: &CertificateDer<'static>, protocol: &str) -> std::io::Result<TlsClient> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    Ok(StreamOwned::new(connection, wait::connect(address)))
}

/// The protocol agreed on and the answer to a request over TLS; an error if the certificate is
/// another.
fn over_tls(address: SocketAddr, root: &CertificateDer<'static>, protocol: &str) -> std::io::Result<(String, String)> {
    let mut stream = connect_tls(address, root, protocol)?;
    let start = match protocol {
        "h2" => &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..],
        _ => b"GET /probe/headers HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    };
    stream.write_all(start)?;
    let mut answer = vec![0; 9];
    stream.read_exact(&mut answer)?;
    if protocol != "h2" {
        answer.extend(wait::read_to_close(&mut stream));
    }
    let agreed = stream.conn.alpn_protocol().unwrap_or_default();
    Ok((String::from_utf8_lossy(agreed).into_owned(), String::from_utf8_lossy(&answer).into_owned()))
}

pub fn with_tls(folder: &TempDir) -> IngressOptions {
    let certificates = Some((folder.path().join("cert.pem"), folder.path().join("key.pem")));
    IngressOptions { certificates, ..IngressOptions::default() }
}

#[test]
fn tls_works_and_its_certificate_can_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let first = certificate(folder.path());
    let (_server, address, ingress) = listen("", with_tls(&folder));
    // A client that sends nothing does not block the others.
    let _silent = wait::connect(address);
    let (agreed, answer) = over_tls(address, &first, "http/1.1").unwrap();
    assert_eq!(agreed, "http/1.1");
    assert!(answer.contains("200 OK") && answer.contains("Https) localhost"), "{answer}");
    let (agreed, answer) = over_tls(address, &first, "h2").unwrap();
    assert_eq!(agreed, "h2");
    // The type of the first frame: settings.
    assert_eq!(answer.as_bytes()[3], 4, "{answer:?}");
    // A client that has negotiated HTTP/2 but speaks another protocol is disconnected.
    let mut stream = connect_tls(address, &first, "h2").unwrap();
    stream.write_all(b"GET /probe/headers HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let answer = wait::read_to_close(&mut stream);
    let answer = String::from_utf8_lossy(&answer);
    assert!(!answer.contains("HTTP/1.1") && !answer.contains("localhost"), "{answer}");

    let second = certificate(folder.path());
    let certificates = ingress.certificates.as_ref().unwrap();
    certificates.reload().unwrap();
    over_tls(address, &first, "http/1.1").unwrap_err();
    over_tls(address, &second, "http/1.1").unwrap();
    std::fs::write(folder.path().join("cert.pem"), "no certificate").unwrap();
    assert!(certificates.reload().unwrap_err().to_string().contains("cert.pem"));
    over_tls(address, &second, "http/1.1").unwrap();
    assert!(!exchange(address, b"GET /probe/hello HTTP/1.1\r\nhost: a\r\n\r\n").contains("200"));
}

#[test]
fn unusable_certificates_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Ingress::new(with_tls(&folder)).unwrap_err().to_string();
    assert!(error.contains("cert.pem") && error.contains("--tls-cert"), "{error}");
    certificate(folder.path());
    let other = tempfile::tempdir().unwrap();
    certificate(other.path());
    std::fs::copy(other.path().join("key.pem"), folder.path().join("key.pem")).unwrap();
    let error = Ingress::new(with_tls(&folder)).unwrap_err().to_string();
    assert!(error.contains("cert.pem") && error.contains("the key is not that of the first certificate"), "{error}");
    let secp256k1 = "-----BEGIN PRIVATE KEY-----\n\
        MIGEAgEAMBAGByqGSM49AgEGBSuBBAAKBG0wawIBAQQg6TdxwZbkPWJB5tXvukBt\n\
        UEOljm1iUmmKnFm5C74OdQyhRANCAARgoWeblskdTzM7NIWv6FIO3W5m6rOY5jcC\n\
        d9Q7ywPBcGvfvt7reQ5tf6SQGjXOmonD5dMT8fe86K5JKzD4dWj/\n\
        -----END PRIVATE KEY-----\n";
    std::fs::write(folder.path().join("key.pem"), secp256k1).unwrap();
    let error = Ingress::new(with_tls(&folder)).unwrap_err().to_string();
    assert!(error.contains("of a kind that is not supported"), "{error}");
}

const HELLO: &[u8] = b"GET /probe/hello HTTP/1.1\r\nhost: a\r\n\r\n";

/// Waits until so many connections have been idle for long enough to have given their buffers back, or have been waited
/// for as long.
#[track_caller]
pub fn wait_for_idle(ingress: &Ingress, connections: usize) {
    wait_until(SOON, &format!("{connections} idle connections"), || ingress.idle.count() == connections);
}

/// Sends the two `parts` of a request. Before the second, the host has read the first, and has waited for longer than
/// an idle connection keeps its buffers.
fn send_in_parts(client: &mut TcpStream, address: SocketAddr, ingress: &Ingress, parts: (&[u8], &[u8])) {
    client.write_all(parts.0).unwrap();
    let mut other = wait::connect(address);
    other.write_all(HELLO).unwrap();
    other.read_exact(&mut [0; 12]).unwrap();
    wait_for_idle(ingress, 2);
    client.write_all(parts.1).unwrap();
}

#[test]
fn an_idle_connection_is_announced_and_kept() {
    let (_server, address, ingress) = listen("", IngressOptions::default());
    let mut client = wait::connect(address);
    let mut chunk = [0; 4096];
    for _ in 0..2 {
        client.write_all(HELLO).unwrap();
        let length = client.read(&mut chunk).unwrap();
        let answer = String::from_utf8_lossy(&chunk[..length]);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("keep-alive: timeout=75\r\n"), "{answer}");
        wait_for_idle(&ingress, 1);
    }
    assert!(!ask(address, "").contains("keep-alive:"), "nothing is announced to a client that closes");
}

#[test]
fn a_connection_that_is_idle_for_too_long_is_closed() {
    let (_server, address, _) = listen("", IngressOptions { keep_alive: Duration::ZERO, ..IngressOptions::default() });
    let answer = exchange(address, HELLO);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(!answer.contains("keep-alive:"), "there is no time to announce: {answer}");
}

#[test]
fn a_head_may_come_in_parts_after_an_idle_time() {
    let (_server, address, ingress) = listen("", IngressOptions::default());
    for split in [1, 20] {
        let mut client = wait::connect(address);
        let mut chunk = [0; 4096];
        client.write_all(HELLO).unwrap();
        assert!(client.read(&mut chunk).unwrap() > 0);
        wait_for_idle(&ingress, 1);
        send_in_parts(&mut client, address, &ingress, HELLO.split_at(split));
        let length = client.read(&mut chunk).unwrap();
        assert!(chunk[..length].starts_with(b"HTTP/1.1 200"));
        drop(client);
        // The host sees the ends of both connections.
        wait_for_idle(&ingress, 0);
    }
}
