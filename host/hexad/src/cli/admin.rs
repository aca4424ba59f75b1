//! The client of a running host's admin listener.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use hexad_admin::AdminAccess;
use hexad_support::bearer_token::is_sendable;
use hexad_support::http_client::agent_with;
use hexad_telemetry::redaction;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Timeout;

use super::terminal::printable;
use super::values::parse_time;

/// The environment variable with the token of the admin listener. A host uses it instead of a random one. A command
/// with `--admin` needs it.
pub const TOKEN_VARIABLE: &str = "HEXAD_ADMIN_TOKEN";

/// How long the host may take to answer a question, and a request for a change.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The largest response, in bytes.
const MAX_RESPONSE: u64 = 16 << 20;

/// Where the admin listener of a host is.
#[derive(Args)]
pub struct HostArgs {
    /// The data folder of the running host. It has the address of the admin listener.
    #[arg(long, default_value = "data", value_name = "FOLDER")]
    data: PathBuf,

    /// The address of the admin listener, with its token in HEXAD_ADMIN_TOKEN.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,

    /// How long the host may take to answer, such as 30s [default: 10s; 10m for a change, because a
    /// component is compiled before it is served].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<Duration>,
}

/// The token in [`TOKEN_VARIABLE`]; `None` if it is unset or empty.
pub fn token_from_environment() -> Result<Option<String>> {
    let Some(token) = std::env::var_os(TOKEN_VARIABLE) else { return Ok(None) };
    // Text that is not UTF-8 cannot be sent either.
    checked_token(Some(token.to_string_lossy().into_owned()))
}

/// A token for the admin listener; `None` if it is unset or empty.
pub fn checked_token(token: Option<String>) -> Result<Option<String>> {
    let Some(token) = token.filter(|token| !token.is_empty()) else { return Ok(None) };
    Some(token).filter(|token| is_sendable(token)).map(Some).with_context(|| {
        format!(
            "the token in {TOKEN_VARIABLE} cannot be sent in a header: it has to be of ASCII characters, without a line \
             break, and without white space at its beginning or end"
        )
    })
}

/// A request to the admin listener.
pub enum AdminRequest<'a> {
    Get,
    /// Makes a code for the operator's pages.
    SignIn,
    /// Ends a trial, or rolls back.
    Deploy,
    Swap {
        component: &'a [u8],
        signature: Option<String>,
    },
}

impl AdminRequest<'_> {
    /// The warning if there is no answer: the host may have carried out the request.
    fn uncertainty(&self) -> &'static str {
        match self {
            AdminRequest::Get | AdminRequest::SignIn => "",
            AdminRequest::Deploy | AdminRequest::Swap { .. } => {
                "; the change may have been made, or may still be made: check `hexad status` before you repeat the \
                 command"
            }
        }
    }
}

impl HostArgs {
    fn access(&self) -> Result<AdminAccess> {
        match &self.admin {
            None => Ok(AdminAccess::find(&self.data)?),
            Some(url) => {
                let token = token_from_environment()?
                    .with_context(|| format!("--admin needs the listener's token in {TOKEN_VARIABLE}"))?;
                Ok(AdminAccess { url: url.trim_end_matches('/').to_owned(), token })
            }
        }
    }

    /// The data folder of the host. `None` if an address was given, because the folder may be another host's.
    pub fn data_folder(&self) -> Option<&Path> {
        self.admin.is_none().then_some(&self.data)
    }

    /// The address of the operator's pages, with a code that signs a browser in once.
    pub fn sign_in_address(&self) -> Result<String> {
        #[derive(Deserialize)]
        struct SignInCode {
            code: String,
        }
        let SignInCode { code } = self.send(&AdminRequest::SignIn, "/sign-in-codes")?;
        Ok(format!("{}/operator/sign-in?code={}", self.access()?.url, printable(&code)))
    }

    /// Sends a request to the host. A response with an error status is an error with the host's reason.
    pub fn send<A: DeserializeOwned>(&self, request: &AdminRequest<'_>, path: &str) -> Result<A> {
        let AdminAccess { url, token } = self.access()?;
        let timeout = self.timeout.unwrap_or(match request {
            AdminRequest::Get => READ_TIMEOUT,
            _ => CHANGE_TIMEOUT,
        });
        let agent = agent_with(timeout);
        let (target, bearer) = (format!("{url}{path}"), format!("Bearer {token}"));
        let sent = match request {
            AdminRequest::Get => {
                let get = || agent.get(&target).header("authorization", &bearer).call();
                get().or_else(|error| match error {
                    ureq::Error::Timeout(_) => Err(error),
                    // At its limit, the host may have closed the connection for another.
                    _ => get(),
                })
            }
            AdminRequest::SignIn | AdminRequest::Deploy => {
                agent.post(target).header("authorization", bearer).header("x-hexad-actor", actor()).send_empty()
            }
            AdminRequest::Swap { component, signature } => {
                let request = agent.put(target).header("authorization", bearer).header("x-hexad-actor", actor());
                let request = match signature {
                    Some(signature) => request.header("x-hexad-signature", signature),
                    None => request,
                };
                // With this header, the host can refuse the request before the component is sent.
                request.header("expect", "100-continue").content_type("application/wasm").send(*component)
            }
        };
        let url = redaction::url(&url);
        let failure = |error| transport_error(&url, path, request, timeout, error);
        let mut response = sent.map_err(failure)?;
        let text = response.body_mut().with_config().limit(MAX_RESPONSE).read_to_string().map_err(failure)?;
        let status = response.status();
        if status.is_success() {
            return serde_json::from_str(&text).map_err(|error| {
                anyhow!("the response of {url} is not that of a host: {error}{}", request.uncertainty())
            });
        }
        let response: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        match response.get("error").and_then(Value::as_str) {
            // The listener for clients gives only the status as the error of a path that it does not serve.
            Some(reason) if reason != status.to_string() => Err(anyhow!(printable(reason))),
            _ => {
                // The error may be that of a proxy whose wait timed out.
                let uncertainty = if status.is_server_error() { request.uncertainty() } else { "" };
                Err(anyhow!(
                    "{url} answers {path} with {status}, and gives no reason; is this a host's admin listener?{uncertainty}"
                ))
            }
        }
    }
}

