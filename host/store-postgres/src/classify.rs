//! Maps errors of PostgreSQL to store errors.

use std::sync::Arc;

use hexad_store::{StoreError, StoreProblem};
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use super::open_error::{PostgresOpenError, describe, is_of_tables};

/// The error of a write. If the connection broke, the write may have taken place.
pub fn of_write(error: &Error) -> StoreError {
    let reason: Arc<str> = Arc::from(describe(error));
    match error.as_db_error() {
        Some(refusal) => of_refusal(refusal.parsed_severity(), refusal.code(), reason),
        None => StoreError::Unknown { problem: StoreProblem::Unavailable, reason },
    }
}

fn of_refusal(severity: Option<Severity>, code: &SqlState, reason: Arc<str>) -> StoreError {
    // The server ended the connection: a commit waited for a standby, or could not be written to the log. The log may
    // have the commit nevertheless.
    if is_end(severity, code) {
        return StoreError::Unknown { problem: StoreProblem::Unavailable, reason };
    }
    let unavailable = |problem| StoreError::Unavailable { problem, reason: reason.clone() };
    match *code {
        SqlState::DISK_FULL | SqlState::OUT_OF_MEMORY => unavailable(StoreProblem::Full),
        // An operator cancels a statement, or a time limit of the role or the database does.
        SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::LOCK_NOT_AVAILABLE
        | SqlState::QUERY_CANCELED
        | SqlState::TOO_MANY_CONNECTIONS => unavailable(StoreProblem::Busy),
        SqlState::IO_ERROR => unavailable(StoreProblem::Unavailable),
        // A damaged page, a damaged part of an index, or a missing file of a table.
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED | SqlState::UNDEFINED_FILE => {
            unavailable(StoreProblem::Damaged)
        }
        // Only counters are computed. The caller knows the key.
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE => StoreError::CounterOverflow { key: Arc::from(""), value: 0, delta: 0 },
        SqlState::READ_ONLY_SQL_TRANSACTION => unavailable(StoreProblem::Unavailable),
        _ if is_of_tables(code) => unavailable(StoreProblem::Unusable),
        _ => StoreError::Engine(reason),
    }
}

/// The error of a row without the columns that its statement asks for.
pub fn of_row(error: &Error) -> StoreError {
    StoreError::Unavailable { problem: StoreProblem::Unusable, reason: Arc::from(describe(error)) }
}

/// The error of an operation that the host could not send to a server in time.
pub fn away() -> StoreError {
    StoreError::Unavailable { problem: StoreProblem::Unavailable, reason: Arc::from("PostgreSQL does not respond") }
}

/// The error of an operation while the store refuses this host.
pub fn of_refused_host(error: &PostgresOpenError) -> StoreError {
    StoreError::Unavailable { problem: StoreProblem::Unusable, reason: Arc::from(error.to_string()) }
}

/// The error of a table without its single row, which no host removes.
pub fn no_row(table: &str) -> StoreError {
    let reason = format!("its table hexad.{table} has no row, or none that this build can read; restore the database");
    StoreError::Unavailable { problem: StoreProblem::Unusable, reason: Arc::from(reason) }
}

/// The error of values that the server left out without an error.
pub fn left_out() -> StoreError {
    let reason = "not every value was written; look for a trigger, a rule or a policy on the table hexad.kv";
    StoreError::Unavailable { problem: StoreProblem::Unusable, reason: Arc::from(reason) }
}

/// The error of a read, which changes nothing.
pub fn of_read(error: &Error) -> StoreError {
    match of_write(error) {
        StoreError::Unknown { problem, reason } => StoreError::Unavailable { problem, reason },
        other => other,
    }
}

/// Whether the connection is unusable, or its server is unusable for writes.
pub fn ends_connection(error: &Error) -> bool {
    let Some(refusal) = error.as_db_error() else { return true };
    let code = refusal.code();
    is_end(refusal.parsed_severity(), code) || *code == SqlState::READ_ONLY_SQL_TRANSACTION
}

fn is_end(severity: Option<Severity>, code: &SqlState) -> bool {
    let is_end_of_process = matches!(severity, Some(Severity::Fatal | Severity::Panic));
    is_end_of_process || code.code().starts_with("57P") || code.code().starts_with("08")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_was_refused_has_not_taken_place_and_one_whose_process_ended_may_have() {
        let of = |severity, code: &SqlState| of_refusal(Some(severity), code, Arc::from("no space left"));
        let is_full = |error| matches!(error, StoreError::Unavailable { problem: StoreProblem::Full, .. });
        assert!(is_full(of(Severity::Error, &SqlState::DISK_FULL)));
        for severity in [Severity::Fatal, Severity::Panic] {
            let error = of(severity, &SqlState::DISK_FULL);
            assert!(matches!(error, StoreError::Unknown { .. }), "{error}");
        }
        let shut_down = of(Severity::Error, &SqlState::ADMIN_SHUTDOWN);
        assert!(matches!(shut_down, StoreError::Unknown { .. }), "{shut_down}");
        let standby = of(Severity::Error, &SqlState::READ_ONLY_SQL_TRANSACTION);
        assert!(matches!(standby, StoreError::Unavailable { .. }), "{standby}");
    }

    #[test]
    fn table_errors_have_a_problem_and_request_errors_have_none() {
        for (code, problem) in [
            ("XX001", Some(StoreProblem::Damaged)),
            ("XX002", Some(StoreProblem::Damaged)),
            ("58P01", Some(StoreProblem::Damaged)),
            ("42P01", Some(StoreProblem::Unusable)),
            ("42501", Some(StoreProblem::Unusable)),
            ("42703", Some(StoreProblem::Unusable)),
            ("3F000", Some(StoreProblem::Unusable)),
            ("21000", Some(StoreProblem::Unusable)),
            // A value too large for the server's memory, invalid text, a trigger, a constraint.
            ("XX000", None),
            ("54000", None),
            ("22021", None),
            ("P0001", None),
            ("23514", None),
        ] {
            match of_refusal(Some(Severity::Error), &SqlState::from_code(code), Arc::from("")) {
                StoreError::Unavailable { problem: found, .. } => assert_eq!(Some(found), problem, "{code}"),
                StoreError::Engine(_) => assert_eq!(None, problem, "{code}"),
                error => panic!("{code}: {error}"),
            }
        }
    }
}
