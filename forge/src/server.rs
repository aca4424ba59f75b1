//! The client of a running server.

use std::io::{ErrorKind, Read};
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use clap::Args;
use hexad::cli::{agent, parse_server_url, parse_time, printable, shown_url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body, SendBody, Timeout};

/// The largest accepted JSON answer, in bytes.
const MAX_JSON: u64 = 1 << 20;

/// The largest accepted text, in bytes. It has a line for each branch and tag of a repository.
const MAX_TEXT: u64 = 64 << 20;

/// How much of the text of an error is read, in bytes.
const MAX_ERROR: u64 = 64 << 10;

/// How long the server may take to answer, or to read the next part of a request. The host itself ends a request after
/// a minute, with a more precise status. An importing area may work for minutes between two reads.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// How long git waits for the next byte of the server. The manifest allows an hour until the first byte of a clone.
const GIT_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// A server, and an administrator token for it.
#[derive(Args)]
pub struct Server {
    /// The server's URL. Without a scheme it is http for this machine, and https for another.
    #[arg(long, env = "HEXAD_URL", default_value = "http://127.0.0.1:8080", value_name = "URL", value_parser = parse_server_url)]
    url: String,

    /// An administrator's token; safer in the environment, where other users do not see it.
    #[arg(long, env = "HEXAD_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,

    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The time limit of each request.
#[derive(Args, Clone, Copy, Default)]
pub struct TimeoutArgs {
    /// How long the server may take to answer each request, and for each part of a long one, such as 30s
    /// [default: 5m].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<Duration>,
}

/// The server has no such path.
#[derive(Debug, thiserror::Error)]
#[error("{url} does not serve {path} (404 Not Found); is that area in its manifest?")]
pub struct NotServed {
    url: String,
    path: String,
}

/// The server did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error(
    "{url} did not {task} {path} within {} s; its log may say why, and --timeout gives it longer; what was sent may have \
     been applied",
    timeout.as_secs_f64()
)]
pub struct ServerTimeout {
    url: String,
    path: String,
    task: &'static str,
    timeout: Duration,
}

impl Server {
    pub fn new(url: &str, token: &str) -> Self {
        Server { url: url.to_owned(), token: Some(token.to_owned()), timeout: TimeoutArgs::default() }
    }

    pub fn with_timeout(self, timeout: TimeoutArgs) -> Self {
        Server { timeout, ..self }
    }

    /// How long git, which connects to the server itself, may wait for the next byte.
    pub fn git_timeout(&self) -> Duration {
        self.timeout.timeout.unwrap_or(GIT_TIMEOUT)
    }

    fn timeout(&self) -> Duration {
        self.timeout.timeout.unwrap_or(TIMEOUT)
    }

    fn agent(&self) -> Agent {
        agent(self.timeout())
    }

    /// The text at `path`, below `/api/v4/`.
    pub fn get(&self, path: &str) -> Result<String> {
        let sent = self.agent().get(self.address(path)).header("authorization", self.authorization()?).call();
        self.read(path, sent, MAX_TEXT)
    }

    /// Sends `body` to `path`, below `/api/v4/`, and reads the JSON answer. The error is a
    /// [`NotServed`] if the server has no such path.
    pub fn post<A: DeserializeOwned>(&self, path: &str, media_type: &str, body: SendBody) -> Result<A> {
        let sent = self
            .agent()
            .post(self.address(path))
            .header("authorization", self.authorization()?)
            .header("content-type", media_type)
            // The server can refuse before the client sends a gigabyte.
            .header("expect", "100-continue")
            .send(body);
        let text = self.read(path, sent, MAX_JSON)?;
        serde_json::from_str(&text).map_err(|error| {
            let url = self.shown_url();
            anyhow!("{url} answers {path} with something that is no answer to it ({error}); is this a hexad server?")
        })
    }

    /// The same, with `value` as the JSON body.
    pub fn post_json<A: DeserializeOwned>(&self, path: &str, value: &impl Serialize) -> Result<A> {
        let body = serde_json::to_vec(value)?;
        self.post(path, "application/json", SendBody::from_reader(&mut body.as_slice()))
    }

    /// Sends `value` as JSON with PUT to `path`, below `/api/v4/`.
    pub fn put_json(&self, path: &str, value: &impl Serialize) -> Result<()> {
        let body = serde_json::to_vec(value)?;
        let request = self.agent().put(self.address(path)).header("authorization", self.authorization()?);
        let sent = request.header("content-type", "application/json").send(body.as_slice());
        self.read(path, sent, MAX_JSON).map(drop)
    }

    /// Deletes the resource at `path`, below `/api/v4/`. A missing resource is no error.
    pub fn delete(&self, path: &str) -> Result<()> {
        match self.agent().delete(self.address(path)).header("authorization", self.authorization()?).call() {
            Ok(response) if response.status() == StatusCode::NOT_FOUND => Ok(()),
            sent => self.read(path, sent, MAX_JSON).map(drop),
        }
    }

