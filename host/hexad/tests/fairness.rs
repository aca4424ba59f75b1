//! No client has more than its share of a component.

use crate::*;
use hexad_testing::wait::with_deadlines;

/// A connection from another address of the loopback interface.
pub fn connect_from(source: Ipv4Addr, address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&address.into()).unwrap();
    with_deadlines(socket.into())
}

pub fn ask(client: &mut TcpStream, path: &str, headers: &str) {
    write!(client, "GET /probe/{path} HTTP/1.1\r\nhost: forge.test\r\n{headers}connection: close\r\n\r\n").unwrap();
}

/// The same on a new connection from an address of the loopback interface.
pub fn ask_from(host: u8, address: SocketAddr, path: &str, headers: &str) -> TcpStream {
    let mut client = connect_from(Ipv4Addr::new(127, 0, 0, host), address);
    ask(&mut client, path, headers);
    client
}

#[test]
fn an_address_leaves_instances_for_others() {
    let tool = "instances = 4\nqueue_timeout = \"1h\"\nrequest_timeout = \"1h\"";
    let (server, address, _) = listen(tool, IngressOptions::default());
    let held: Vec<_> = (0..8).map(|_| ask_from(2, address, "never", "")).collect();
    wait_for_busy(&server, 2);
    assert_hello(read_text(ask_from(3, address, "hello", "")).as_bytes());
    // The greedy client's own requests wait until it releases one of its permits.
    let own = ask_from(2, address, "hello", "");
    drop(held);
    assert_hello(read_text(own).as_bytes());
}

#[test]
fn a_client_without_an_instance_waits_for_no_queue_of_others() {
    let tool = "instances = 4\nqueue_timeout = \"60s\"\nrequest_timeout = \"1h\"";
    let (server, address, _) = listen(tool, IngressOptions::default());
    let never = |host| ask_from(host, address, "never", "");
    let wait_for_queue = |length: usize| {
        let has_length =
            || server.host.services().iter().map(|service| ComponentService::load(service).1).sum::<usize>() == length;
        wait_until(SOON, &format!("a queue of {length} requests"), has_length);
    };
    let mut held: Vec<_> = [2, 2, 3, 4].map(never).into();
    wait_for_busy(&server, 4);
    let _queued = [2, 3, 4, 3, 4].map(never);
    wait_for_queue(5);
    let innocent = ask_from(5, address, "hello", "");
    wait_for_queue(6);
    held.remove(0);
    assert_hello(read_text(innocent).as_bytes());
}

#[test]
fn a_credential_leaves_instances_for_others() {
    let tool = "instances = 4\nqueue_timeout = \"50ms\"\nrequest_timeout = \"1h\"";
    let (server, address, _) = listen(tool, IngressOptions::default());
    let token = "authorization: Bearer one\r\n";
    let _held: Vec<_> = (2..4).map(|host| ask_from(host, address, "never", token)).collect();
    wait_for_busy(&server, 2);
    let status = |host, headers: &str| {
        read_text(ask_from(host, address, "hello", headers)).split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status(4, token), "503");
    assert_eq!(status(4, "authorization: Bearer two\r\n"), "200");
    assert_eq!(status(4, ""), "200");
}

#[test]
fn the_share_of_a_client_is_a_setting() {
    let tool = "instances = 2\ninstances_per_client = 2\nrequest_timeout = \"1h\"";
    let (server, address, _) = listen(tool, IngressOptions::default());
    let _held: Vec<_> = (0..2).map(|_| ask_from(1, address, "never", "")).collect();
    wait_for_busy(&server, 2);
}

#[test]
fn an_address_leaves_outbound_requests_for_others() {
    let upstream = Upstream::start();
    let tool = "request_timeout = \"1h\"\noutbound = { requests = 4, queue_timeout = \"50ms\", head_timeout = \"1h\" }";
    let server = Server::reaching(&["http://127.0.0.1:*"], tool, OutboundOptions::default());
    let (server, address, _) = listen_on(server, IngressOptions::default());
    let send = |host, path| ask_from(host, address, &format!("outbound?url={}", upstream.url(path)), "");
    let outbound = server.service("probe").outbound().unwrap();
    let held = [(); 2].map(|()| send(2, "silent"));
    wait_until(SOON, "two outbound requests", || outbound.in_flight() == 2);
    let refused = read_text(send(2, "hello"));
    assert!(refused.contains("ErrorCode::ConnectionLimitReached"), "{refused}");
    assert_eq!(outbound.counters().busy.get(), 1);
    let of_other = read_text(send(3, "hello"));
    assert!(of_other.contains("\n\nhello"), "{of_other}");
    drop(held);
    wait_until(SOON, "the end of the outbound requests", || outbound.in_flight() == 0);
    let own = read_text(send(2, "hello"));
    assert!(own.contains("\n\nhello"), "{own}");
}
