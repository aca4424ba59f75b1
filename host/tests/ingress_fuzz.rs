//! Requests that are not what they seem, and random changes of them.
//!
//! `corpus/requests` has one file for each, with the bytes that a client sends. Its name begins with the
//! expected result: the status of every response; `one` for at most one response, so that the rest of the
//! file is not taken for a request; `any` for anything but a failure of the host.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use hexad::ingress::IngressOptions;

use crate::fuzz::{Changes, bytes, corpus};
use crate::slow_readers::listen;

/// Changed requests per run; always the same ones.
const CHANGED: usize = 3000;

/// Longer than any timeout of the host that could end the exchange.
const HANGS: Duration = Duration::from_secs(60);

/// Sends bytes, and reads until the host closes; it must do so once the client has no more to send.
fn exchange(address: SocketAddr, bytes: &[u8], at_once: bool) -> Vec<u8> {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(HANGS)).unwrap();
    // The host may close the connection by a reset before it has read everything.
    let _ = client.write_all(bytes);
    if at_once {
        let _ = client.shutdown(Shutdown::Write);
    }
    let mut answer = Vec::new();
    if let Err(error) = client.read_to_end(&mut answer) {
        let is_reset = matches!(error.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe);
        assert!(is_reset, "{error}: {:?}", String::from_utf8_lossy(bytes));
    }
    answer
}

/// The statuses of the responses. The probe's own responses do not look like one.
fn statuses(answer: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(answer);
    let lines = text.split("HTTP/1.").skip(1);
    lines.filter_map(|line| line.get(2..5)?.parse().ok()).filter(|status| *status != 100).collect()
}

#[test]
fn each_request_of_the_corpus_gets_the_status_in_its_name() {
    let (_server, address, _) = listen("", IngressOptions::default());
    for (name, bytes) in corpus("requests") {
        let (expected, _) = name.split_once('-').unwrap();
        // A client that has asked for the connection to be closed, or was refused, need not close it.
        let answer = exchange(address, &bytes, !matches!(expected, "200" | "400"));
        let found = statuses(&answer);
        match expected {
            "one" => assert!(found.len() <= 1, "{name}: {found:?}"),
            "any" => {}
            status => {
                let status: u16 = status.parse().unwrap();
                assert!(!found.is_empty() && found.iter().all(|found| *found == status), "{name}: {found:?}");
            }
        }
        assert!(found.iter().all(|status| *status < 500), "{name}: {found:?}");
    }
}

/// The parts that smuggled requests are made of.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"0\r\n\r\n",
    b"content-length: 3\r\n",
    b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: x\r\n",
    b"ffffffff\r\n",
    b"GET /probe/hello HTTP/1.1\r\nhost: a\r\n\r\n",
    b"\xff\xfe",
];

#[test]
fn changed_requests_neither_hang_nor_fail_the_host() {
    let (server, address, _) = listen("", IngressOptions::default());
    let corpus = corpus("requests");
    let seeds = corpus.iter().map(|(_, bytes)| bytes.as_slice());
    for bytes in Changes::new(seeds, bytes, PIECES).take(CHANGED) {
        let found = statuses(&exchange(address, &bytes, true));
        assert!(found.iter().all(|status| *status < 500), "{:?}: {found:?}", String::from_utf8_lossy(&bytes));
    }
    crate::slow_readers::wait_for_busy(&server, 0);
    let plain = b"GET /probe/hello HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    assert_eq!(statuses(&exchange(address, plain, false)), [200]);
}
