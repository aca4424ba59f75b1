//! Clients that send or read slowly, though faster than any minimum, keep no instance from others.

use crate::fairness::connect_from;
use crate::*;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// Addresses of slow clients, and how many requests each of them has under way.
const ADDRESSES: u8 = 6;
const REQUESTS: usize = 4;

/// A longer body than a test sends.
const UPLOAD: &str = "POST /probe/count HTTP/1.1\r\nhost: a\r\ncontent-length: 50000000\r\n\r\n";
const DOWNLOAD: &str = "GET /probe/flood?mib=64 HTTP/1.1\r\nhost: a\r\n\r\n";

fn begin(source: Ipv4Addr, address: SocketAddr, head: &str) -> TcpStream {
    let mut client = connect_from(source, address);
    client.write_all(head.as_bytes()).unwrap();
    client
}

/// Whether the client has got an answer.
fn is_answered(client: &mut TcpStream) -> bool {
    client.set_nonblocking(true).unwrap();
    let is_answered = client.read(&mut [0]).is_ok();
    client.set_nonblocking(false).unwrap();
    is_answered
}

fn hello(address: SocketAddr) -> Vec<u8> {
    let mut client =
        begin(Ipv4Addr::LOCALHOST, address, "GET /probe/hello HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    answer
}

/// Asks for `hello` ten times while slow clients do one `step` after the other, with a pause after each. When a step
/// returns false, the client has lost its request, and begins again with `head`.
fn assert_served_beside(head: &str, step: impl Fn(&mut TcpStream) -> bool + Sync, pause: Duration) {
    // Too few instances for all clients: without yielding, queued requests would wait for their ends.
    let server = Server::with_stalled("instances = 4\nqueue_timeout = \"5s\"", 4);
    let send = SendLimits { per_connection: 64 << 10, ..SendLimits::default() };
    let (_server, address, _) = listen_on(server, IngressOptions { send, ..IngressOptions::default() });
    let (steps, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let answers: Vec<_> = std::thread::scope(|threads| {
        for source in (2..2 + ADDRESSES).flat_map(|last| [Ipv4Addr::new(127, 0, 0, last); REQUESTS]) {
            let (step, steps, is_over) = (&step, &steps, &is_over);
            threads.spawn(move || {
                let mut client = begin(source, address, head);
                while !is_over.load(Ordering::Relaxed) {
                    steps.fetch_add(1, Ordering::Relaxed);
                    if !step(&mut client) {
                        client = begin(source, address, head);
                    }
                    wait::pause(pause);
                }
            });
        }
        let enough = 10 * usize::from(ADDRESSES) * REQUESTS;
        wait_until(SOON, "ten steps of each client", || steps.load(Ordering::Relaxed) >= enough);
        let answers = (0..10).map(|_| hello(address)).collect();
        is_over.store(true, Ordering::Relaxed);
        answers
    });
    answers.iter().for_each(|answer| assert_hello(answer));
}

#[test]
fn slow_uploads_of_many_addresses_leave_instances_to_others() {
    // Both rates are 25 kB a second. The shorter pause is too short for an instance to yield its permit.
    for (piece, pause) in [(512, 20), (5_000, 200)] {
        let send = |client: &mut TcpStream| client.write_all(&vec![0; piece]).is_ok() && !is_answered(client);
        assert_served_beside(UPLOAD, send, Duration::from_millis(pause));
    }
}

#[test]
fn slow_readers_of_many_addresses_leave_instances_to_others() {
    let read = |client: &mut TcpStream| {
        client.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        match client.read(&mut vec![0; 20_000]) {
            Ok(length) => length > 0,
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        }
    };
    assert_served_beside(DOWNLOAD, read, Duration::from_millis(100));
}

/// A listener's minimum rate applies in both directions.
#[test]
fn the_minimum_rate_is_that_of_the_listener() {
    let server = Server::with_stalled("instances = 4\nqueue_timeout = \"3s\"", 0);
    let drain = DrainPolicy { min_rate: 0, ..DrainPolicy::default() };
    let (_server, address, _) = listen_on(server, IngressOptions { drain, ..IngressOptions::default() });
    // The address's share is half of the instances, and its next request waits for one of them.
    let mut uploads = [(); 2].map(|()| begin(Ipv4Addr::LOCALHOST, address, UPLOAD));
    let answer = hello(address);
    assert!(answer.starts_with(b"HTTP/1.1 503"), "{}", String::from_utf8_lossy(&answer));
    assert!(!uploads.iter_mut().any(is_answered), "they go on");
}
