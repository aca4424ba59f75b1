//! Errors about single lines of an import.

use directory::{InvalidRecord, SaveError};
use kit::ndjson::{self, LineTooLong};
use kit::store::StoreError;
use serde_json::Value;
use std::fmt;

/// The reason why a line cannot be imported. The client gets the text.
#[derive(Debug)]
pub enum InvalidLine {
    TooLong(LineTooLong),
    NotAnObject,
    Json(serde_json::Error),
    /// Like [`InvalidLine::Json`], but without the text of the parser, which could quote a secret.
    SecretJson {
        column: usize,
    },
    UnknownKind {
        kind: String,
        known: &'static [&'static str],
    },
    /// Fields are missing or contradict each other.
    Fields(&'static str),
    Settings(kit::Error),
    UnknownNamespace(String),
    UnknownUser(String),
    Record(InvalidRecord),
    /// The stored record, or a record that it depends on, cannot be read.
    Unreadable(String),
}

impl fmt::Display for InvalidLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidLine::TooLong(why) => why.fmt(f),
            InvalidLine::NotAnObject => f.write_str("the line is not a JSON object"),
            InvalidLine::Json(why) => f.write_str(&ndjson::json_error(why)),
            InvalidLine::SecretJson { column } => {
                write!(f, "a field is missing or has a value of another type, before column {column}")
            }
            InvalidLine::UnknownKind { kind, known } => write!(f, "kind `{kind}` is not one of {}", known.join(", ")),
            InvalidLine::Fields(why) => f.write_str(why),
            InvalidLine::Settings(error) => {
                f.write_str(error.to_json().get("error").and_then(Value::as_str).unwrap_or("the settings are invalid"))
            }
            InvalidLine::UnknownNamespace(path) => {
                write!(f, "namespace `{path}` is not known; groups and users come before what is in them")
            }
            InvalidLine::UnknownUser(name) => write!(f, "user `{name}` is not known"),
            InvalidLine::Record(why) => write!(f, "{why}"),
            InvalidLine::Unreadable(key) => write!(f, "the stored record `{key}` is damaged; `hexad fsck` says more"),
        }
    }
}

impl From<LineTooLong> for InvalidLine {
    fn from(why: LineTooLong) -> Self {
        InvalidLine::TooLong(why)
    }
}

/// The reason why a line was not applied: it is invalid, or storage failed.
pub enum LineError {
    Invalid(InvalidLine),
    Store(StoreError),
}

impl From<InvalidLine> for LineError {
    fn from(invalid: InvalidLine) -> Self {
        LineError::Invalid(invalid)
    }
}

impl From<StoreError> for LineError {
    fn from(error: StoreError) -> Self {
        match error {
            // Other lines do not depend on this record.
            StoreError::Corrupt { key, .. } => LineError::Invalid(InvalidLine::Unreadable(key)),
            error => LineError::Store(error),
        }
    }
}

impl From<SaveError> for LineError {
    fn from(error: SaveError) -> Self {
        match error {
            SaveError::Invalid(why) => LineError::Invalid(InvalidLine::Record(why)),
            SaveError::Store(error) => error.into(),
        }
    }
}
