//! Servers for outbound requests of guests, correct and faulty, on this machine.

use crate::*;
use hexad::imports::outbound::Resolve;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

/// A server whose answer depends on the path. It keeps silent connections open until it is dropped.
pub struct Upstream {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
}

impl Upstream {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || serve(stream.unwrap()));
            }
        });
        Self { address, connections }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }
}

/// Serves requests until one of them ends the connection.
fn serve(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line.to_lowercase());
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
        if answer(&mut stream, &path, &head).is_err() {
            return;
        }
    }
}

/// Answers one request; an error ends the connection.
fn answer(stream: &mut TcpStream, path: &str, head: &str) -> std::io::Result<()> {
    let closed = || Err(std::io::ErrorKind::NotConnected.into());
    let sized = |text: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
    let address = stream.local_addr()?;
    let mut send = |bytes: &[u8]| stream.write_all(bytes);
    match path {
        "hello" => send(sized("hello").as_bytes()),
        "head" => send(sized(head).as_bytes()),
        "close" => send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello").and_then(|()| closed()),
        "redirect" => send(b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest/\r\ncontent-length: 0\r\n\r\n"),
        "not-gzip" => send(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 8\r\n\r\nnot gzip"),
        "hops" => send(b"HTTP/1.1 200 OK\r\nconnection: x-mine\r\nx-mine: 1\r\nkeep-alive: timeout=5\r\nx-end: 2\r\ncontent-length: 0\r\n\r\n"),
        "switch" => send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: other\r\nconnection: upgrade\r\n\r\n"),
        "garbage" => send(b"220 mail.example ESMTP\r\n").and_then(|()| closed()),
        "nothing" => closed(),
        "short" => send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n0123456789").and_then(|()| closed()),
        "large-head" => {
            send(b"HTTP/1.1 200 OK\r\nx-large: ")?;
            send(&vec![b'x'; 200 << 10])?;
            send(b"\r\ncontent-length: 0\r\n\r\n")
        }
        "many-headers" => {
            send(b"HTTP/1.1 200 OK\r\n")?;
            (0..101).try_for_each(|n| send(format!("x-{n}: 1\r\n").as_bytes()))?;
            send(b"content-length: 0\r\n\r\n")
        }
        "declared" => send(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\nx"),
        "endless" => {
            send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
            loop {
                send(b"10000\r\n")?;
                send(&vec![b'x'; 0x10000])?;
                send(b"\r\n")?;
            }
        }
        "endless-size" => {
            send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1")?;
            loop {
                send(&[b' '; 0x10000])?;
            }
        }
        "interim" => loop {
            send(&b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(1000))?;
        },
        "small-chunks" => {
            send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
            send(&b"00000000000000000000000000000001\r\nx\r\n".repeat(50_000))?;
            send(b"0\r\n\r\n")
        }
        "large" => send(sized(&"x".repeat(300 << 10)).as_bytes()),
        "large-chunked" => {
            send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4b000\r\n")?;
            send(&vec![b'x'; 300 << 10])?;
            send(b"\r\n0\r\n\r\n")
        }
        "large-and-short" => {
            send(b"HTTP/1.1 200 OK\r\ncontent-length: 307200\r\n\r\n")?;
            send(&vec![b'x'; 200 << 10])?;
            closed()
        }
        "large-with-trailers" => {
            send(b"HTTP/1.1 200 OK\r\ntrailer: x-end\r\ntransfer-encoding: chunked\r\n\r\n4b000\r\n")?;
            send(&vec![b'x'; 300 << 10])?;
            send(b"\r\n0\r\nx-end: 1\r\n\r\n")
        }
        "large-and-slow" => {
            send(b"HTTP/1.1 200 OK\r\ncontent-length: 307200\r\n\r\n")?;
            send(&vec![b'x'; 200 << 10])?;
            wait_for_end(stream)
        }
        "large-declared-twice" => {
            send(b"HTTP/1.1 200 OK\r\ncontent-length: 307200\r\ncontent-length: 307200\r\n\r\n")?;
            send(&vec![b'x'; 300 << 10])
        }
        "location" => send(sized(&format!("http://{address}/hello")).as_bytes()),
        "stall" => {
            send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n0123456789")?;
            wait_for_end(stream)
        }
        "silent" => wait_for_end(stream),
        other => send(format!("HTTP/1.1 404 Not Found\r\ncontent-length: {}\r\n\r\n{other}", other.len()).as_bytes()),
    }
}

/// Sends nothing until the client closes the connection.
fn wait_for_end(stream: &mut TcpStream) -> std::io::Result<()> {
    let _ = stream.read(&mut [0]);
    Err(std::io::ErrorKind::NotConnected.into())
}

/// A resolver with fixed answers. Each look-up takes the next answer of a name. The last answer stays.
#[derive(Debug, Default)]
pub struct Names(Mutex<HashMap<&'static str, Vec<Vec<IpAddr>>>>);

impl Names {
    pub fn new(names: &[(&'static str, &[&[&str]])]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        let names = names.iter().map(|(name, answers)| (*name, answers.iter().map(parse).collect()));
        Arc::new(Self(Mutex::new(names.collect())))
    }
}

impl Resolve for Names {
    fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        let mut names = self.0.lock().unwrap();
        let answers = names.get_mut(name).ok_or(std::io::ErrorKind::NotFound)?;
        match answers.len() {
            1 => Ok(answers[0].clone()),
            _ => Ok(answers.remove(0)),
        }
    }
}
