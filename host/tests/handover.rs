//! Connections move to another thread when the number of serving threads changes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hexad::ingress::Ingress;

use crate::fixture::Server;
use crate::health;
use crate::ingress::{certificate, connect_tls, with_tls};
use crate::wait::{self, SOON, wait_for_ok};

/// A connection that stays open.
struct Client<S>(BufReader<S>);

impl<S: Read + Write> Client<S> {
    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
        self.0.get_mut().flush().unwrap();
    }

    /// Status and body of the next answer, which may have a length or be chunked.
    fn answer(&mut self) -> (u16, Vec<u8>) {
        let status = self.line().split(' ').nth(1).unwrap().parse().unwrap();
        let mut length = None;
        loop {
            let line = self.line().to_ascii_lowercase();
            match line.split_once(": ") {
                None => break,
                Some(("content-length", value)) => length = Some(value.parse().unwrap()),
                Some(_) => {}
            }
        }
        let mut body = Vec::new();
        if let Some(length) = length {
            self.part(length, &mut body);
            return (status, body);
        }
        loop {
            let length = usize::from_str_radix(&self.line(), 16).unwrap();
            self.part(length, &mut body);
            assert_eq!(self.line(), "");
            if length == 0 {
                return (status, body);
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        assert!(line.ends_with("\r\n"), "the connection ended: {line:?}");
        line.trim_end().to_owned()
    }

    fn part(&mut self, length: usize, body: &mut Vec<u8>) {
        let start = body.len();
        body.resize(start + length, 0);
        self.0.read_exact(&mut body[start..]).unwrap();
    }
}

fn connect(address: SocketAddr) -> Client<TcpStream> {
    let stream = wait::connect(address);
    stream.set_nodelay(true).unwrap();
    Client(BufReader::new(stream))
}

/// A request whose answer is its body.
fn echo(body: &[u8]) -> Vec<u8> {
    let head = format!("POST /probe/echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Waits until the threads have these numbers of connections.
fn until_loads(server: &Server, loads: [usize; 2]) {
    wait_for_ok(SOON, "connections on both threads", || match server.host.loads() {
        found if found == loads => Ok(()),
        found => Err(format!("{found:?} instead of {loads:?}")),
    });
}

/// A server whose threads both serve, however busy the machine is.
fn on_two_threads() -> Server {
    let server = Server::on_two_threads("");
    server.host.serve_on(2);
    server
}

#[test]
fn connections_with_requests_go_on_where_is_served() {
    let mut server = on_two_threads();
    let address = server.listen();
    let mut clients: Vec<_> = (0..8).map(|_| connect(address)).collect();
    let silent: Vec<_> = (0..2).map(|_| connect(address)).collect();
    until_loads(&server, [5, 5]);
    let ask = |clients: &mut [Client<TcpStream>]| {
        for client in clients {
            client.send(&echo(b"abc"));
            assert_eq!(client.answer(), (200, b"abc".to_vec()));
        }
    };
    ask(&mut clients);
    assert_eq!(server.host.loads(), [5, 5]);
    let access = server.host.administer("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let serving = || {
        let metrics = health::ask(&access, "/metrics").1;
        metrics.lines().find_map(|line| line.strip_prefix("hexad_serving_shards ").map(str::to_owned))
    };
    assert_eq!(serving().as_deref(), Some("2.0"));
    server.host.serve_on(1);
    assert_eq!(serving().as_deref(), Some("1.0"));
    ask(&mut clients);
    // The connections without requests stay where they are.
    until_loads(&server, [9, 1]);
    let late = connect(address);
    until_loads(&server, [10, 1]);
    server.host.serve_on(2);
    ask(&mut clients);
    until_loads(&server, [6, 5]);
    drop((silent, late, clients));
    until_loads(&server, [0, 0]);
}

/// Sends requests of many sizes, whole and in parts, until `done`.
fn ask_all_the_time<S: Read + Write>(client: &mut Client<S>, done: &AtomicBool) -> usize {
    let mut asked = 0;
    while !done.load(Ordering::Relaxed) {
        let body = vec![b'a' + (asked % 26) as u8; [0, 1, 100, 20_000, 300_000][asked % 5]];
        let request = echo(&body);
        match asked % 3 {
            0 => client.send(&request),
            1 => {
                let (start, rest) = request.split_at(request.len().min(20));
                client.send(start);
                wait::pause(wait::BETWEEN_LOOKS);
                client.send(rest);
            }
            // Pipelined: the second request does not wait for the first answer.
            _ => {
                client.send(&[&echo(b"first")[..], &request].concat());
                assert_eq!(client.answer(), (200, b"first".to_vec()));
            }
        }
        let (status, answer) = client.answer();
        assert_eq!(status, 200);
        assert!(answer == body, "{} bytes instead of {}", answer.len(), body.len());
        asked += 1;
    }
    asked
}

#[test]
fn nothing_is_lost_while_connections_move() {
    let folder = tempfile::tempdir().unwrap();
    let root = certificate(folder.path());
    let mut server = on_two_threads();
    let plain = server.listen();
    let ingress = Arc::new(Ingress::new(with_tls(&folder)).unwrap());
    let secure = server.host.serve(TcpListener::bind("127.0.0.1:0").unwrap(), ingress).unwrap();
    let done = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|index| {
                let (root, done) = (&root, &done);
                scope.spawn(move || match index % 2 {
                    0 => ask_all_the_time(&mut connect(plain), done),
                    _ => {
                        let stream = connect_tls(secure, root, "http/1.1").unwrap();
                        ask_all_the_time(&mut Client(BufReader::new(stream)), done)
                    }
                })
            })
            .collect();
        let mut client = connect(plain);
        for change in 0..1000 {
            server.host.serve_on(1 + change % 2);
            client.send(&echo(b"abc"));
            assert_eq!(client.answer(), (200, b"abc".to_vec()));
        }
        done.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(asked.iter().all(|asked| *asked > 0), "{asked:?}");
    until_loads(&server, [0, 0]);
}

#[test]
fn bytes_after_an_answer_to_an_unread_body_are_no_request() {
    let mut server = on_two_threads();
    let address = server.listen();
    let heads = [
        ("ignore", "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n"),
        ("sleep?ms=20", "expect: 100-continue\r\ncontent-length: 100\r\n\r\n"),
    ];
    for round in 0..20 {
        let (path, rest) = heads[round % 2];
        let mut clients: Vec<_> = (0..2).map(|_| wait::connect(address)).collect();
        for client in &mut clients {
            write!(client, "POST /probe/{path} HTTP/1.1\r\nhost: a\r\n").unwrap();
        }
        until_loads(&server, [1, 1]);
        // Each connection is to move once it is between two requests.
        server.host.serve_on(1);
        for client in &mut clients {
            client.write_all(rest.as_bytes()).unwrap();
            client.peek(&mut [0]).unwrap();
            let smuggled = format!("GET /probe/hello HTTP/1.1\r\nhost: a\r\nx: {:100}\r\n\r\n", "");
            // The host may have closed the connection.
            let _ = client.write_all(smuggled.as_bytes());
            let answers = wait::read_to_close(client);
            let answers = String::from_utf8_lossy(&answers);
            assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{path}: {answers}");
        }
        drop(clients);
        until_loads(&server, [0, 0]);
        server.host.serve_on(2);
    }
}

#[test]
fn http2_connections_are_on_all_threads_also_while_fewer_serve() {
    let mut server = on_two_threads();
    let address = server.listen();
    server.host.serve_on(1);
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut client = wait::connect(address);
            client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
            // The length and the type of the host's settings.
            let mut frame = [0; 9];
            client.read_exact(&mut frame).unwrap();
            assert_eq!(frame[3], 4);
            client
        })
        .collect();
    until_loads(&server, [2, 2]);
    drop(clients);
    until_loads(&server, [0, 0]);
}

#[test]
fn a_connection_that_has_moved_ends_with_the_host() {
    let mut server = on_two_threads();
    let address = server.listen();
    let mut clients: Vec<_> = (0..4).map(|_| connect(address)).collect();
    until_loads(&server, [2, 2]);
    server.host.serve_on(1);
    for client in &mut clients {
        client.send(&echo(b"abc"));
        assert_eq!(client.answer(), (200, b"abc".to_vec()));
    }
    until_loads(&server, [4, 0]);
    server.host.stop(Duration::from_secs(60));
    for client in &mut clients {
        assert_eq!(client.0.read(&mut [0]).unwrap(), 0, "the host has closed the connection");
    }
}
