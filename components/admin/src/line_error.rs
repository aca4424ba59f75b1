//! Errors about single lines of an import.

use directory::{InvalidRecord, SaveError};
use kit::ndjson::{self, LineTooLong};
use kit::store::StoreError;
use serde_json::Value;
use thiserror::Error;

/// The reason why a line cannot be imported. The client gets the text.
#[derive(Debug, Error)]
pub enum InvalidLine {
    #[error(transparent)]
    TooLong(#[from] LineTooLong),
    #[error("the line is not a JSON object")]
    NotAnObject,
    #[error("{}", ndjson::json_error(.0))]
    Json(serde_json::Error),
    /// Like [`InvalidLine::Json`], but without the text of the parser, which could quote a secret.
    #[error("a field is missing or has a value of another type, before column {column}")]
    SecretJson { column: usize },
    #[error("kind `{kind}` is not one of {}", .known.join(", "))]
    UnknownKind { kind: String, known: &'static [&'static str] },
    /// Fields are missing or contradict each other.
    #[error("{0}")]
    Fields(&'static str),
    #[error("{}", .0.to_json().get("error").and_then(Value::as_str).unwrap_or("the settings are invalid"))]
    Settings(kit::Error),
    #[error("namespace `{0}` is not known; groups and users come before what is in them")]
    UnknownNamespace(String),
    #[error("user `{0}` is not known")]
    UnknownUser(String),
    #[error("{0}")]
    Record(InvalidRecord),
    /// The stored record, or a record that it depends on, cannot be read.
    #[error("the stored record `{0}` is damaged; `hexad fsck` says more")]
    Unreadable(String),
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
