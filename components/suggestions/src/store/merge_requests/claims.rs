//! Claims of branches, which ensure that only one merge request is open for the same branches.
//!
//! A merge request and the list of its project are two roots, which cannot be swapped together. A writer that opens a
//! merge request, or gives an open one other branches, first enters the branches in the list. The entry has an id of
//! the attempt, its *claim*. Then the writer swaps the merge request's record. Two claims of the same branches meet in
//! the swap of the list.
//!
//! The list may have claims whose writers died, or have not come to the second swap yet. The next claimer treats both
//! alike. It first writes the record of the merge request that has the claim, so that the other writer's swap is lost
//! ([`list::free`]). Then it removes the claim from the list, by the swap that enters its own. A writer that has lost
//! the second swap claims again, by another id, and so changes the list. If this comes between the claimer's two steps,
//! the claimer loses the swap of the list. Hence a claim is in the list as long as it may open a merge request, and two
//! rivals are never open.

use super::list;
use crate::merge_request::Branches;
use crate::store::key::Key;
use crate::store::record::{BranchesRecord, MergeRequestListRecord};
use directory::project::ProjectKey;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;
use list::Hold;

/// Another merge request has the branches.
#[derive(Debug)]
pub struct BranchesTaken {
    /// The other merge request.
    pub iid: u64,
}

/// A claim that is to be made.
pub struct NewClaim<'a> {
    /// `None` for a new merge request, which gets the next iid.
    pub iid: Option<u64>,
    /// Unique to this attempt.
    pub id: &'a str,
    pub branches: Branches,
    /// The present branches of an open merge request.
    pub present: Option<Branches>,
    /// Whether another open merge request with the same branches prevents it: not in imports, which copy another forge.
    pub is_exclusive: bool,
}

/// Enters the branches in the list of a project. Returns the iid. 1 read and 1 swap; more for each other claim of these
/// branches.
pub fn claim(env: &Env, project: &ProjectKey, new: &NewClaim) -> Result<Result<u64, BranchesTaken>, StoreError> {
    root::update(env, &Key::MergeRequests(project).to_string(), |current: Option<MergeRequestListRecord>| {
        let mut list = list::or_rebuild(env, project, current)?;
        if let Some((iid, _)) = list.open.iter().find(|(_, listed)| listed.claim == new.id) {
            return Ok::<_, StoreError>(Decision::Keep(Ok(*iid)));
        }
        if new.is_exclusive
            && let Some(taken) = free(env, project, new, &mut list)?
        {
            return Ok(Decision::Keep(Err(taken)));
        }
        let iid = new.iid.unwrap_or_else(|| {
            let allocated = list.allocated.as_ref().map_or(0, |(_, iid)| *iid);
            let iid = list.iids.last().copied().unwrap_or_default().max(allocated).saturating_add(1);
            list.allocated = Some((new.id.to_owned(), iid));
            iid
        });
        enter(&mut list, iid, new);
        Ok(Decision::Replace(list, Ok(iid)))
    })
}

/// Enters the branches of a merge request with this iid in the list.
pub fn enter(list: &mut MergeRequestListRecord, iid: u64, new: &NewClaim) {
    list.iids.insert(iid);
    let mut listed = BranchesRecord::new(&new.branches, new.id);
    // Another writer may have claimed other branches for the same merge request, and may not have lost its swap yet.
    let others = list.open.get(&iid).into_iter().flat_map(BranchesRecord::all);
    for before in others.chain(new.present.clone()) {
        if !listed.all().any(|one| one == before) {
            listed.before.push(BranchesRecord::new(&before, ""));
        }
    }
    list.open.insert(iid, listed);
}

/// Removes other claims of the same branches from the list; returns the open merge request that has one of them.
fn free(
    env: &Env,
    project: &ProjectKey,
    new: &NewClaim,
    list: &mut MergeRequestListRecord,
) -> Result<Option<BranchesTaken>, StoreError> {
    let is_rival = |(iid, listed): &(&u64, &BranchesRecord)| {
        Some(**iid) != new.iid && listed.all().any(|branches| branches == new.branches)
    };
    let rivals: Vec<u64> = list.open.iter().filter(is_rival).map(|(iid, _)| *iid).collect();
    for iid in rivals {
        match list::free(env, project, iid, &new.branches)? {
            Hold::Open => return Ok(Some(BranchesTaken { iid })),
            Hold::Freed(Some(present)) => drop(list.open.insert(iid, present)),
            Hold::Freed(None) => drop(list.open.remove(&iid)),
        }
    }
    Ok(None)
}

/// A merge request other than `iid` that is listed with the same branches. 1 read.
pub fn find_rival(
    env: &Env,
    project: &ProjectKey,
    iid: u64,
    branches: &Branches,
) -> Result<Option<BranchesTaken>, StoreError> {
    let rival = list::list(env, project)?.open.into_iter().find(|one| one.iid != iid && one.branches == *branches);
    Ok(rival.map(|rival| BranchesTaken { iid: rival.iid }))
}

/// Forgets the branches before this claim, once the merge request's record has the claimed ones. No swap to other
/// branches can succeed any more.
pub fn confirm(list: &mut MergeRequestListRecord, iid: u64, claim: &str) {
    if let Some(listed) = list.open.get_mut(&iid).filter(|listed| listed.claim == claim) {
        listed.before.clear();
    }
}

/// Removes the claim of a merge request that is not open any more from the list. A later claim stays.
pub fn release(list: &mut MergeRequestListRecord, iid: u64, claim: &str) {
    if list.open.get(&iid).is_some_and(|listed| listed.claim == claim) {
        list.open.remove(&iid);
    }
}
