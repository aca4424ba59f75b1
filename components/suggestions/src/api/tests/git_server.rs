//! A server for the program `git`: HTTP/1.1 over a socket of this machine, answered by the api.

use super::*;
use crate::wait::{OF_CONNECTIONS, try_accept, wait_for};
use http::{HeaderName, HeaderValue};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;

impl Forge {
    /// Runs git, with `URL` replaced by the address of a project's repository, which has the token as its password.
    /// Returns git's output on stderr; as an error if git failed.
    pub fn git(
        &self,
        repository: &Repository,
        project: u64,
        token: &str,
        arguments: &[&str],
    ) -> Result<String, String> {
        self.git_over(self.env(), repository, project, token, arguments)
    }

    pub fn git_over(
        &self,
        env: Env,
        repository: &Repository,
        project: u64,
        token: &str,
        arguments: &[&str],
    ) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let credentials = if token.is_empty() { String::new() } else { format!("git:{token}@") };
        let url = format!("http://{credentials}{address}/api/v4/projects/{project}/repository.git");
        let path = format!("http://{credentials}{address}");
        let arguments: Vec<String> =
            arguments.iter().map(|argument| argument.replace("URL", &url).replace("HOST", &path)).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = repository.command(&arguments);
        let client = std::thread::spawn(move || command.output().expect("these tests need the program `git`"));
        // The next connection; none once git has ended, even if it could not be run.
        let next = || match try_accept(&listener) {
            None if client.is_finished() => Some(None),
            stream => stream.map(Some),
        };
        while let Some(stream) = wait_for(OF_CONNECTIONS, "a request of git, or its end", next) {
            serve(env.clone(), stream);
        }
        let Output { status, stderr, .. } = client.join().unwrap();
        let text = String::from_utf8_lossy(&stderr).into_owned();
        if status.success() { Ok(text) } else { Err(text) }
    }
}

/// Answers one request, if there is one, and closes the connection.
fn serve(env: Env, stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap() == 0 {
        return;
    }
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap().to_owned());
    let mut request = Request::new(Method::from_bytes(method.as_bytes()).unwrap(), &target);
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        request.headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap());
    }
    let mut stream = stream;
    if request.header("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    }
    let mut body = Vec::new();
    if request.header("transfer-encoding").is_some() {
        loop {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let length = u64::from_str_radix(line.trim_end(), 16).unwrap();
            reader.by_ref().take(length).read_to_end(&mut body).unwrap();
            reader.read_line(&mut line).unwrap();
            if length == 0 {
                break;
            }
        }
    } else if let Some(length) = request.content_length() {
        reader.take(length).read_to_end(&mut body).unwrap();
    }
    // Parts of an odd size, as they come over a network.
    let parts: Vec<_> = body.chunks(7919).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
    request.body = Body::pull(parts.into_iter());
    let response = block_on(api::handle(env, request));
    if let Some(cause) = &response.cause {
        eprintln!("cause: {cause}");
    }
    let mut head = format!("HTTP/1.1 {} x\r\nconnection: close\r\n", response.status.as_u16());
    for (name, value) in &response.headers {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    let mut bytes = format!("{head}\r\n").into_bytes();
    let mut body = response.body;
    while let Some(chunk) = block_on(body.next()) {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    // The client may have gone.
    let _ = stream.write_all(&bytes);
}
