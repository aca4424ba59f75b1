//! Clients that hold connections: idle clients, and clients that do not read their answers.

use crate::component::hello_manifest;
use crate::load::Load;
use crate::registry::Registry;
use crate::*;
use hexad_tests::server;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

/// Idle connections, each after one answer, and their addresses. If the server may open few files, one address may not
/// have all connections.
const IDLE: usize = 10_000;
const ADDRESSES: usize = 5;
/// Connections whose client reads nothing of a large answer.
const STALLED: usize = 70;
const MB: usize = 1_000_000;

pub fn run(bench: &Bench) {
    if bench.selection.has("idle connections", "") {
        idle();
    }
    if bench.selection.has("slow readers", "") {
        slow_readers();
    }
}

/// A server that takes all connections of one address.
fn start(manifest: &Path, data: &Path) -> Server {
    let mut command = server::up(manifest, data);
    let most = (2 * IDLE).to_string();
    command.args(["--max-connections", &most, "--max-connections-per-address", &most]);
    command.env("SPIN_VARIABLE_BOOTSTRAP_ADMIN_TOKEN", server::BOOTSTRAP_TOKEN);
    Server::spawn(command, data)
}

/// Sends a request without a body.
fn send(server: &Server, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", server.address()).expect("the server reads");
    stream
}

fn idle() {
    eprintln!("idle connections…");
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = start(&hello_manifest(data.path(), false), data.path());
    // The memory that the first requests allocate stays.
    Load::run(&server.url, &get("/", &[]));
    let before = server.memory().0;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // Fewer, if the client or the server may not open so many.
    let connections: Vec<TcpStream> = (0..IDLE).map_while(|number| used_once(&runtime, &server, number).ok()).collect();
    assert!(connections.len() > IDLE / 10, "only {} connections could be opened", connections.len());
    let memory = server.memory().0.saturating_sub(before) as f64 / MB as f64;
    println!("{} idle connections", connections.len());
    println!("  memory of the connections {memory:>15.0} MB\n");
}

/// A connection that has had an answer.
fn used_once(runtime: &Runtime, server: &Server, number: usize) -> io::Result<TcpStream> {
    let last = u8::try_from(number % ADDRESSES).expect("few addresses") + 1;
    let target: SocketAddr = server.address().parse().expect("an address");
    let mut stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        // If the system has only one address, all connections come from it.
        let _ = socket.bind(([127, 0, 0, last], 0).into());
        socket.connect(target).await?.into_std()
    })?;
    stream.set_nonblocking(false)?;
    write!(stream, "GET / HTTP/1.1\r\nhost: {target}\r\n\r\n")?;
    match stream.read(&mut [0; 1024])? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(stream),
    }
}

/// Requests on one HTTP/2 connection whose client reads nothing of the responses (RFC 9113, sections 4.1 and 6).
fn unread_streams(server: &Server, path: &str, count: u32) -> TcpStream {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).expect("a small frame").to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    // Literal fields that are not indexed (RFC 7541, section 6.2.2).
    let field = |name: &str, value: &str| {
        let text = |text: &str| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
        [vec![0], text(name), text(value)].concat()
    };
    let fields = [(":method", "GET"), (":scheme", "http"), (":authority", server.address()), (":path", path)];
    let head = fields.map(|(name, value)| field(name, value)).concat();
    // SETTINGS_INITIAL_WINDOW_SIZE of 0.
    let settings = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let requests = (0..count).flat_map(|number| frame(1, 5, 2 * number + 1, &head)).collect::<Vec<u8>>();
    let mut client = TcpStream::connect(server.address()).expect("a connection");
    client.write_all(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..], &requests].concat()).expect("sent");
    client
}

/// Metadata for other clients, while some clients read nothing of a tarball of 5 MB.
fn slow_readers() {
    eprintln!("slow readers…");
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = start(&uncached_manifest(data.path()), data.path());
    forge::seed(&server);
    let registry = Registry::of(&server);
    load::each_once(&server.url, vec![registry.put("big", "1.0.0", 5 * MB, 1)], 1);
    let (metadata, tarball) = (registry.get("big", &[]), registry.get("big/-/big-1.0.0.tgz", &[]).path);
    let quiet = Load::run(&server.url, &metadata);
    let before = server.memory().0;
    let stalled: Vec<TcpStream> = (0..STALLED).map(|_| send(&server, &tarball)).collect();
    let attacked = Load::run(&server.url, &metadata);
    let memory = server.memory().0.saturating_sub(before) as f64 / MB as f64;
    let count = stalled.len();
    drop(stalled);
    let streams = unread_streams(&server, &tarball, 100);
    let by_streams = Load::run(&server.url, &metadata);
    drop(streams);
    println!("Metadata for 16 connections, while others take nothing of a tarball of 5 MB");
    println!("  {:<38} {:>9} {:>9} {:>9} {:>9}", "", "req/s", "p50 ms", "p99 ms", "× quiet");
    let connections = format!("{count} connections");
    for (name, load) in
        [("without them", &quiet), (&*connections, &attacked), ("100 streams of one HTTP/2 connection", &by_streams)]
    {
        let (median, tail) = (load.percentile(0.5), load.percentile(0.99));
        let ratio = tail / quiet.percentile(0.99);
        println!("  {name:<38} {:>9.0} {median:>9.2} {tail:>9.2} {ratio:>9.2}", load.per_second());
    }
    println!("  memory of the connections {memory:>15.0} MB\n");
}
