//! No client has more than its share of a component.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use hexad::component::ComponentService;
use hexad::imports::outbound::OutboundOptions;
use hexad::ingress::IngressOptions;
use socket2::{Domain, Socket, Type};

use crate::fixture::Server;
use crate::slow_readers::{assert_hello, listen, listen_on, wait_for_busy};
use crate::upstream::Upstream;
use hexad_testing::wait::{SOON, wait_until, with_deadlines};

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

fn answer(mut client: TcpStream) -> String {
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_address_leaves_instances_for_others() {
    let tool = "instances = 4\nqueue_timeout = \"1h\"\nrequest_timeout = \"1h\"";
    let (server, address, _) = listen(tool, IngressOptions::default());
    let greedy = Ipv4Addr::new(127, 0, 0, 2);
    let mut held: Vec<_> = (0..8).map(|_| connect_from(greedy, address)).collect();
    for client in &mut held {
        ask(client, "never", "");
    }
    wait_for_busy(&server, 2);
    let mut other = connect_from(Ipv4Addr::new(127, 0, 0, 3), address);
    ask(&mut other, "hello", "");
    assert_hello(answer(other).as_bytes());
    // The greedy client's own requests wait until it releases one of its permits.
    let mut own = connect_from(greedy, address);
    ask(&mut own, "hello", "");
    drop(held);
    assert_hello(answer(own).as_bytes());
}

#[test]
fn a_client_without_an_instance_waits_for_no_queue_of_others() {
    let tool = "instances = 4\nqueue_timeout = \"60s\"\nrequest_timeout = \"1h\"";
    let (server, address, _) = listen(tool, IngressOptions::default());
    let never = |host| {
        let mut client = connect_from(Ipv4Addr::new(127, 0, 0, host), address);
        ask(&mut client, "never", "");
        client
    };
    let wait_for_queue = |length: usize| {
        let has_length =
            || server.host.services().iter().map(|service| ComponentService::load(service).1).sum::<usize>() == length;
        wait_until(SOON, &format!("a queue of {length} requests"), has_length);
    };
    let mut held: Vec<_> = [2, 2, 3, 4].map(never).into();
    wait_for_busy(&server, 4);
    let _queued = [2, 3, 4, 3, 4].map(never);
    wait_for_queue(5);
    let mut innocent = connect_from(Ipv4Addr::new(127, 0, 0, 5), address);
    ask(&mut innocent, "hello", "");
    wait_for_queue(6);
    held.remove(0);
    assert_hello(answer(innocent).as_bytes());
}

#[test]
fn a_credential_leaves_instances_for_others() {
    let tool = "instances = 4\nqueue_timeout = \"50ms\"\nrequest_timeout = \"1h\"";
    let (server, address, _) = listen(tool, IngressOptions::default());
    let token = "authorization: Bearer one\r\n";
    let mut held: Vec<_> = (2..4).map(|host| connect_from(Ipv4Addr::new(127, 0, 0, host), address)).collect();
    for client in &mut held {
        ask(client, "never", token);
    }
    wait_for_busy(&server, 2);
    let status = |host, headers: &str| {
        let mut client = connect_from(Ipv4Addr::new(127, 0, 0, host), address);
        ask(&mut client, "hello", headers);
        answer(client).split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status(4, token), "503");
    assert_eq!(status(4, "authorization: Bearer two\r\n"), "200");
    assert_eq!(status(4, ""), "200");
}

#[test]
fn the_share_of_a_client_is_a_setting() {
    let tool = "instances = 2\ninstances_per_client = 2\nrequest_timeout = \"1h\"";
    let (server, address, _) = listen(tool, IngressOptions::default());
    let mut held: Vec<_> = (0..2).map(|_| connect_from(Ipv4Addr::LOCALHOST, address)).collect();
    for client in &mut held {
        ask(client, "never", "");
    }
    wait_for_busy(&server, 2);
}

#[test]
fn an_address_leaves_outbound_requests_for_others() {
    let upstream = Upstream::start();
    let tool = "request_timeout = \"1h\"\noutbound = { requests = 4, queue_timeout = \"50ms\", head_timeout = \"1h\" }";
    let server = Server::reaching(&["http://127.0.0.1:*"], tool, OutboundOptions::default());
    let (server, address, _) = listen_on(server, IngressOptions::default());
    let send = |host, path| {
        let mut client = connect_from(Ipv4Addr::new(127, 0, 0, host), address);
        ask(&mut client, &format!("outbound?url={}", upstream.url(path)), "");
        client
    };
    let outbound = server.host.services().iter().find(|service| service.id() == "probe").unwrap().outbound().unwrap();
    let held = [(); 2].map(|()| send(2, "silent"));
    wait_until(SOON, "two outbound requests", || outbound.in_flight() == 2);
    let refused = answer(send(2, "hello"));
    assert!(refused.contains("ErrorCode::ConnectionLimitReached"), "{refused}");
    assert_eq!(outbound.counters().busy.get(), 1);
    let of_other = answer(send(3, "hello"));
    assert!(of_other.contains("\n\nhello"), "{of_other}");
    drop(held);
    wait_until(SOON, "the end of the outbound requests", || outbound.in_flight() == 0);
    let own = answer(send(2, "hello"));
    assert!(own.contains("\n\nhello"), "{own}");
}
