//! Addresses that guests reach, and names with several of them.

use crate::outbound::{fetch, named};
use crate::upstream::Names;
use crate::*;

#[tokio::test]
async fn addresses_that_are_not_public_are_prohibited_in_every_spelling() {
    let everything = named(&["*://*:*"], "", Names::new(&[]));
    let upstream = Upstream::start();
    let port = upstream.address.port();
    let hosts = "127.0.0.1 127.1 0x7f.0.0.1 0177.0.0.1 2130706433 0x7f000001 0 0.0.0.0 [::1] [::] [::ffff:127.0.0.1] \
        [::ffff:7f00:1] [::127.0.0.1] [64:ff9b::7f00:1] [2002:7f00:1::] 169.254.169.254 169.254.43518 0xa9fea9fe \
        2852039166 0251.0376.0251.0376 [::ffff:a9fe:a9fe] [fd00:ec2::254] [fe80::1] 100.100.100.200 192.0.0.192 \
        10.0.0.1 172.16.0.1 192.168.1.1 224.0.0.1 255.255.255.255 [ff02::1] [2001:0:a9fe:a9fe::1]";
    for host in hosts.split(' ') {
        let answer = fetch(&everything, &format!("http://{host}:{port}/hello")).await;
        assert_eq!(answer, "ErrorCode::DestinationIpProhibited", "{host}");
    }
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_name_is_checked_by_its_addresses() {
    let names = Names::new(&[
        ("metadata.example", &[&["169.254.169.254", "fd00:ec2::254", "::ffff:127.0.0.1"]]),
        ("localhost", &[&["10.0.0.1"]]),
        ("both.example", &[&["10.0.0.1", "127.0.0.1"]]),
    ]);
    let upstream = Upstream::start();
    let port = upstream.address.port();
    let server = named(&["http://*:*", "http://localhost:*"], "outbound = { networks = [\"127.0.0.1/32\"] }", names);
    for name in ["metadata.example", "localhost"] {
        let answer = fetch(&server, &format!("http://{name}:{port}/hello")).await;
        assert_eq!(answer, "ErrorCode::DestinationIpProhibited", "{name}");
    }
    // Only one of its addresses is permitted, by the manifest's networks.
    let answer = fetch(&server, &format!("http://both.example:{port}/head")).await;
    assert!(answer.contains(&format!("host: both.example:{port}\r\n")), "{answer}");
    let answer = fetch(&server, "http://unknown.example/").await;
    assert!(answer.starts_with("ErrorCode::DnsError"), "{answer}");
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_checked_at_each_connection() {
    let names = Names::new(&[("rebinding.example", &[&["127.0.0.1"], &["127.0.0.2"]])]);
    let upstream = Upstream::start();
    let server = named(&["http://*:*"], "outbound = { networks = [\"127.0.0.1/32\"] }", names);
    let url = format!("http://rebinding.example:{}", upstream.address.port());
    assert!(fetch(&server, &format!("{url}/close")).await.ends_with("hello"));
    assert_eq!(fetch(&server, &format!("{url}/hello")).await, "ErrorCode::DestinationIpProhibited");
}

#[tokio::test]
async fn localhost_is_reached_if_the_manifest_names_it() {
    let upstream = Upstream::start();
    let server = named(&["http://localhost:*"], "", Names::new(&[("localhost", &[&["127.0.0.1"]])]));
    let answer = fetch(&server, &format!("http://localhost:{}/hello", upstream.address.port())).await;
    assert!(answer.ends_with("hello"), "{answer}");
}

/// A listener whose queue is full: the kernel answers no attempt to connect to it.
fn dead_end(address: SocketAddr) -> (Socket, Vec<TcpStream>) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&address.into()).unwrap();
    listener.listen(0).unwrap();
    // The queue holds one connection more than its length.
    (listener, vec![TcpStream::connect(address).unwrap()])
}

#[tokio::test]
async fn an_address_that_does_not_answer_leaves_time_for_the_next() {
    let upstream = Upstream::start();
    let port = upstream.address.port();
    let _dead_end = dead_end(SocketAddr::new("127.0.0.2".parse().unwrap(), port));
    let names = Names::new(&[("two.example", &[&["127.0.0.2", "127.0.0.1"]])]);
    let tool = "outbound = { networks = [\"127.0.0.0/8\"], connect_timeout = \"2s\" }";
    let server = named(&["http://*:*"], tool, names);
    let answer = fetch(&server, &format!("http://two.example:{port}/hello")).await;
    assert!(answer.ends_with("hello"), "{answer}");
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 1);
}
