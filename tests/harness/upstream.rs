//! An upstream server whose answers, also wrong ones, a test defines. It records its requests.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it was received.
#[derive(Debug, Clone)]
pub struct Request {
    /// Request line and headers.
    pub head: String,
    pub body: String,
}

impl Request {
    /// A header's value; empty if the header is missing.
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

/// A server on a free port, which runs until the test program ends.
pub struct Upstream {
    /// For example `http://127.0.0.1:40123`.
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Upstream {
    /// `answer` writes the answer to a request, or anything else. An error closes the connection.
    pub fn start(answer: impl Fn(&Request, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (answer, recorded) = (Arc::new(answer), requests.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, recorded) = (answer.clone(), recorded.clone());
                std::thread::spawn(move || {
                    let mut writer = stream.try_clone()?;
                    let mut reader = BufReader::new(stream);
                    while let Some(request) = read(&mut reader)? {
                        recorded.lock().expect("no panic").push(request.clone());
                        answer(&request, &mut writer)?;
                    }
                    io::Result::Ok(())
                });
            }
        });
        Upstream { url, requests }
    }

    /// Answers every request with `body` as JSON.
    pub fn with_json(body: impl Into<String>) -> Self {
        let body = body.into();
        Upstream::start(move |_, stream| json(stream, &body))
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }
}

/// Writes a good answer.
pub fn json(stream: &mut TcpStream, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(None);
        }
    }
    let mut request = Request { head, body: String::new() };
    let length: usize = request.header("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    request.body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(request))
}
