//! The record of one merge request.

use crate::merge_request::{Branches, MergeRequest};
use crate::store::key::Key;
use crate::store::record::{BranchesRecord, MergeRequestRecord};
use directory::project::ProjectKey;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;

/// The merge request with this iid in a project. 1 read.
pub fn read(env: &Env, project: &ProjectKey, iid: u64) -> Result<Option<MergeRequest>, StoreError> {
    Ok(read_with_claim(env, project, iid)?.map(|(merge_request, _)| merge_request))
}

/// As [`read`], with the claim that opened it.
pub fn read_with_claim(
    env: &Env,
    project: &ProjectKey,
    iid: u64,
) -> Result<Option<(MergeRequest, String)>, StoreError> {
    let key = Key::MergeRequest(project, iid).to_string();
    let record = root::read::<Option<MergeRequestRecord>>(&*env.store, &key)?.flatten();
    Ok(record.map(|record| {
        let claim = record.claim.clone();
        (MergeRequest::from(record), claim)
    }))
}

/// Whether a merge request that is listed with some branches holds them against another one.
pub enum Hold {
    /// It is open with these branches.
    Open,
    /// It does not hold them any more. The branches to list it with instead; `None` unless it is open.
    Freed(Option<BranchesRecord>),
}

/// Frees branches that a merge request is listed with, unless it is open with them. Writes its record, so that a
/// request that has read the record, and is about to open it with these branches, loses its swap.
pub fn free(env: &Env, project: &ProjectKey, iid: u64, branches: &Branches) -> Result<Hold, StoreError> {
    let claim = env.id();
    let key = Key::MergeRequest(project, iid).to_string();
    root::update(env, &key, |current: Option<Option<MergeRequestRecord>>| {
        let is_absent = current.is_none();
        let Some(record) = current.flatten() else {
            let freed = Hold::Freed(None);
            // A request creates it only if it never existed.
            return Ok(if is_absent { Decision::Replace(None, freed) } else { Decision::Keep(freed) });
        };
        let merge_request = MergeRequest::from(record.clone());
        let present = merge_request.branches();
        if merge_request.is_open() && present == *branches {
            return Ok::<_, StoreError>(Decision::Keep(Hold::Open));
        }
        let freed = Hold::Freed(merge_request.is_open().then(|| BranchesRecord::new(&present, &claim)));
        if record.claim == claim {
            return Ok(Decision::Keep(freed));
        }
        Ok(Decision::Replace(Some(record.with_claim(&claim)), freed))
    })
}
