//! The list of a project's merge requests, with the branches of each that may be open.

use super::stored;
use crate::merge_request::Branches;
use crate::store::key::Key;
use crate::store::record::{BranchesRecord, MergeRequestListRecord};
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
        None if stored::read(env, project, 1)?.is_some() => list(env, project),
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
        if let Some((found, claim)) = stored::read_with_claim(env, project, iid)? {
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