    /// The address of `path`, below `/api/v4/`.
    pub fn address(&self, path: &str) -> String {
        format!("{}/api/v4/{path}", self.url.trim_end_matches('/'))
    }

    /// The address for messages. The address of a server behind a proxy may contain a password, which is omitted.
    fn shown_url(&self) -> String {
        shown_url(&self.url)
    }

    /// The value of the header with the token. The error says how to provide a token.
    pub fn authorization(&self) -> Result<String> {
        match self.token.as_deref() {
            None | Some("") => Err(anyhow!("no token; give an administrator's with --token or HEXAD_TOKEN")),
            Some(token) if token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(format!("Bearer {token}")),
            Some(_) => Err(anyhow!("the token has characters that no token has")),
        }
    }

    /// The text of an answer, or the error for its status.
    fn read(&self, path: &str, sent: Result<Response<Body>, ureq::Error>, limit: u64) -> Result<String> {
        let mut response = sent.map_err(|error| self.transport_error(path, &error))?;
        let status = response.status();
        if status.is_success() {
            let text = response.body_mut().with_config().limit(limit).read_to_string();
            return text.map_err(|error| self.transport_error(path, &error));
        }
        let mut text = Vec::new();
        match response.body_mut().as_reader().take(MAX_ERROR).read_to_end(&mut text) {
            Ok(_) => Err(self.status_error(status, path, &String::from_utf8_lossy(&text))),
            // Without its text, a 404 does not say whether the server has the path.
            Err(_) => Err(anyhow!("{} answers {path} with {status}, and its text has no end", self.shown_url())),
        }
    }

    fn transport_error(&self, path: &str, error: &ureq::Error) -> Error {
        use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};

        let url = self.shown_url();
        // Omits the prefix that ureq writes before a cause of the system.
        let cause = match error {
            ureq::Error::Io(error) => error.to_string(),
            error => error.to_string(),
        };
        match error {
            ureq::Error::Io(error) if matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) => anyhow!(
                "the connection to {url} broke off: {cause}; what was sent before may have been applied, and the \
                 command can be repeated"
            ),
            ureq::Error::Timeout(reason) if !matches!(reason, Timeout::Connect | Timeout::Resolve) => {
                let task = match reason {
                    Timeout::SendRequest | Timeout::PerWrite => "take the next part of the request to",
                    _ => "answer",
                };
                ServerTimeout { url, path: path.to_owned(), task, timeout: self.timeout() }.into()
            }
            ureq::Error::BodyExceedsLimit(limit) => {
                anyhow!("{url} answers {path} with more than {limit} bytes; is this a hexad server?")
            }
            _ => anyhow!(
                "cannot reach {url}: {cause}; start a server with `hexad up`, or give its address with --url or HEXAD_URL"
            ),
        }
    }

    fn status_error(&self, status: StatusCode, path: &str, text: &str) -> Error {
        let (url, message) = (self.shown_url(), message(text));
        match status {
            StatusCode::UNAUTHORIZED => {
                anyhow!(
                    "{url} does not accept the token ({message}); give an administrator's with --token or HEXAD_TOKEN"
                )
            }
            StatusCode::FORBIDDEN => {
                anyhow!("{url} refuses ({message}); the token must be an administrator's and have the scope `api`")
            }
            // A known path has another message for a missing record.
            StatusCode::NOT_FOUND if message.is_empty() || message == "404 Not Found" => {
                NotServed { url, path: path.to_owned() }.into()
            }
            status => anyhow!("{url} answers {path} with {status}: {message}"),
        }
    }
}

