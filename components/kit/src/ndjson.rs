//! Imports: bodies of one record a line (NDJSON), of any length, and what is told about them.

use crate::body::{Body, BodyError};
use crate::error::Error;
use crate::request::Request;
use bytes::{Buf, Bytes};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Media types of a body of lines. Programs that send a file without a word about it say that it
/// is a form.
const MEDIA_TYPES: [&str; 7] = [
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/json",
    "application/octet-stream",
    "application/x-www-form-urlencoded",
    "text/plain",
];

/// How many bad lines an answer tells about.
const MAX_ERRORS: usize = 100;

/// How much of an error's text an answer has, in characters: it may quote what was sent.
const MAX_TEXT: usize = 300;

/// 415 unless a request's body may be one of lines.
pub fn check_media_type(request: &Request) -> Result<(), Error> {
    match request.media_type().filter(|media_type| !MEDIA_TYPES.contains(&media_type.as_str())) {
        Some(other) => Err(Error::unsupported_media_type(&other)),
        None => Ok(()),
    }
}

/// The lines of a body, as it streams in. Memory is bounded by the longest line.
pub struct LineReader {
    body: Body,
    /// In bytes.
    longest: usize,
    /// What has arrived and was not taken.
    chunk: Bytes,
    /// The beginning of a line, from chunks before.
    begun: Vec<u8>,
    too_long: bool,
    /// How many lines ended.
    count: u64,
    ended: bool,
}

/// A line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// From 1, blank lines counted.
    pub number: u64,
    /// Without its end.
    pub text: Result<Bytes, LineTooLong>,
}

/// A line has more than so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTooLong(pub usize);

impl fmt::Display for LineTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the line is longer than {} bytes", self.0)
    }
}

impl LineReader {
    pub fn new(body: Body, longest: usize) -> Self {
        let (chunk, begun) = (Bytes::new(), Vec::new());
        LineReader { body, longest, chunk, begun, too_long: false, count: 0, ended: false }
    }

    /// The next line that is not blank.
    pub async fn next(&mut self) -> Result<Option<Line>, BodyError> {
        while !self.ended {
            let text = match memchr::memchr(b'\n', &self.chunk) {
                Some(end) => {
                    let part = self.chunk.split_to(end);
                    self.chunk.advance(1);
                    self.end(part)
                }
                None => {
                    let rest = std::mem::take(&mut self.chunk);
                    self.extend(&rest);
                    match self.body.next().await.transpose()? {
                        Some(chunk) => {
                            self.chunk = chunk;
                            continue;
                        }
                        None => {
                            self.ended = true;
                            self.end(Bytes::new())
                        }
                    }
                }
            };
            if !text.as_ref().is_ok_and(|text| text.trim_ascii().is_empty()) {
                return Ok(Some(Line { number: self.count, text }));
            }
        }
        Ok(None)
    }

    fn extend(&mut self, part: &[u8]) {
        self.too_long |= self.begun.len() + part.len() > self.longest;
        if self.too_long {
            self.begun.clear();
        } else {
            self.begun.extend_from_slice(part);
        }
    }

    /// The line that ends with this part; it is not copied if it came in one chunk.
    fn end(&mut self, part: Bytes) -> Result<Bytes, LineTooLong> {
        self.count += 1;
        if self.begun.is_empty() && !self.too_long && part.len() <= self.longest {
            return Ok(part);
        }
        self.extend(&part);
        let line = Bytes::from(std::mem::take(&mut self.begun));
        if std::mem::take(&mut self.too_long) { Err(LineTooLong(self.longest)) } else { Ok(line) }
    }
}

/// What became of the lines.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// How many of each kind were applied.
    imported: BTreeMap<&'static str, u64>,
    failed: u64,
    /// The first bad lines.
    errors: Vec<BadLine>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct BadLine {
    line: u64,
    error: String,
}

impl ImportReport {
    pub fn imported(&mut self, kind: &'static str) {
        *self.imported.entry(kind).or_default() += 1;
    }

    pub fn failed(&mut self, line: u64, why: impl fmt::Display) {
        self.failed += 1;
        if self.errors.len() < MAX_ERRORS {
            let error = why.to_string().chars().take(MAX_TEXT).collect();
            self.errors.push(BadLine { line, error });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use serde_json::json;

    fn read(chunks: &[&[u8]], longest: usize) -> Vec<(u64, Option<String>)> {
        let chunks: Vec<_> = chunks.iter().map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        let mut lines = LineReader::new(Body::pull(chunks.into_iter()), longest);
        let mut found = Vec::new();
        while let Some(line) = block_on(lines.next()).unwrap() {
            found.push((line.number, line.text.ok().map(|text| String::from_utf8(text.to_vec()).unwrap())));
        }
        found
    }

    #[test]
    fn lines_are_the_same_however_the_body_is_cut() {
        let text = b"one\r\n\n two\nthree is long\n  \n4\nlast";
        let expected = read(&[&text[..]], 8);
        let line = |number, text: &str| (number, Some(text.to_owned()));
        assert_eq!(expected, [line(1, "one\r"), line(3, " two"), (4, None), line(6, "4"), line(7, "last")]);
        for first in 0..text.len() {
            for second in first..text.len() {
                let chunks = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(read(&chunks, 8), expected, "{chunks:?}");
            }
        }
        assert_eq!(read(&[], 8), []);
        assert_eq!(read(&[b"12345678\n123456789"], 8), [line(1, "12345678"), (2, None)]);
    }

    #[test]
    fn a_body_that_breaks_off_is_told_after_the_lines_before() {
        let chunks = vec![Ok(Bytes::from_static(b"a\nb")), Err(BodyError::Peer("gone".into()))];
        let mut lines = LineReader::new(Body::pull(chunks.into_iter()), 8);
        assert_eq!(block_on(lines.next()).unwrap().unwrap().number, 1);
        assert_eq!(block_on(lines.next()), Err(BodyError::Peer("gone".into())));
    }

    #[test]
    fn a_report_is_bounded() {
        let mut report = ImportReport::default();
        report.imported("user");
        (1..200).for_each(|line| report.failed(line, "é".repeat(400)));
        let shown = serde_json::to_value(&report).unwrap();
        assert_eq!((&shown["imported"], &shown["failed"]), (&json!({"user": 1}), &json!(199)));
        assert_eq!(shown["errors"].as_array().unwrap().len(), 100);
        assert_eq!(shown["errors"][99]["line"], 100);
        assert_eq!(shown["errors"][0]["error"].as_str().unwrap().chars().count(), 300);
    }
}
