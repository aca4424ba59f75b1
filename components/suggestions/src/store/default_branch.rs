//! The default branch of a repository.

use super::{ref_names, refs};
use crate::repository_id::RepositoryId;
use kit::Env;
use kit::store::StoreError;

/// The branches that are protected as default branches unless a project says otherwise. One is the future default
/// branch, which Developers may not create. The other is the present one, the first that exists of these: the branch
/// that the project names (`configured`), `main`, `master`, the branch that the imported repository had checked out.
/// The last may be any branch of a working copy. 1 read, or 1 for each candidate and for the imported name.
pub fn protected(env: &Env, project: RepositoryId, configured: Option<&str>) -> Result<Vec<String>, StoreError> {
    let future = configured.unwrap_or("main").to_owned();
    let present = read(env, project, configured)?.filter(|present| *present != future);
    Ok([future].into_iter().chain(present).collect())
}

/// The first candidate that exists.
fn read(env: &Env, project: RepositoryId, configured: Option<&str>) -> Result<Option<String>, StoreError> {
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
