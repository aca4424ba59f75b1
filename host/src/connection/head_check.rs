//! Heads of HTTP/1 requests on their way to hyper: those that say twice where their body ends are refused.
//!
//! hyper drops a `Content-Length` beside a `Transfer-Encoding`, so that no handler sees that there was one, and
//! answers a length that it cannot count with 431. Here the line is spoilt, and hyper's answer is 400. Bodies with a
//! length are passed over. After a chunked body nothing is checked until the connection was idle: hyper takes the
//! chunks for the body in any case, and closes a connection on which both were sent.

use std::io::{self, BufRead as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The longest length of a body. Other implementations count with a sign.
const MAX_LENGTH: u64 = i64::MAX as u64;

/// Bytes of a line that are kept if it comes in parts: the names and values that are looked for are shorter.
const MAX_KEPT: usize = 128;

/// A stream of which the heads are checked.
pub struct HeadCheck<S> {
    stream: S,
    part: Part,
    head: Head,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
}

/// What comes next.
enum Part {
    Head,
    /// So many bytes of a body.
    Body(u64),
    Unknown,
}

/// What a head has said so far.
#[derive(Default)]
struct Head {
    has_request_line: bool,
    length: Option<u64>,
    is_encoded: bool,
}

enum Line {
    Allowed,
    Refused,
    /// The head is complete.
    Last,
}

impl<S> HeadCheck<S> {
    /// The stream is before a head.
    pub fn new(stream: S) -> Self {
        Self { stream, part: Part::Head, head: Head::default(), line: Vec::new() }
    }

    pub fn into_inner(self) -> S {
        self.stream
    }

    /// Looks at bytes that were read, and spoils a line that is refused. An error if nothing of it is left to spoil.
    fn check(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let passed = match &mut self.part {
                Part::Unknown => return Ok(()),
                Part::Body(left) => {
                    let passed = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= passed as u64;
                    if *left == 0 {
                        self.part = Part::Head;
                    }
                    passed
                }
                Part::Head => {
                    // Faster than a loop over the bytes.
                    let passed = (&*bytes).skip_until(b'\n')?;
                    let (line, _) = bytes.split_at_mut(passed);
                    match line.ends_with(b"\n") {
                        true => self.check_line(line)?,
                        false => self.keep(line),
                    }
                    passed
                }
            };
            bytes = bytes.get_mut(passed..).unwrap_or_default();
        }
        Ok(())
    }

    fn keep(&mut self, part: &[u8]) {
        let free = MAX_KEPT.saturating_sub(self.line.len());
        self.line.extend_from_slice(part.get(..free).unwrap_or(part));
    }

    /// `end` is the line, or what has come of it last.
    fn check_line(&mut self, end: &mut [u8]) -> io::Result<()> {
        let line = match self.line.is_empty() {
            true => self.head.add(end),
            false => {
                self.keep(end);
                let line = self.head.add(&self.line);
                self.line = Vec::new();
                line
            }
        };
        match line {
            Line::Allowed => Ok(()),
            Line::Last => {
                self.part = match std::mem::take(&mut self.head) {
                    Head { is_encoded: true, .. } => Part::Unknown,
                    Head { length: Some(length @ 1..), .. } => Part::Body(length),
                    _ => Part::Head,
                };
                Ok(())
            }
            Line::Refused => {
                self.part = Part::Unknown;
                // The end of the line stays, because hyper looks for the end of the head.
                let last = end.iter_mut().rev().find(|byte| !matches!(byte, b'\r' | b'\n'));
                let last =
                    last.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a head that is ambiguous"))?;
                *last = 0;
                Ok(())
            }
        }
    }
}

impl Head {
    fn add(&mut self, line: &[u8]) -> Line {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !self.has_request_line {
            // There may be empty lines before it.
            self.has_request_line = !line.is_empty();
            return Line::Allowed;
        }
        // Of most lines, this is all that is looked at.
        match line.first() {
            None => return Line::Last,
            Some(b'c' | b'C' | b't' | b'T') => {}
            Some(_) => return Line::Allowed,
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return Line::Allowed };
        let (name, value) = line.split_at(colon);
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_encoded = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            let length = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            // hyper refuses what is no number.
            self.length = Some(length.unwrap_or(0));
        }
        match self.length.is_some_and(|length| self.is_encoded || length > MAX_LENGTH) {
            true => Line::Refused,
            false => Line::Allowed,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadCheck<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Some(bytes) = buf.filled_mut().get_mut(before..).filter(|bytes| !bytes.is_empty()) {
            self.check(bytes)?;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadCheck<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "POST / HTTP/1.1\r\nhost: a\r\n";

    /// What hyper reads, if the bytes come in parts of this size.
    fn read(text: &str, size: usize) -> Result<String, io::ErrorKind> {
        let mut check = HeadCheck::new(());
        let mut bytes = text.as_bytes().to_vec();
        for part in bytes.chunks_mut(size) {
            check.check(part).map_err(|error| error.kind())?;
        }
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[track_caller]
    fn check(text: &str, is_allowed: bool) {
        for size in [1, 2, 3, 7, 16, text.len()] {
            let read = read(text, size);
            assert_eq!(read.as_deref() == Ok(text), is_allowed, "{size}: {read:?}");
        }
    }

    #[test]
    fn two_lengths_are_refused_wherever_they_are_cut() {
        let encoded = "Transfer-Encoding: chunked\r\n";
        check(&format!("{START}content-length: 5\r\n{encoded}\r\n"), false);
        check(&format!("{START}{encoded}X-A: b\r\nContent-Length:5\r\n\r\n"), false);
        check(&format!("{START}{encoded}content-length: x\n\n"), false);
        check(&format!("\r\n{START}{encoded}\r\n5\r\nContent-Length: 5\r\n"), true);
        check(&format!("{START}x-content-length: 5\r\n{encoded}\r\n"), true);
    }

    #[test]
    fn a_length_that_cannot_be_counted_is_refused() {
        for length in ["9223372036854775808", "18446744073709551614", "18446744073709551615"] {
            check(&format!("{START}content-length: {length}\r\n\r\n"), false);
        }
        check(&format!("{START}content-length: 9223372036854775807\r\n\r\n"), true);
    }

    #[test]
    fn the_heads_after_other_requests_are_checked_and_bodies_are_not() {
        let body = "content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n";
        let first = format!("{START}content-length: {}\r\n\r\n{body}GET / HTTP/1.1\r\nhost: a\r\n\r\n", body.len());
        check(&first, true);
        check(&format!("{first}{START}{body}"), false);
    }

    #[test]
    fn the_end_of_the_head_stays() {
        let read = read(&format!("{START}transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n"), 1000).unwrap();
        assert!(read.ends_with("content-length: \0\r\n\r\n"), "{read:?}");
    }
}
