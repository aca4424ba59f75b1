//! git's own server: `git http-backend`, run for each request as web servers run it (RFC 3875), in a process of its
//! own. Bodies are streamed in both directions.

use crate::hello::Child;
use crate::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// The argument that turns this program into the server; the folder of its repositories follows.
pub const FLAG: &str = "--serve-git";

/// The size of a part of a body, in bytes.
const PART: usize = 64 << 10;

pub fn start(folder: &Path) -> Child {
    Child::start(&[FLAG, folder.to_str().expect("UTF-8")])
}

/// Serves until killed, each connection on a thread of its own.
pub fn serve(folder: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    for stream in listener.incoming() {
        let (stream, folder) = (stream.expect("a connection"), folder.to_owned());
        let _ = stream.set_nodelay(true);
        std::thread::spawn(move || {
            let mut reader = BufReader::with_capacity(PART, stream.try_clone().expect("a socket"));
            while answer(&mut reader, &stream, &folder).is_some() {}
        });
    }
}

/// The first line of a head in lower case, and its fields.
type Head = (String, Vec<(String, String)>);

fn read_head(reader: &mut impl BufRead) -> Option<Head> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut lines = lines.into_iter();
    let first = lines.next()?;
    let fields = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    Some((first, fields.collect()))
}

/// Answers one request of a connection. `None` at the connection's end.
fn answer(reader: &mut BufReader<TcpStream>, mut stream: &TcpStream, folder: &str) -> Option<()> {
    let (first, fields) = read_head(reader)?;
    let field = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let mut words = first.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut command = Command::new("git");
    command.arg("http-backend").stdin(Stdio::piped()).stdout(Stdio::piped());
    command.envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_HTTP_EXPORT_ALL", "1")]);
    command.envs([("GIT_PROJECT_ROOT", folder), ("REQUEST_METHOD", method), ("PATH_INFO", path)]);
    command.envs([("QUERY_STRING", query), ("REMOTE_USER", "git"), ("SERVER_PROTOCOL", "HTTP/1.1")]);
    for (name, variable) in [
        ("content-type", "CONTENT_TYPE"),
        ("content-length", "CONTENT_LENGTH"),
        ("content-encoding", "HTTP_CONTENT_ENCODING"),
        ("git-protocol", "GIT_PROTOCOL"),
    ] {
        field(name).map(|value| command.env(variable, value));
    }
    let mut git = command.spawn().expect("git runs");
    let mut input = git.stdin.take().expect("piped");
    let mut output = BufReader::with_capacity(PART, git.stdout.take().expect("piped"));
    let length = field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let is_chunked = field("transfer-encoding").is_some();
    let passed_on = std::thread::scope(|scope| {
        if field("expect").is_some() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
        }
        let body = scope.spawn(move || {
            // git may end before it has read all.
            let _ = if is_chunked { copy_chunks(reader, &mut input) } else { copy(reader, length, &mut input) };
        });
        let (status, fields) = {
            let mut fields = Vec::new();
            let mut line = String::new();
            while output.read_line(&mut line).ok()? > 0 && !line.trim_end().is_empty() {
                fields.push(std::mem::take(&mut line));
            }
            let status = fields.iter().find_map(|field| Some(field.strip_prefix("Status: ")?.trim_end().to_owned()));
            (status.unwrap_or("200 OK".into()), fields)
        };
        let mut head = format!("HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n");
        head.extend(fields.iter().filter(|field| !field.starts_with("Status: ")).map(String::as_str));
        stream.write_all((head + "\r\n").as_bytes()).ok()?;
        loop {
            let part = output.fill_buf().ok()?;
            if part.is_empty() {
                break;
            }
            let framed = [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
            let length = part.len();
            output.consume(length);
            stream.write_all(&framed).ok()?;
        }
        stream.write_all(b"0\r\n\r\n").ok()?;
        body.join().ok()
    });
    git.wait().ok().and(passed_on)
}

fn copy(from: &mut impl Read, length: u64, to: &mut impl Write) -> std::io::Result<()> {
    std::io::copy(&mut from.take(length), to).map(drop)
}

fn copy_chunks(from: &mut impl BufRead, to: &mut impl Write) -> std::io::Result<()> {
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
        copy(from, length, to)?;
        // Reads the end of the line after each chunk, or, after the last chunk, the end of the body.
        from.read_line(&mut String::new())?;
        if length == 0 {
            return Ok(());
        }
    }
}
