//! Requests that are not what they seem, and random changes of them.
//!
//! `corpus/requests` has one file for each, with the bytes that a client sends. Its name begins with the expected
//! result, such as the status of every response. `one` allows at most one response: the rest of the file must not count
//! as a request. `any` allows everything but a failure of the host.

use crate::fuzz::{Changes, bytes, corpus};
use crate::*;
use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
use std::net::Shutdown;

/// Changed requests per run. They are the same in each run.
const CHANGED: usize = 3000;

/// Longer than any timeout of the host that could end the exchange.
pub const HANGS: Duration = Duration::from_secs(60);

/// Sends bytes, and reads until the host closes. The host must close once the client has sent everything.
pub fn exchange(address: SocketAddr, bytes: &[u8], at_once: bool) -> Vec<u8> {
    let mut client = wait::connect(address);
    client.set_read_timeout(Some(HANGS)).unwrap();
    // The host may close the connection by a reset before it has read everything.
    let _ = client.write_all(bytes);
    if at_once {
        let _ = client.shutdown(Shutdown::Write);
    }
    read_until_closed(&mut client, bytes)
}

/// Reads until the host closes the connection, perhaps by a reset, or without the farewell of TLS. `sent` is for the
/// message of a failure.
pub fn read_until_closed(client: &mut impl Read, sent: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    if let Err(error) = client.read_to_end(&mut answer) {
        let is_closed = matches!(error.kind(), ConnectionReset | BrokenPipe | UnexpectedEof);
        assert!(is_closed, "{error}: {:?}", String::from_utf8_lossy(sent));
    }
    answer
}

/// The statuses of the responses. The probe's own responses do not look like one.
pub fn statuses(answer: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(answer);
    let lines = text.split("HTTP/1.").skip(1);
    lines.filter_map(|line| line.get(2..5)?.parse().ok()).filter(|status| *status != 100).collect()
}

#[test]
fn each_request_of_the_corpus_gets_the_status_in_its_name() {
    let (_server, address, _) = listen("", IngressOptions::default());
    assert_statuses(address, "requests");
}

/// Sends each request of a corpus.
pub fn assert_statuses(address: SocketAddr, folder: &str) {
    for (name, bytes) in corpus(folder) {
        let (expected, _) = name.split_once('-').unwrap();
        // If the client has asked for the end of the connection, or was refused, the host closes it.
        let answer = exchange(address, &bytes, expected.parse::<u16>().is_err());
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
pub const PIECES: &[&[u8]] = &[
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
    for bytes in Changes::of_corpus("requests", bytes, PIECES).take(CHANGED) {
        let found = statuses(&exchange(address, &bytes, true));
        assert!(found.iter().all(|status| *status < 500), "{:?}: {found:?}", String::from_utf8_lossy(&bytes));
    }
    crate::slow_readers::wait_for_busy(&server, 0);
    let plain = b"GET /probe/hello HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    assert_eq!(statuses(&exchange(address, plain, false)), [200]);
}
