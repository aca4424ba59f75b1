//! The default branch of a repository.

use super::{ref_names, refs};
use crate::repository_id::RepositoryId;
use kit::Env;
use kit::store::StoreError;

/// The branch that is protected as the default one: the one that the project names (`configured`), or else
/// `main`, or `master`, or the one that the imported repository had checked out. That one comes last, since
/// in a working copy it may be any. The first of them that is there. 1 read, or 1 for each candidate and for
/// the imported name.
pub fn read(env: &Env, project: RepositoryId, configured: Option<&str>) -> Result<Option<String>, StoreError> {
    let is_there = |branch: &str| Ok::<_, StoreError>(refs::read(env, project, &format!("heads/{branch}"))?.is_some());
    for branch in configured.into_iter().chain(["main", "master"]) {
        if is_there(branch)? {
            return Ok(Some(branch.to_owned()));
        }
    }
    let imported = ref_names::read(env, project)?.default;
    match imported.as_deref().and_then(|name| name.strip_prefix("heads/")) {
        Some(branch) if is_there(branch)? => Ok(Some(branch.to_owned())),
        _ => Ok(None),
    }
}
