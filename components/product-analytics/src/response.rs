//! The meaning of an engine's response. The engine's HTTP status is not reliable; only the body decides.
//!
//! An incremental scanner for a JSON object of any length. It finds the closing bracket and two top-level members, and
//! bounds the nesting. It does not buffer the text.

use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

/// A response that cannot be used.
#[derive(Debug, Error)]
pub enum ResponseError {
    /// The connection ended before the body did.
    #[error("it broke off")]
    BrokenOff,
    /// It has more than this many bytes.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    #[error(transparent)]
    Malformed(#[from] JsonError),
    #[error("it is not UTF-8")]
    NotText,
    #[error("it is not JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The outcome of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Success,
    /// The query takes longer than one request; the client repeats it.
    Waiting,
    /// The project has no data yet.
    NoDatabase,
    /// The engine's error message.
    Refused(String),
}

#[derive(Deserialize)]
struct Top<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The outcome of a query, from a complete response. The response is a JSON object (see [`json_scan`]).
pub fn outcome(whole: &str) -> Result<Outcome, ResponseError> {
    let top: Top = serde_json::from_str(whole)?;
    Ok(match top.error.map(RawValue::get) {
        None | Some("\"\"" | "false" | "[]" | "{}") => Outcome::Success,
        Some(error) => match serde_json::from_str::<String>(error) {
            Ok(text) => classify(&text),
            Err(_) => Outcome::Refused("the analytics engine refused the query".to_owned()),
        },
    })
}

fn classify(error: &str) -> Outcome {
    // ClickHouse's codes for a database or a table that does not exist.
    let missing = ["Error: Code: 81.", "Error: Code: 60."].iter().any(|code| {
        let detail = error.split_once(code).map(|(_, detail)| detail);
        detail.is_some_and(|detail| detail.contains("UNKNOWN_DATABASE") || detail.contains("UNKNOWN_TABLE"))
    });
    match error {
        "Continue wait" => Outcome::Waiting,
        _ if missing => Outcome::NoDatabase,
        _ => Outcome::Refused(without_stack(error)),
    }
}

/// The lines before a stack trace, which would show the engine's file names to the client.
fn without_stack(error: &str) -> String {
    let is_frame = |line: &&str| line.trim_start().starts_with("at ") && line.starts_with([' ', '\t']);
    error.lines().take_while(|line| !is_frame(line)).collect::<Vec<_>>().join("\n")
}

/// The deepest nesting of a response, as in the reference service.
pub const MAX_DEPTH: u32 = 32;

/// The length of the longest name of interest, `results`.
const NAME: usize = 7;

/// Why a text is not an acceptable JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum JsonError {
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("it is nested deeper than {} levels", MAX_DEPTH)]
    TooDeep,
    /// A closing bracket does not match.
    #[error("its brackets do not match")]
    Unbalanced,
    /// Text follows the object.
    #[error("something follows its end")]
    Trailing,
    /// A top-level name has escapes, so it could be any name.
    #[error("a name in it is written with escapes")]
    EscapedName,
}

/// The state of a scan after some bytes.
#[derive(Debug, Clone, Default)]
pub struct Scanner {
    depth: u32,
    /// One bit per open bracket, the innermost in the lowest bit: 1 for an object, 0 for an array.
    kinds: u64,
    text: Text,
    /// Whether the next top-level string is a name.
    expects_name: bool,
    /// The beginning of the current name, and its whole length.
    name: ([u8; NAME], usize),
    closed: bool,
    /// Whether the object has any members, `error`, and `results`.
    pub has_members: bool,
    pub has_error: bool,
    pub has_results: bool,
}

/// The position relative to strings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Value,
    /// In a top-level name.
    Name,
    /// After a backslash in a value.
    Escape,
}

