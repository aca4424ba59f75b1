//! Why a line of an import is not applied.

use crate::record::KINDS;
use directory::{InvalidRecord, SaveError};
use kit::ndjson::LineTooLong;
use kit::store::StoreError;
use serde_json::Value;
use std::fmt;

/// Why a line was not imported.
#[derive(Debug)]
pub enum BadLine {
    TooLong(LineTooLong),
    NotAnObject,
    Json(serde_json::Error),
    /// As [`BadLine::Json`], but what the parser says could quote a secret.
    SecretJson {
        column: usize,
    },
    Kind(String),
    /// Fields that contradict each other, or of which one is missing.
    Fields(&'static str),
    Settings(kit::Error),
    NoNamespace(String),
    NoUser(String),
    Rejected(InvalidRecord),
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadLine::TooLong(why) => why.fmt(f),
            BadLine::NotAnObject => f.write_str("the line is not a JSON object"),
            BadLine::Json(why) => {
                let text = why.to_string();
                // To the parser each line is line 1, which would only confuse.
                let place = format!(" at line {} column {}", why.line(), why.column());
                write!(f, "{} (column {})", text.strip_suffix(&place).unwrap_or(&text), why.column())
            }
            BadLine::SecretJson { column } => {
                write!(f, "a field is missing or has a value of another type, before column {column}")
            }
            BadLine::Kind(kind) => write!(f, "kind `{kind}` is not one of {}", KINDS.join(", ")),
            BadLine::Fields(why) => f.write_str(why),
            BadLine::Settings(error) => {
                f.write_str(error.to_json().get("error").and_then(Value::as_str).unwrap_or("the settings are invalid"))
            }
            BadLine::NoNamespace(path) => {
                write!(f, "namespace `{path}` is not known; groups and users come before what is in them")
            }
            BadLine::NoUser(name) => write!(f, "user `{name}` is not known"),
            BadLine::Rejected(why) => write!(f, "{why}"),
        }
    }
}

impl From<LineTooLong> for BadLine {
    fn from(why: LineTooLong) -> Self {
        BadLine::TooLong(why)
    }
}

/// A line could not be applied: it is bad, or storage failed.
pub enum Unapplied {
    Bad(BadLine),
    Store(StoreError),
}

impl From<BadLine> for Unapplied {
    fn from(bad: BadLine) -> Self {
        Unapplied::Bad(bad)
    }
}

impl From<StoreError> for Unapplied {
    fn from(fault: StoreError) -> Self {
        Unapplied::Store(fault)
    }
}

impl From<SaveError> for Unapplied {
    fn from(unsaved: SaveError) -> Self {
        match unsaved {
            SaveError::Invalid(why) => Unapplied::Bad(BadLine::Rejected(why)),
            SaveError::Store(fault) => Unapplied::Store(fault),
        }
    }
}