/// Why there is no answer. `timeout` is how long the command waited.
fn transport_error(
    url: &str,
    path: &str,
    request: &AdminRequest<'_>,
    timeout: Duration,
    error: ureq::Error,
) -> anyhow::Error {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    use ureq::Error::{BodyExceedsLimit, Http, Io, Protocol, Timeout as TimedOut};

    let uncertainty = request.uncertainty();
    match error {
        TimedOut(Timeout::Connect | Timeout::Resolve) => {
            anyhow!("cannot reach the host at {url}: it takes no connection; is it running?")
        }
        TimedOut(_) => anyhow!(
            "the host at {url} did not answer within {} s; see its log, or raise --timeout\
             {uncertainty}",
            timeout.as_secs_f64()
        ),
        BodyExceedsLimit(limit) => {
            anyhow!("{url} answers {path} with more than {limit} bytes; is this a host's admin listener?{uncertainty}")
        }
        Protocol(error) => anyhow!("{url} does not answer as a host does: {error}{uncertainty}"),
        Http(error) => anyhow!("{url} does not answer as a host does: {error}{uncertainty}"),
        Io(error) if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof) => {
            anyhow!("the connection to the host at {url} broke off: {error}{uncertainty}")
        }
        error => anyhow!("cannot reach the host at {url}: {error}; is it running?"),
    }
}

/// The user who runs the command, for the host's audit log.
fn actor() -> String {
    let name = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let name = name.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    name.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use hexad_testing::wait::{SOON, accept, join};

    #[test]
    fn a_read_is_sent_again_after_a_lost_connection() {
        let (folder, listener) = (tempfile::tempdir().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let url = format!("http://{}", listener.local_addr().unwrap());
        let _file = AdminAccess { url, token: "t".to_owned() }.publish(folder.path()).unwrap();
        let host = std::thread::spawn(move || {
            drop(accept(&listener, "the request"));
            let mut stream = accept(&listener, "the same request again");
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\n7").unwrap();
        });
        let args = HostArgs { data: folder.path().to_owned(), admin: None, timeout: Some(SOON) };
        let sent = args.send::<u8>(&AdminRequest::Get, "/status");
        join(host, "the end of the host");
        assert_eq!(sent.unwrap(), 7);
    }

    /// The error about a server that reads a request and sends `answer`.
    fn error_of(request: &AdminRequest<'_>, answer: &'static [u8]) -> String {
        let (folder, listener) = (tempfile::tempdir().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let url = format!("http://{}", listener.local_addr().unwrap());
        let _file = AdminAccess { url, token: "t".to_owned() }.publish(folder.path()).unwrap();
        let host = std::thread::spawn(move || {
            let mut stream = accept(&listener, "the request");
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(answer).unwrap();
        });
        let args = HostArgs { data: folder.path().to_owned(), admin: None, timeout: Some(SOON) };
        let error = args.send::<u8>(request, "/components/a/rollback").unwrap_err().to_string();
        // The command may have failed before it was connected.
        assert!(!error.contains("cannot reach"), "{error}");
        join(host, "the end of the host");
        error
    }

    #[test]
    fn a_change_without_an_answer_may_have_been_made() {
        for answer in [
            &b""[..],
            b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
            b"nonsense\r\n\r\n",
            b"HTTP/1.1 504 Gateway Timeout\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>",
        ] {
            let error = error_of(&AdminRequest::Deploy, answer);
            assert!(error.contains("the change may have been made"), "{error}");
        }
    }

    #[test]
    fn an_answer_that_is_no_hosts_names_its_address_and_status() {
        for answer in [
            &b"HTTP/1.1 404 Not Found\r\ncontent-length: 25\r\n\r\n{\"error\":\"404 Not Found\"}"[..],
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 6\r\n\r\n<html>",
        ] {
            let error = error_of(&AdminRequest::Deploy, answer);
            assert!(error.starts_with("http://127.0.0.1:"), "{error}");
            let end = "answers /components/a/rollback with 404 Not Found, and gives no reason; is this a host's admin listener?";
            assert!(error.ends_with(end), "{error}");
        }
        let reason = b"HTTP/1.1 409 Conflict\r\ncontent-length: 15\r\n\r\n{\"error\":\"why\"}";
        assert_eq!(error_of(&AdminRequest::Deploy, reason), "why");
    }
}
