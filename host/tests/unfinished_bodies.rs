//! Guests of WASI 0.2 that return before they have finished the body of their response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::fixture::Server;

/// The response to a GET of `/incoming?query`, until the connection ends.
fn get(address: SocketAddr, query: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /incoming?{query} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// Otherwise it would wait for the guest for as long as a response may take, and hold the instance.
#[test]
fn the_response_breaks_off_when_the_guest_returns() {
    let mut server = Server::with("");
    let address = server.listen();
    // More of them than the component may have instances.
    for _ in 0..100 {
        let response = get(address, "unfinished");
        assert!(response.starts_with("HTTP/1.1 502 "), "nothing of it was sent: {response}");
    }
    let response = get(address, "unfinished=large");
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("transfer-encoding: chunked"), "{head}");
    assert!(body.contains("largelarge") && !body.ends_with("\r\n0\r\n\r\n"), "{} bytes", body.len());
    let finished = get(address, "finished");
    assert!(finished.ends_with("hello from 0.2 at /incoming?finished"), "{finished}");
}

#[test]
fn a_response_of_its_declared_length_is_complete() {
    let mut server = Server::with("");
    let address = server.listen();
    let response = get(address, "unfinished=with-length");
    assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("?unfinished=with-length"), "{response}");
}
