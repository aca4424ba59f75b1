//! A server that answers as a test tells it to, good or bad, and remembers what it was asked.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Request line and headers.
    pub head: String,
    pub body: String,
}

impl Asked {
    /// A header's value; empty if it is not there.
    pub fn header(&self, name: &str) -> &str {
        let named = |line: &&str| line.split_once(':').is_some_and(|(given, _)| given.eq_ignore_ascii_case(name));
        self.head
            .lines()
            .skip(1)
            .find(named)
            .and_then(|line| line.split_once(':'))
            .map_or("", |(_, value)| value.trim())
    }
}

/// Runs until the tests end.
pub struct Upstream {
    /// For example `http://127.0.0.1:40123`.
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Upstream {
    /// `answer` writes the answer to a request, or anything else. The connection is kept unless it
    /// fails.
    pub fn start(answer: impl Fn(&Asked, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, seen) = (Arc::new(answer), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, seen) = (answer.clone(), seen.clone());
                std::thread::spawn(move || {
                    let mut writer = stream.try_clone()?;
                    let mut reader = BufReader::new(stream);
                    while let Some(request) = read(&mut reader)? {
                        seen.lock().expect("no panic").push(request.clone());
                        answer(&request, &mut writer)?;
                    }
                    io::Result::Ok(())
                });
            }
        });
        Upstream { url, asked }
    }

    /// Answers every request with `body` as JSON.
    pub fn with_json(body: impl Into<String>) -> Self {
        let body = body.into();
        Upstream::start(move |_, stream| json(stream, &body))
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }
}

/// Writes a whole answer.
pub fn json(stream: &mut TcpStream, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Asked>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(None);
        }
    }
    let mut asked = Asked { head, body: String::new() };
    let length: usize = asked.header("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    asked.body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(asked))
}
