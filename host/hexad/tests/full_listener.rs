//! A listener at its connection limit closes connections that wait for their client, for new ones.

use crate::ingress::ask;
use crate::*;

const HELLO: &[u8] = b"GET /probe/hello HTTP/1.1\r\nhost: a\r\n\r\n";

/// Opens as many connections as the listener may have, and sends `start` on each. For another client, the host closes
/// two: one for its connection, and one for the next.
fn connect_three(address: SocketAddr, start: &[u8]) -> [TcpStream; 3] {
    [(); 3].map(|()| {
        let mut client = wait::connect(address);
        client.write_all(start).unwrap();
        client
    })
}

fn three() -> IngressOptions {
    IngressOptions { connections: 3, keep_alive: Duration::from_secs(3600), ..IngressOptions::default() }
}

/// Whether the host has closed the connection.
fn is_closed(client: &mut TcpStream) -> bool {
    client.read_to_end(&mut Vec::new()).is_ok()
}

#[test]
fn clients_that_have_sent_no_request_keep_no_other_out() {
    for start in [&b""[..], b"G", &HELLO[..20]] {
        let (_server, address, _) = listen("", three());
        let [mut first, _second, mut last] = connect_three(address, start);
        assert!(ask(address, "").starts_with("HTTP/1.1 200"), "{start:?}");
        last.write_all(&HELLO[start.len()..]).unwrap();
        assert_eq!(status_line(&mut last), "HTTP/1.1 200", "{start:?}");
        assert!(is_closed(&mut first), "{start:?}");
    }
}

#[test]
fn part_of_a_later_head_keeps_no_other_out() {
    let (_server, address, _) = listen("", IngressOptions { connections: 4, ..three() });
    let mut clients = connect_three(address, HELLO);
    for client in &mut clients {
        let mut answer = Vec::new();
        while !answer.ends_with(b"hello") {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
        client.write_all(b"G").unwrap();
    }
    // The limit is reached only now. Earlier, the host could have closed a connection that waits for its turn to write.
    let _fourth = wait::connect(address);
    assert!(ask(address, "").starts_with("HTTP/1.1 200"));
    let [mut first, _second, mut last] = clients;
    last.write_all(&HELLO[1..]).unwrap();
    last.read_exact(&mut [0; 12]).unwrap();
    assert!(is_closed(&mut first));
}

#[test]
fn clients_of_http2_without_a_request_keep_no_other_out() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let (_server, address, _) = listen("", three());
    let [mut first, _second, mut last] = connect_three(address, PREFACE);
    assert!(ask(address, "").starts_with("HTTP/1.1 200"));
    last.set_nonblocking(true).unwrap();
    let mut frames = Vec::new();
    assert_eq!(last.read_to_end(&mut frames).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "it stays");
    assert!(is_closed(&mut first));
}

#[test]
fn clients_that_agree_on_no_keys_keep_no_other_out() {
    let folder = tempfile::tempdir().unwrap();
    let root = certificate(folder.path());
    let (_server, address, _) = listen("", IngressOptions { connections: 3, ..with_tls(&folder) });
    // The beginning of a TLS handshake record.
    let [mut first, _second, mut last] = connect_three(address, b"\x16\x03\x01");
    let mut client = connect_tls(address, &root, "http/1.1").unwrap();
    client.write_all(b"GET /probe/hello HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(status_line(&mut client), "HTTP/1.1 200");
    last.set_nonblocking(true).unwrap();
    assert_eq!(last.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "it stays");
    assert!(is_closed(&mut first));
}
