//! Errors of objects that are damaged or missing.

use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use crate::store::key::Key;
use crate::store::semispace::Semispace;
use kit::store::StoreError;

/// The absence of an object that a ref, or another object, names.
pub fn missing(project: RepositoryId, id: ObjectId) -> StoreError {
    corrupt(project, id, "it is missing")
}

pub fn corrupt(project: RepositoryId, id: ObjectId, why: &str) -> StoreError {
    StoreError::corrupt(&Key::Object(Semispace::First, project, id).to_string(), why)
}