impl Scanner {
    /// Whether the object has ended.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Scans the next bytes. Returns the offset of the bracket that closes the object, if it is among them.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<usize>, JsonError> {
        let (mut end, mut at) = (None, 0);
        // Most bytes do not change the state; vectorized searches skip them.
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let skipped = match self.text {
                Text::Value => memchr::memchr2(b'"', b'\\', rest),
                Text::Outside if self.depth > 1 => {
                    rest.iter().position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']'))
                }
                _ => Some(0),
            };
            let Some((skipped, byte)) = skipped.and_then(|skipped| Some((skipped, *rest.get(skipped)?))) else { break };
            at += skipped;
            match self.text {
                Text::Value if byte == b'"' => self.text = Text::Outside,
                Text::Value => self.text = Text::Escape,
                Text::Escape => self.text = Text::Value,
                Text::Name => self.read_name(byte)?,
                Text::Outside => self.read_outside(byte)?,
            }
            if self.closed && end.is_none() && byte == b'}' {
                end = Some(at);
            }
            at += 1;
        }
        Ok(end)
    }

    /// Handles a byte outside strings.
    fn read_outside(&mut self, byte: u8) -> Result<(), JsonError> {
        match byte {
            b'"' if self.depth == 1 && self.expects_name => {
                (self.text, self.expects_name, self.name.1) = (Text::Name, false, 0);
            }
            b'"' if self.depth > 0 => self.text = Text::Value,
            b',' if self.depth == 1 => self.expects_name = true,
            b'{' | b'[' => self.open(byte)?,
            b'}' | b']' => self.close(byte)?,
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ if self.depth > 0 => {}
            _ if self.closed => return Err(JsonError::Trailing),
            _ => return Err(JsonError::NotAnObject),
        }
        Ok(())
    }

    fn open(&mut self, byte: u8) -> Result<(), JsonError> {
        let is_object = byte == b'{';
        if self.depth == 0 {
            if self.closed {
                return Err(JsonError::Trailing);
            }
            if !is_object {
                return Err(JsonError::NotAnObject);
            }
            self.expects_name = true;
        }
        if self.depth == MAX_DEPTH {
            return Err(JsonError::TooDeep);
        }
        self.depth += 1;
        self.kinds = self.kinds << 1 | u64::from(is_object);
        Ok(())
    }

    fn close(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.depth == 0 || (self.kinds & 1 == 1) != (byte == b'}') {
            return Err(if self.closed { JsonError::Trailing } else { JsonError::Unbalanced });
        }
        self.depth -= 1;
        self.kinds >>= 1;
        self.closed = self.depth == 0;
        Ok(())
    }

    fn read_name(&mut self, byte: u8) -> Result<(), JsonError> {
        let (name, length) = &mut self.name;
        match byte {
            b'\\' => return Err(JsonError::EscapedName),
            b'"' => {
                let name = name.get(..*length).unwrap_or_default();
                self.has_error |= name == b"error";
                self.has_results |= name == b"results";
                self.has_members = true;
                self.text = Text::Outside;
            }
            byte => {
                if let Some(place) = name.get_mut(*length) {
                    *place = byte;
                }
                *length += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Outcome {
        outcome(body).unwrap()
    }

    fn refused(text: &str) -> Outcome {
        Outcome::Refused(text.to_owned())
    }

    #[test]
    fn an_empty_error_is_no_error() {
        for body in ["{}", r#"{"results":[]}"#, r#"{"error":null}"#, r#"{"error":""}"#, r#"{"a":{"error":"x"}}"#] {
            assert_eq!(read(body), Outcome::Success, "{body}");
        }
        assert_eq!(read(r#"{"error":"Continue wait"}"#), Outcome::Waiting);
        assert_eq!(read(r#"{"type":"UserError","error":"Continue waiting"}"#), refused("Continue waiting"));
        for body in [r#"{"error":{"stack":"at /srv/x.js"}}"#, r#"{"error":true}"#, r#"{"error":["/srv"]}"#] {
            assert_eq!(read(body), refused("the analytics engine refused the query"), "{body}");
        }
    }

    #[test]
    fn an_absent_database_is_recognised_by_code_and_name() {
        let error = |text: &str| read(&format!(r#"{{"error":"{text}"}}"#));
        for text in [
            "Error: Code: 81. DB::Exception: Database gitlab_project_999 doesn't exist. (UNKNOWN_DATABASE)",
            "Error: Code: 60. DB::Exception: Table x doesn't exist. (UNKNOWN_TABLE) (version 22)",
        ] {
            assert_eq!(error(text), Outcome::NoDatabase, "{text}");
        }
        for text in [
            "Error: Code: 62. DB::Exception: (UNKNOWN_TABLE)",
            "Error: Code: 81. DB::Exception: (SYNTAX)",
            "(UNKNOWN_DATABASE) Error: Code: 81.",
        ] {
            assert_eq!(error(text), refused(text), "{text}");
        }
    }

    #[test]
    fn stack_traces_are_removed() {
        let body = r#"{"error":"Error: no\nreally\n    at f (/srv/a.js:1:2)\n    at g","stack":"at /srv"}"#;
        assert_eq!(read(body), refused("Error: no\nreally"));
    }

    #[test]
    fn a_body_that_is_no_json_is_an_error() {
        for (body, text) in [
            ("", "it is not JSON: EOF while parsing a value at line 1 column 0"),
            ("{\"a\":}", "it is not JSON: expected value at line 1 column 6"),
            ("{\"a\":1", "it is not JSON: EOF while parsing an object at line 1 column 6"),
        ] {
            assert_eq!(outcome(body).unwrap_err().to_string(), text, "{body}");
        }
    }
}

#[cfg(test)]
mod json_scan_tests {
    use super::*;

    /// Scans a text in parts of `size` bytes; the offset counts from the start.
    fn read(text: &str, size: usize) -> Result<(Scanner, Option<usize>), JsonError> {
        let (mut scanner, mut end) = (Scanner::default(), None);
        for (part, bytes) in text.as_bytes().chunks(size).enumerate() {
            if let Some(at) = scanner.push(bytes)? {
                end = Some(part * size + at);
            }
        }
        Ok((scanner, end))
    }

    #[test]
    fn finds_members_and_the_end_however_the_text_is_cut() {
        let text = r#" {"query":{"error":"}"},"a\"":1} "#.replace(r#"a\""#, "long name");
        for size in 1..text.len() + 1 {
            let (scanner, end) = read(&text, size).unwrap();
            assert_eq!((scanner.has_error, scanner.has_results, scanner.has_members), (false, false, true), "{size}");
            assert_eq!(end, text.rfind('}'), "{size}");
        }
        let text = r#"{"x":"\\\"","error" : "y","results":[["error"]]}"#;
        for size in 1..text.len() + 1 {
            let (scanner, end) = read(text, size).unwrap();
            assert!(scanner.has_error && scanner.has_results && scanner.is_closed(), "{size}");
            assert_eq!(end, Some(text.len() - 1), "{size}");
        }
    }

    #[test]
    fn strings_end_at_a_quote_wherever_it_is() {
        for length in 0..40 {
            let plain = format!("{}\u{80}\u{1}!#[]", "x".repeat(length));
            for string in [format!("{plain}\\\""), format!("{plain}\\\\"), plain.clone()] {
                let text = format!("{{\"a\":\"{string}\",\"error\":\"{string}\"}}");
                let (scanner, end) = read(&text, 1000).unwrap();
                assert!(scanner.has_error && end == Some(text.len() - 1), "{text}");
            }
        }
    }

    #[test]
    fn only_top_level_names_count() {
        for text in [
            r#"{"a":"error","b":["results","error"],"c":{"error":1}}"#,
            r#"{"errors":1,"resultsx":2,"erro":3,"result":4}"#,
            r#"{"a":["x",{"error":1},"error"]}"#,
        ] {
            let (scanner, _) = read(text, 1000).unwrap();
            assert!(!scanner.has_error && !scanner.has_results, "{text}");
        }
        let (empty, end) = read("{ }", 1).unwrap();
        assert!(!empty.has_members && end == Some(2));
    }

    #[test]
    fn depth_has_a_bound() {
        let nested = |depth: usize| format!("{{\"x\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(read(&nested(32), 7).unwrap().0.is_closed());
        assert_eq!(read(&nested(33), 7).unwrap_err(), JsonError::TooDeep);
        assert_eq!(read(&format!("{{\"x\":{}", "[".repeat(1_000_000)), 4096).unwrap_err(), JsonError::TooDeep);
    }

    #[test]
    fn a_text_that_is_no_object_is_an_error() {
        for (text, error) in [
            ("[]", JsonError::NotAnObject),
            ("null", JsonError::NotAnObject),
            ("\"x\"", JsonError::NotAnObject),
            ("<html>", JsonError::NotAnObject),
            ("\u{1f}\u{8b}", JsonError::NotAnObject),
            ("}", JsonError::Unbalanced),
            ("{\"x\":[}", JsonError::Unbalanced),
            ("{\"x\":{]", JsonError::Unbalanced),
            ("{} x", JsonError::Trailing),
            ("{}{}", JsonError::Trailing),
            ("{}}", JsonError::Trailing),
            ("{}\"", JsonError::Trailing),
            (r#"{"\u0065rror":1}"#, JsonError::EscapedName),
        ] {
            assert_eq!(read(text, 3).unwrap_err(), error, "{text}");
        }
        assert!(!read("{\"x\":1", 3).unwrap().0.is_closed());
        assert!(!read("", 3).unwrap().0.is_closed());
    }
}
