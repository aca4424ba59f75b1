//! A running server, seen from a command that asks something of it.

use std::io::ErrorKind;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;
use ureq::http::{Response, StatusCode};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, SendBody};

/// How long a connection may take. An answer may take longer: an import is as long as its file.
const CONNECT: Duration = Duration::from_secs(10);

/// The largest answer that is read, in bytes.
const MAX_ANSWER: u64 = 1 << 20;

/// The largest text that is read, in bytes: a line for each branch and tag of a repository.
const MAX_TEXT: u64 = 64 << 20;

/// Which server, and on whose authority.
#[derive(Args)]
pub struct Server {
    /// The server's address.
    #[arg(long, env = "HEXAD_URL", default_value = "http://127.0.0.1:8080", value_name = "URL")]
    url: String,

    /// An administrator's token; safer in the environment, where other users do not see it.
    #[arg(long, env = "HEXAD_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    token: String,
}

/// Why the server did not do what it was asked. Says what to do.
#[derive(Debug, Error)]
pub enum ServerError {
    #[error("cannot reach {url}: {why}; start a server with `hexad up`, or give its address with --url or HEXAD_URL")]
    Unreachable { url: String, why: String },
    #[error(
        "the connection to {url} broke off: {why}; what was sent before may have been applied, and the command can be repeated"
    )]
    BrokenOff { url: String, why: String },
    #[error("{url} does not accept the token ({message}); give an administrator's with --token or HEXAD_TOKEN")]
    Unauthorized { url: String, message: String },
    #[error("{url} refuses ({message}); the token must be an administrator's and have the scope `api`")]
    Forbidden { url: String, message: String },
    #[error("{url} does not serve {path} ({message}); is that area in its manifest?")]
    NotServed { url: String, path: String, message: String },
    #[error("{url} answers {path} with {status}: {message}")]
    Refused { url: String, path: String, status: StatusCode, message: String },
    #[error("{url} answers {path} with something that is no answer to it ({why}); is this a hexad server?")]
    NoAnswer { url: String, path: String, why: String },
    #[error("the token has characters that no token has")]
    Token,
}

impl Server {
    /// A server that the program itself knows of.
    pub fn at(url: &str, token: &str) -> Self {
        Server { url: url.to_owned(), token: token.to_owned() }
    }

    /// The text at `path`, below `/api/v4/`.
    pub fn get(&self, path: &str) -> Result<String, ServerError> {
        let sent = agent().get(self.address(path)).header("authorization", self.authorization()?).call();
        self.read(path, sent, MAX_TEXT)
    }

    /// Sends `body` to `path`, below `/api/v4/`, and reads the answer.
    pub fn post<A: DeserializeOwned>(&self, path: &str, media_type: &str, body: SendBody) -> Result<A, ServerError> {
        let sent = agent()
            .post(self.address(path))
            .header("authorization", self.authorization()?)
            .header("content-type", media_type)
            // A server that refuses says so before a gigabyte is on its way.
            .header("expect", "100-continue")
            .send(body);
        let text = self.read(path, sent, MAX_ANSWER)?;
        serde_json::from_str(&text).map_err(|why| ServerError::NoAnswer {
            url: self.url.clone(),
            path: path.to_owned(),
            why: why.to_string(),
        })
    }

    fn address(&self, path: &str) -> String {
        format!("{}/api/v4/{path}", self.url.trim_end_matches('/'))
    }

    fn authorization(&self) -> Result<String, ServerError> {
        let is_possible = self.token.bytes().all(|byte| byte.is_ascii_graphic());
        if is_possible { Ok(format!("Bearer {}", self.token)) } else { Err(ServerError::Token) }
    }

    /// The text of an answer that says that all went well.
    fn read(&self, path: &str, sent: Result<Response<Body>, ureq::Error>, limit: u64) -> Result<String, ServerError> {
        let mut response = sent.map_err(|error| self.failed(error))?;
        let status = response.status();
        let text = response.body_mut().with_config().limit(limit).read_to_string();
        let text = text.map_err(|error| self.failed(error))?;
        if status.is_success() { Ok(text) } else { Err(self.refused(status, path, &text)) }
    }

    fn failed(&self, error: ureq::Error) -> ServerError {
        let url = self.url.clone();
        match error {
            ureq::Error::Io(error)
                if matches!(
                    error.kind(),
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof
                ) =>
            {
                ServerError::BrokenOff { url, why: error.to_string() }
            }
            ureq::Error::Io(error) => ServerError::Unreachable { url, why: error.to_string() },
            error => ServerError::Unreachable { url, why: error.to_string() },
        }
    }

    fn refused(&self, status: StatusCode, path: &str, text: &str) -> ServerError {
        let (url, path, message) = (self.url.clone(), path.to_owned(), message(text));
        match status {
            StatusCode::UNAUTHORIZED => ServerError::Unauthorized { url, message },
            StatusCode::FORBIDDEN => ServerError::Forbidden { url, message },
            // A known path where something was not found has another message.
            StatusCode::NOT_FOUND if message.is_empty() || message == "404 Not Found" => {
                ServerError::NotServed { url, path, message: "404 Not Found".to_owned() }
            }
            status => ServerError::Refused { url, path, status, message },
        }
    }
}

/// The words of an error answer: those of its `error_description`, `message` or `error`.
fn message(text: &str) -> String {
    let answer: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    let field = |name: &str| answer.get(name).and_then(Value::as_str);
    let words = field("error_description").or_else(|| field("message")).or_else(|| field("error"));
    printable(words.unwrap_or_default())
}

/// `text` without what would steer a terminal: it quotes what strangers wrote.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn agent() -> Agent {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    Agent::config_builder()
        .tls_config(tls)
        .timeout_connect(Some(CONNECT))
        .http_status_as_error(false)
        // The token is for this server and no other.
        .max_redirects(0)
        .build()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server { url: "http://h".into(), token: "t".into() }
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
            let error = server().refused(StatusCode::from_u16(status).unwrap(), "import/x", text);
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        // Bound and closed again, so that nobody listens there.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let server = Server { url: format!("http://{address}"), token: "t".into() };
        let error = server.post::<Value>("x", "application/json", SendBody::none()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot reach http://{address}: ")), "{error}");
        assert!(error.contains("hexad up"), "{error}");
    }

    #[test]
    fn a_token_that_cannot_be_one_is_not_sent_and_not_shown() {
        let server = Server { url: "http://h".into(), token: "a\nb".into() };
        let error = server.post::<Value>("x", "application/json", SendBody::none()).unwrap_err();
        assert_eq!(error.to_string(), "the token has characters that no token has");
    }
}
