//! The list of a project's merge requests, with the branches of each that may be open.

use crate::merge_request::{Branches, MergeRequest};
use crate::store::key::Key;
use crate::store::record::{BranchesRecord, MergeRequestListRecord, MergeRequestRecord};
use directory::project::ProjectKey;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;

/// Builds without lists numbered merge requests as they were imported. A missing list is rebuilt by reading iids from 1
/// on, until so many in a row do not exist.
const LONGEST_GAP: u64 = 200;

/// A project's merge requests.
#[derive(Debug, Default)]
pub struct MergeRequestList {
    /// In their order. Some may not exist.
    pub iids: Vec<u64>,
    /// The merge requests that may be open. A merge request that gets other branches is listed with both.
    pub open: Vec<ListedBranches>,
}

/// A merge request that may be open, with its branches.
#[derive(Debug)]
pub struct ListedBranches {
    pub iid: u64,
    pub branches: Branches,
}

/// The merge requests of a project. 1 read; the first time for a project, the list is rebuilt.
pub fn list(env: &Env, project: &ProjectKey) -> Result<MergeRequestList, StoreError> {
    if let Some(list) = read_list(env, project)? {
        return Ok(list);
    }
    change(env, project, |_| ())?;
    Ok(read_list(env, project)?.unwrap_or_default())
}

/// As [`list`], for a project that likely has no merge requests: a missing list is rebuilt only if the first one
/// exists. 1 read, or 2.
pub fn list_if_any(env: &Env, project: &ProjectKey) -> Result<MergeRequestList, StoreError> {
    match read_list(env, project)? {
        Some(list) => Ok(list),
        None if read(env, project, 1)?.is_some() => list(env, project),
        None => Ok(MergeRequestList::default()),
    }
}

fn read_list(env: &Env, project: &ProjectKey) -> Result<Option<MergeRequestList>, StoreError> {
    let key = Key::MergeRequests(project).to_string();
    let Some(record) = root::read::<MergeRequestListRecord>(&*env.store, &key)? else { return Ok(None) };
    let all = |(iid, listed): (&u64, &BranchesRecord)| -> Vec<ListedBranches> {
        listed.all().map(|branches| ListedBranches { iid: *iid, branches }).collect()
    };
    let open = record.open.iter().flat_map(all).collect();
    Ok(Some(MergeRequestList { iids: record.iids.into_iter().collect(), open }))
}

/// Changes the list of a project.
pub fn change(env: &Env, project: &ProjectKey, change: impl Fn(&mut MergeRequestListRecord)) -> Result<(), StoreError> {
    root::update(env, &Key::MergeRequests(project).to_string(), |current: Option<MergeRequestListRecord>| {
        let mut list = or_rebuild(env, project, current.clone())?;
        change(&mut list);
        Ok(if current.as_ref() == Some(&list) { Decision::Keep(()) } else { Decision::Replace(list, ()) })
    })
}

/// The list as it was read, or else a new one with the existing merge requests.
pub fn or_rebuild(
    env: &Env,
    project: &ProjectKey,
    current: Option<MergeRequestListRecord>,
) -> Result<MergeRequestListRecord, StoreError> {
    if let Some(list) = current {
        return Ok(list);
    }
    let mut list = MergeRequestListRecord::default();
    let (mut iid, mut last) = (1, 0);
    while iid - last <= LONGEST_GAP {
        if let Some((found, claim)) = read_with_claim(env, project, iid)? {
            last = iid;
            list.iids.insert(iid);
            if found.is_open() {
                list.open.insert(iid, BranchesRecord::new(&found.branches(), &claim));
            }
        }
        iid += 1;
    }
    Ok(list)
}

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
