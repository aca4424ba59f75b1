//! Errors that several endpoints answer with.

use http::StatusCode;
use kit::Error;

/// 400 in the reference service's form: the text follows "400 Bad request" under `message` and stands
/// alone under `error`.
pub fn bad_request(reason: &str) -> Error {
    Error::pair(StatusCode::BAD_REQUEST, format!("400 Bad request - {reason}"), reason)
}

/// An error with the same text under `message` and `error`.
pub fn same_text(status: StatusCode, text: impl Into<String>) -> Error {
    let text = text.into();
    Error::pair(status, text.clone(), text)
}

/// 409: the client's metadata is of an earlier revision, so its request would undo another client's change.
pub fn outdated(revision: &str) -> Error {
    let text = format!("revision {revision} is not the current one: the package was changed meanwhile, try again");
    same_text(StatusCode::CONFLICT, text)
}

pub fn package_not_found() -> Error {
    Error::pair(StatusCode::NOT_FOUND, "404 Package Not Found", "Package not found")
}
