//! What an error of PostgreSQL means for an operation.

use std::sync::Arc;

use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use super::open_error::describe;
use crate::store::{StoreError, StoreProblem};

/// The error of a write. If the connection broke, the write may have taken place.
pub fn of_write(error: &Error) -> StoreError {
    let reason: Arc<str> = Arc::from(describe(error));
    let unknown = |reason| StoreError::Unknown { problem: StoreProblem::Unavailable, reason };
    let Some(refusal) = error.as_db_error() else { return unknown(reason) };
    let unavailable = |problem| StoreError::Unavailable { problem, reason: reason.clone() };
    match *refusal.code() {
        SqlState::DISK_FULL | SqlState::OUT_OF_MEMORY => unavailable(StoreProblem::Full),
        SqlState::T_R_DEADLOCK_DETECTED | SqlState::T_R_SERIALIZATION_FAILURE | SqlState::LOCK_NOT_AVAILABLE => {
            unavailable(StoreProblem::Busy)
        }
        // Only a counter is computed. The caller knows which one.
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE => StoreError::CounterOverflow { key: Arc::from(""), value: 0, delta: 0 },
        SqlState::READ_ONLY_SQL_TRANSACTION => unavailable(StoreProblem::Unavailable),
        // The server ended the connection, possibly while a commit waited for a standby.
        _ if ends_connection(error) => unknown(reason),
        _ => StoreError::Engine(reason),
    }
}

/// The error of a read, which changes nothing.
pub fn of_read(error: &Error) -> StoreError {
    match of_write(error) {
        StoreError::Unknown { problem, reason } => StoreError::Unavailable { problem, reason },
        other => other,
    }
}

/// Whether the connection is of no use any more, or its server of no use for writes.
pub fn ends_connection(error: &Error) -> bool {
    let Some(refusal) = error.as_db_error() else { return true };
    let code = refusal.code();
    matches!(refusal.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
        || code.code().starts_with("57P")
        || code.code().starts_with("08")
}
