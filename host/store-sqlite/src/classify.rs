//! Maps errors of SQLite to store errors.

use std::borrow::Borrow;
use std::sync::Arc;

use hexad_store::{StoreError, StoreProblem};
use rusqlite::ErrorCode;

/// The error of an operation that did not take place.
pub fn classify(error: impl Borrow<rusqlite::Error>) -> StoreError {
    let error = error.borrow();
    let reason: Arc<str> = Arc::from(error.to_string());
    match (problem(error), is_damage(error)) {
        (_, true) => StoreError::Damaged(reason),
        (Some(problem), false) => StoreError::Unavailable { problem, reason },
        (None, false) => StoreError::Engine(reason),
    }
}

/// The error of a commit. If the disk failed, the next start may find the transaction in the log.
pub fn classify_commit(error: &rusqlite::Error) -> StoreError {
    match classify(error) {
        StoreError::Unavailable { problem: problem @ StoreProblem::Unavailable, reason } => {
            StoreError::Unknown { problem, reason }
        }
        error => error,
    }
}

pub fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// The problem of the disk or of another program, `None` for an error that may be of the operation itself.
fn problem(error: &rusqlite::Error) -> Option<StoreProblem> {
    match error.sqlite_error_code()? {
        ErrorCode::DiskFull => Some(StoreProblem::Full),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Some(StoreProblem::Busy),
        ErrorCode::SystemIoFailure
        | ErrorCode::CannotOpen
        | ErrorCode::ReadOnly
        | ErrorCode::PermissionDenied
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::OutOfMemory => Some(StoreProblem::Unavailable),
        // The statements are constant, so a wrong one does not fit the present tables.
        ErrorCode::Unknown => Some(StoreProblem::Unusable),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;
    use hexad_store::ErrorKind;

    fn error(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn an_error_says_whether_to_try_again() {
        for (code, kind, of_commit) in [
            (ffi::SQLITE_FULL, ErrorKind::Unavailable(StoreProblem::Full), ErrorKind::Unavailable(StoreProblem::Full)),
            (
                ffi::SQLITE_BUSY_SNAPSHOT,
                ErrorKind::Unavailable(StoreProblem::Busy),
                ErrorKind::Unavailable(StoreProblem::Busy),
            ),
            (
                ffi::SQLITE_IOERR_FSYNC,
                ErrorKind::Unavailable(StoreProblem::Unavailable),
                ErrorKind::Unknown(StoreProblem::Unavailable),
            ),
            (ffi::SQLITE_CORRUPT, ErrorKind::Fault, ErrorKind::Fault),
            (ffi::SQLITE_CONSTRAINT, ErrorKind::Fault, ErrorKind::Fault),
            (ffi::SQLITE_TOOBIG, ErrorKind::Fault, ErrorKind::Fault),
            (
                ffi::SQLITE_ERROR,
                ErrorKind::Unavailable(StoreProblem::Unusable),
                ErrorKind::Unavailable(StoreProblem::Unusable),
            ),
        ] {
            assert_eq!(classify(error(code)).kind(), kind, "{code}");
            assert_eq!(classify_commit(&error(code)).kind(), of_commit, "{code}");
        }
        assert!(matches!(classify(error(ffi::SQLITE_NOTADB)), StoreError::Damaged(_)));
    }
}
