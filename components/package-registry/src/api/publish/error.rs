//! Why a publication fails.

use crate::api::error::same_text;
use http::StatusCode;
use kit::Error;
use kit::store::StoreError;

#[derive(Debug)]
pub enum PublishError {
    /// The package was not changed.
    Rejected(Error),
    /// Storage failed. The package may have been changed if the failure was in its last write.
    Storage(StoreError),
}

impl PublishError {
    /// 400 with this text.
    pub fn invalid(text: impl Into<String>) -> Self {
        PublishError::Rejected(same_text(StatusCode::BAD_REQUEST, text))
    }
}

impl From<Error> for PublishError {
    fn from(error: Error) -> Self {
        PublishError::Rejected(error)
    }
}

impl From<StoreError> for PublishError {
    fn from(error: StoreError) -> Self {
        PublishError::Storage(error)
    }
}