/// The `error_description`, `message` or `error` of an error answer.
fn message(text: &str) -> String {
    let answer: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    let field = |name: &str| answer.get(name).and_then(Value::as_str);
    let message = field("error_description").or_else(|| field("message")).or_else(|| field("error"));
    printable(message.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{self, TryRecvError};
    use std::thread;

    use super::*;
    use crate::wait::{SOON, pause, try_accept, wait_for};

    fn server() -> Server {
        Server::new("http://h", "t")
    }

    #[test]
    fn refusals_suggest_a_remedy() {
        for (status, text, expected) in [
            (
                401,
                r#"{"message":"401 Unauthorized"}"#,
                "http://h does not accept the token (401 Unauthorized); give an administrator's with --token or HEXAD_TOKEN",
            ),
            (
                403,
                r#"{"error":"insufficient_scope","error_description":"Too little."}"#,
                "http://h refuses (Too little.); the token must be an administrator's and have the scope `api`",
            ),
            (
                404,
                r#"{"error":"404 Not Found"}"#,
                "http://h does not serve import/x (404 Not Found); is that area in its manifest?",
            ),
            (404, "", "http://h does not serve import/x (404 Not Found); is that area in its manifest?"),
            (
                404,
                r#"{"message":"404 User Not Found"}"#,
                "http://h answers import/x with 404 Not Found: 404 User Not Found",
            ),
            (500, "oops", "http://h answers import/x with 500 Internal Server Error: "),
        ] {
            let error = server().status_error(StatusCode::from_u16(status).unwrap(), "import/x", text);
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn an_unreachable_server_is_named() {
        // The port was free a moment ago, so connections are probably refused.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let server = Server::new(&format!("http://{address}"), "t");
        let error = server.post::<Value>("x", "application/json", SendBody::none()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot reach http://{address}: ")), "{error}");
        assert!(error.contains("hexad up"), "{error}");
        let server = Server::new(&format!("http://mia:sesame@{address}"), "t");
        let error = server.post::<Value>("x", "application/json", SendBody::none()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot reach http://{address}: ")), "{error}");
        assert!(!error.contains("sesame"), "{error}");
    }

    /// The error of a request to a server that handles its only connection with `serve`.
    fn error_of(
        timeout: Duration,
        body: SendBody<'_>,
        serve: impl FnOnce(&mut TcpStream) -> io::Result<()> + Send,
    ) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Server::new(&url, "t").with_timeout(TimeoutArgs { timeout: Some(timeout) });
        let (is_over, over) = mpsc::channel::<()>();
        let error = thread::scope(move |scope| {
            scope.spawn(move || {
                // The client may have stopped before it was connected.
                let stream = wait_for(SOON, "a connection, or the client's end", || match over.try_recv() {
                    Err(TryRecvError::Disconnected) => Some(None),
                    _ => try_accept(&listener).map(Some),
                });
                let Some(mut stream) = stream else { return };
                let _ = serve(&mut stream);
                let _ = over.recv_timeout(SOON);
            });
            let _is_over = is_over;
            server.post::<Value>("x", "application/json", body).unwrap_err()
        });
        error.to_string().replace(&url, "http://h")
    }

    /// Sends `part` repeatedly until the client closes the connection.
    fn send_endlessly(stream: &mut TcpStream, head: &str, part: &[u8]) -> io::Result<()> {
        let _ = stream.read(&mut [0; 4096])?;
        stream.write_all(head.as_bytes())?;
        loop {
            stream.write_all(part)?;
            pause(Duration::from_millis(10));
        }
    }

    #[test]
    fn every_request_has_a_timeout() {
        const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        const ENDLESS: &str = "HTTP/1.1 502 Bad\r\ncontent-length: 10000000000\r\n\r\n";
        let late =
            "within 0.3 s; its log may say why, and --timeout gives it longer; what was sent may have been applied";
        let (short, long) = (Duration::from_millis(300), Duration::from_secs(600));

        let timed_out = format!("http://h did not answer x {late}");
        assert_eq!(error_of(short, SendBody::none(), |_| Ok(())), timed_out);
        let head = "HTTP/1.1 200 OK\r\nx: ";
        assert_eq!(error_of(short, SendBody::none(), |stream| send_endlessly(stream, head, b"x")), timed_out);
        let found = error_of(short, SendBody::none(), |stream| send_endlessly(stream, CHUNKED, b"1\r\n \r\n"));
        assert_eq!(found, timed_out);
        // More than the buffers between client and server hold.
        let mut body = io::repeat(0).take(64 << 20);
        let unread = error_of(short, SendBody::from_reader(&mut body), |_| Ok(()));
        assert_eq!(unread, format!("http://h did not take the next part of the request to x {late}"));

        let chunk = [&b"10000\r\n"[..], &[b' '; 0x10000], b"\r\n"].concat();
        let large = error_of(long, SendBody::none(), |stream| send_endlessly(stream, CHUNKED, &chunk));
        assert_eq!(large, "http://h answers x with more than 1048576 bytes; is this a hexad server?");
        let status = "http://h answers x with 502 Bad Gateway";
        let endless = error_of(long, SendBody::none(), |stream| send_endlessly(stream, ENDLESS, &chunk));
        assert_eq!(endless, format!("{status}: "));
        let slow = error_of(short, SendBody::none(), |stream| send_endlessly(stream, ENDLESS, b" "));
        assert_eq!(slow, format!("{status}, and its text has no end"));
    }

    #[test]
    fn without_a_token_the_error_names_the_option_and_variable() {
        for token in [None, Some(String::new())] {
            let server = Server { url: "http://h".into(), token, timeout: TimeoutArgs::default() };
            let error = server.authorization().unwrap_err().to_string();
            assert_eq!(error, "no token; give an administrator's with --token or HEXAD_TOKEN");
        }
    }

    #[test]
    fn a_token_that_cannot_be_one_is_not_sent_and_not_shown() {
        let server = Server::new("http://h", "a\nb");
        let error = server.post::<Value>("x", "application/json", SendBody::none()).unwrap_err();
        assert_eq!(error.to_string(), "the token has characters that no token has");
    }
}
