//! The meaning of an engine's response. The engine's HTTP status is not reliable; only the body decides.

use crate::json_scan;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;

/// A response that cannot be used.
#[derive(Debug)]
pub enum ResponseError {
    /// The connection ended before the body did.
    BrokenOff,
    /// It has more than this many bytes.
    TooLarge(u64),
    Malformed(json_scan::JsonError),
    NotText,
    Json(serde_json::Error),
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponseError::BrokenOff => f.write_str("it broke off"),
            ResponseError::TooLarge(limit) => write!(f, "it is larger than {limit} bytes"),
            ResponseError::Malformed(error) => error.fmt(f),
            ResponseError::NotText => f.write_str("it is not UTF-8"),
            ResponseError::Json(why) => write!(f, "it is not JSON: {why}"),
        }
    }
}

impl From<json_scan::JsonError> for ResponseError {
    fn from(error: json_scan::JsonError) -> Self {
        ResponseError::Malformed(error)
    }
}

impl From<serde_json::Error> for ResponseError {
    fn from(why: serde_json::Error) -> Self {
        ResponseError::Json(why)
    }
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
