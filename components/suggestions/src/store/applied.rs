//! Which commit applied a suggestion.

use super::json_blob;
use super::key::Key;
use super::record::AppliedRecord;
use crate::git::ObjectId;
use kit::Env;
use kit::store::StoreError;

/// The commit that applied a suggestion. Never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedCommit {
    pub commit: ObjectId,
    /// The id of the request that applied the suggestion.
    pub operation: String,
}

/// The commit that applied a suggestion, if it is recorded. Until a branch moves on, its head may be
/// the only record (see [`super::refs::RefValue::applied`]). 1 read.
pub fn read(env: &Env, suggestion: u64) -> Result<Option<AppliedCommit>, StoreError> {
    let record = json_blob::read::<AppliedRecord>(env, &Key::Applied(suggestion))?;
    Ok(record.map(|AppliedRecord { commit, operation }| AppliedCommit { commit, operation }))
}

/// Records the commit that applied these suggestions.
pub fn save(env: &Env, suggestions: &[u64], applied: &AppliedCommit) -> Result<(), StoreError> {
    let record = AppliedRecord { commit: applied.commit, operation: applied.operation.clone() };
    suggestions.iter().try_for_each(|id| json_blob::write(env, &Key::Applied(*id), &record))
}
