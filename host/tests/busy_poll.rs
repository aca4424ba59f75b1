//! Threads that poll for more work before they sleep.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use hexad::admin::AdminAccess;

use crate::fixture::Server;
use crate::health;
use crate::wait::{self, SOON, wait_until};

/// Sends one request, and reads its response to the end of the connection.
fn send(address: SocketAddr) {
    let mut stream = wait::connect(address);
    stream.write_all(b"GET /probe/hello HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

/// The seconds for which the host's threads have polled without finding work.
fn polled(access: &AdminAccess) -> f64 {
    let metrics = health::ask(access, "/metrics").1;
    let seconds = metrics.lines().find_map(|line| line.strip_prefix("hexad_busy_poll_seconds_total "));
    seconds.expect("the metric").parse().unwrap()
}

#[test]
fn a_thread_that_has_had_a_request_polls_and_then_sleeps() {
    let window = Duration::from_millis(10);
    let mut server = Server::with_busy_poll(window);
    let address = server.listen();
    let access = server.host.administer("127.0.0.1:0".parse().unwrap(), None).unwrap();
    assert_eq!(polled(&access), 0.0, "no client has sent anything");
    send(address);
    wait_until(SOON, "a thread that has polled", || polled(&access) > 0.0);
    // The thread sleeps again once two reads of the metric are equal.
    let mut before = polled(&access);
    wait_until(SOON, "a thread that sleeps", || {
        let now = polled(&access);
        std::mem::replace(&mut before, now) == now
    });
}

#[test]
fn a_thread_without_a_window_never_polls() {
    let mut server = Server::with_busy_poll(Duration::ZERO);
    let address = server.listen();
    let access = server.host.administer("127.0.0.1:0".parse().unwrap(), None).unwrap();
    for _ in 0..10 {
        send(address);
    }
    assert_eq!(polled(&access), 0.0);
}
