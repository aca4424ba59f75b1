//! NDJSON imports: reading request bodies of any length line by line, and reporting on each line.

use crate::body::{Body, BodyError};
use crate::error::Error;
use crate::request::Request;
use bytes::{Buf, Bytes};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// Accepted media types. curl sends files with the form type by default.
const MEDIA_TYPES: [&str; 7] = [
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/json",
    "application/octet-stream",
    "application/x-www-form-urlencoded",
    "text/plain",
];

/// The most failed lines, and the most warnings, in a report.
const MAX_ERRORS: usize = 100;

/// The most characters of an error's text in a report, because the text may quote the request.
const MAX_TEXT: usize = 300;

/// 415 if the media type of a request cannot be NDJSON.
pub fn check_media_type(request: &Request) -> Result<(), Error> {
    match request.media_type().filter(|media_type| !MEDIA_TYPES.contains(&media_type.as_str())) {
        Some(other) => Err(Error::unsupported_media_type(&other)),
        None => Ok(()),
    }
}

/// The text of a parser's error about one line, with the column. It omits the line number, which is always 1.
pub fn json_error(why: &serde_json::Error) -> String {
    let text = why.to_string();
    let position = format!(" at line {} column {}", why.line(), why.column());
    format!("{} (column {})", text.strip_suffix(&position).unwrap_or(&text), why.column())
}

/// Reads the lines of a body as it streams in. It buffers one line at most, so `max_length` bounds its memory.
pub struct LineReader {
    body: Body,
    /// The longest accepted line, in bytes.
    max_length: usize,
    /// The unread part of the current chunk.
    chunk: Bytes,
    /// The beginning of the current line, from earlier chunks.
    partial: Vec<u8>,
    is_too_long: bool,
    /// The number of complete lines so far.
    count: u64,
    is_finished: bool,
}

/// A line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1; blank lines count.
    pub number: u64,
    /// Without the line feed.
    pub text: Result<Bytes, LineTooLong>,
}

/// A line is longer than the limit, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the line is longer than {0} bytes")]
pub struct LineTooLong(pub usize);

impl LineReader {
    /// Reads `body`; `max_length` is in bytes.
    pub fn new(body: Body, max_length: usize) -> Self {
        let (chunk, partial) = (Bytes::new(), Vec::new());
        LineReader { body, max_length, chunk, partial, is_too_long: false, count: 0, is_finished: false }
    }

    /// The next line that is not blank; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Line>, BodyError> {
        while !self.is_finished {
            let text = match memchr::memchr(b'\n', &self.chunk) {
                Some(end) => {
                    let part = self.chunk.split_to(end);
                    self.chunk.advance(1);
                    self.complete(part)
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
                            self.is_finished = true;
                            self.complete(Bytes::new())
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
        self.is_too_long |= self.partial.len() + part.len() > self.max_length;
        if self.is_too_long {
            self.partial.clear();
        } else {
            self.partial.extend_from_slice(part);
        }
    }

    /// Ends the current line with `part`. A line within one chunk is not copied.
    fn complete(&mut self, part: Bytes) -> Result<Bytes, LineTooLong> {
        self.count += 1;
        if self.partial.is_empty() && !self.is_too_long && part.len() <= self.max_length {
            return Ok(part);
        }
        self.extend(&part);
        let line = Bytes::from(std::mem::take(&mut self.partial));
        if std::mem::take(&mut self.is_too_long) { Err(LineTooLong(self.max_length)) } else { Ok(line) }
    }
}

/// The result of an import.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// Imported records by kind.
    imported: BTreeMap<&'static str, u64>,
    failed: u64,
    /// The first failed lines.
    errors: Vec<LineError>,
    /// Warnings about the first imported lines that the operator should check.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<LineWarning>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct LineWarning {
    line: u64,
    warning: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct LineError {
    line: u64,
    error: String,
}

impl ImportReport {
    /// Counts an imported record.
    pub fn imported(&mut self, kind: &'static str) {
        *self.imported.entry(kind).or_default() += 1;
    }

    /// Records a warning about an imported line.
    pub fn warn(&mut self, line: u64, warning: String) {
        if self.warnings.len() < MAX_ERRORS {
            self.warnings.push(LineWarning { line, warning });
        }
    }

    /// Records a failed line.
    pub fn failed(&mut self, line: u64, why: impl fmt::Display) {
        self.failed += 1;
        if self.errors.len() < MAX_ERRORS {
            let error = why.to_string().chars().take(MAX_TEXT).collect();
            self.errors.push(LineError { line, error });
        }
    }

    /// The response to an import that `error` ended: the error, with this report unless the report is empty.
    pub fn ended_by(&self, error: Error) -> Error {
        match serde_json::to_value(self) {
            Ok(Value::Object(report)) if *self != ImportReport::default() => error.with_members(report),
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use serde_json::json;

    fn read(chunks: &[&[u8]], max_length: usize) -> Vec<(u64, Option<String>)> {
        let chunks: Vec<_> = chunks.iter().map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        let mut lines = LineReader::new(Body::pull(chunks.into_iter()), max_length);
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
    fn a_broken_body_is_reported_after_its_complete_lines() {
        let chunks = vec![Ok(Bytes::from_static(b"a\nb")), Err(BodyError::Peer("gone".into()))];
        let mut lines = LineReader::new(Body::pull(chunks.into_iter()), 8);
        assert_eq!(block_on(lines.next()).unwrap().unwrap().number, 1);
        assert_eq!(block_on(lines.next()), Err(BodyError::Peer("gone".into())));
    }

    #[test]
    fn an_error_of_the_parser_names_the_column_only() {
        let why = serde_json::from_str::<Vec<u8>>("[1,x]").unwrap_err();
        assert_eq!(json_error(&why), "expected value (column 4)");
        let why = serde_json::from_str::<Vec<u8>>("[300]").unwrap_err();
        assert_eq!(json_error(&why), "invalid value: integer `300`, expected u8 (column 4)");
    }

    #[test]
    fn an_error_after_applied_lines_reports_their_counts() {
        let mut report = ImportReport::default();
        assert_eq!(report.ended_by(Error::forbidden()), Error::forbidden());
        report.imported("user");
        let told = json!({"message": "403 Forbidden", "imported": {"user": 1}, "failed": 0, "errors": []});
        assert_eq!(report.ended_by(Error::forbidden()).to_json(), told);
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
