//! The client of a running server.

use std::io::ErrorKind;

use anyhow::{Error, Result, anyhow};
use clap::Args;
use hexad::cli::{agent, printable};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::{Response, StatusCode};
use ureq::{Body, SendBody};

/// The largest JSON answer that is read, in bytes.
const MAX_JSON: u64 = 1 << 20;

/// The largest text that is read, in bytes: a line for each branch and tag of a repository.
const MAX_TEXT: u64 = 64 << 20;

/// A server, and an administrator's token for it.
#[derive(Args)]
pub struct Server {
    /// The server's address.
    #[arg(long, env = "HEXAD_URL", default_value = "http://127.0.0.1:8080", value_name = "URL")]
    url: String,

    /// An administrator's token; safer in the environment, where other users do not see it.
    #[arg(long, env = "HEXAD_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
}

/// The server has no such path.
#[derive(Debug, thiserror::Error)]
#[error("{url} does not serve {path} (404 Not Found); is that area in its manifest?")]
pub struct NotServed {
    url: String,
    path: String,
}

impl Server {
    pub fn new(url: &str, token: &str) -> Self {
        Server { url: url.to_owned(), token: Some(token.to_owned()) }
    }

    /// The text at `path`, below `/api/v4/`.
    pub fn get(&self, path: &str) -> Result<String> {
        let sent = agent().get(self.address(path)).header("authorization", self.authorization()?).call();
        self.read(path, sent, MAX_TEXT)
    }

    /// Sends `body` to `path`, below `/api/v4/`, and reads the JSON answer. The error is a
    /// [`NotServed`] if the server has no such path.
    pub fn post<A: DeserializeOwned>(&self, path: &str, media_type: &str, body: SendBody) -> Result<A> {
        let sent = agent()
            .post(self.address(path))
            .header("authorization", self.authorization()?)
            .header("content-type", media_type)
            // A server that refuses says so before a gigabyte is on its way.
            .header("expect", "100-continue")
            .send(body);
        let text = self.read(path, sent, MAX_JSON)?;
        serde_json::from_str(&text).map_err(|error| {
            let url = &self.url;
            anyhow!("{url} answers {path} with something that is no answer to it ({error}); is this a hexad server?")
        })
    }

    /// The same with `value` as JSON.
    pub fn post_json<A: DeserializeOwned>(&self, path: &str, value: &impl Serialize) -> Result<A> {
        let body = serde_json::to_vec(value)?;
        self.post(path, "application/json", SendBody::from_reader(&mut body.as_slice()))
    }

    /// Puts `value` as JSON to `path`, below `/api/v4/`.
    pub fn put_json(&self, path: &str, value: &impl Serialize) -> Result<()> {
        let body = serde_json::to_vec(value)?;
        let request = agent().put(self.address(path)).header("authorization", self.authorization()?);
        let sent = request.header("content-type", "application/json").send(body.as_slice());
        self.read(path, sent, MAX_JSON).map(drop)
    }

    /// The address of `path`, below `/api/v4/`.
    pub fn address(&self, path: &str) -> String {
        format!("{}/api/v4/{path}", self.url.trim_end_matches('/'))
    }

    /// The value of the header with the token. The error says how to give one.
    pub fn authorization(&self) -> Result<String> {
        match self.token.as_deref() {
            None | Some("") => Err(anyhow!("no token; give an administrator's with --token or HEXAD_TOKEN")),
            Some(token) if token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(format!("Bearer {token}")),
            Some(_) => Err(anyhow!("the token has characters that no token has")),
        }
    }

    /// The text of an answer, or the error that its status is.
    fn read(&self, path: &str, sent: Result<Response<Body>, ureq::Error>, limit: u64) -> Result<String> {
        let mut response = sent.map_err(|error| self.transport_error(&error))?;
        let status = response.status();
        let text = response.body_mut().with_config().limit(limit).read_to_string();
        let text = text.map_err(|error| self.transport_error(&error))?;
        if status.is_success() { Ok(text) } else { Err(self.status_error(status, path, &text)) }
    }

    fn transport_error(&self, error: &ureq::Error) -> Error {
        use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};

        let url = &self.url;
        // Without the prefix that ureq writes before a cause of the system.
        let cause = match error {
            ureq::Error::Io(error) => error.to_string(),
            error => error.to_string(),
        };
        match error {
            ureq::Error::Io(error) if matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) => anyhow!(
                "the connection to {url} broke off: {cause}; what was sent before may have been applied, and the \
                 command can be repeated"
            ),
            _ => anyhow!(
                "cannot reach {url}: {cause}; start a server with `hexad up`, or give its address with --url or HEXAD_URL"
            ),
        }
    }

    fn status_error(&self, status: StatusCode, path: &str, text: &str) -> Error {
        let (url, message) = (&self.url, message(text));
        match status {
            StatusCode::UNAUTHORIZED => {
                anyhow!(
                    "{url} does not accept the token ({message}); give an administrator's with --token or HEXAD_TOKEN"
                )
            }
            StatusCode::FORBIDDEN => {
                anyhow!("{url} refuses ({message}); the token must be an administrator's and have the scope `api`")
            }
            // A path that is served has another message for a record that does not exist.
            StatusCode::NOT_FOUND if message.is_empty() || message == "404 Not Found" => {
                NotServed { url: url.clone(), path: path.to_owned() }.into()
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
    use super::*;

    fn server() -> Server {
        Server::new("http://h", "t")
    }

    #[test]
    fn refusals_say_what_to_do() {
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
    fn a_server_that_is_not_there_is_named() {
        // The port was free a moment ago.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let server = Server::new(&format!("http://{address}"), "t");
        let error = server.post::<Value>("x", "application/json", SendBody::none()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot reach http://{address}: ")), "{error}");
        assert!(error.contains("hexad up"), "{error}");
    }

    #[test]
    fn who_gives_no_token_learns_how() {
        for token in [None, Some(String::new())] {
            let error = Server { url: "http://h".into(), token }.authorization().unwrap_err().to_string();
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
