//! Merge requests that are merged by an update of their target branch.

use super::history;
use crate::git::ObjectId;
use crate::merge_request::{End, MergeRequest, MergeRequestState};
use crate::repository_id::RepositoryId;
use crate::store::history::History;
use crate::store::merge_requests::{self, ListedBranches};
use crate::store::refs;
use directory::project::{self, Existence, ProjectKey};
use directory::user::UserKey;
use kit::Env;
use kit::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};

/// A branch that was moved.
pub struct BranchUpdate {
    /// Without `heads/`.
    pub branch: String,
    /// `None` if the branch is new, and merges nothing.
    pub old: Option<ObjectId>,
    pub new: ObjectId,
}

/// Records the head in the open merge requests from branches that are about to be deleted, because no branch has it
/// afterwards. Call it before the deletion; it does no harm if a branch is not deleted then. If a branch does not have
/// the deletion's old value, the deletion will fail, so nothing is recorded. Merge requests into other projects are not
/// found. Without deletions nothing is read. Otherwise 1 read, and 1 read and 1 update for each of these merge
/// requests.
pub fn before_deletions<'a>(
    env: &Env,
    repository: RepositoryId,
    deletions: impl IntoIterator<Item = (&'a str, ObjectId)>,
) -> Result<(), StoreError> {
    let deletions: BTreeMap<&str, ObjectId> = deletions.into_iter().collect();
    if deletions.is_empty() {
        return Ok(());
    }
    let Some(project) = find_project(env, repository)? else { return Ok(()) };
    for listed in merge_requests::list_if_any(env, &project)?.open {
        let branch = &listed.branches.source_branch;
        let head = deletions.get(branch.as_str()).filter(|_| listed.branches.source == Some(repository));
        let Some(head) = head else { continue };
        merge_requests::update(env, &project, listed.iid, |present| {
            let open = present.filter(|present| present.is_open() && present.source_branch == *branch);
            // Read after the record: if another deletion changes the record meanwhile, this update starts again.
            let stands = refs::read(env, repository, &format!("heads/{branch}"))?;
            if stands.is_none_or(|stands| stands.commit != *head) {
                return Ok::<_, StoreError>(None);
            }
            Ok(open.map(|merge_request| {
                let recorded = MergeRequest { sha: Some(head.to_string()), ..merge_request };
                (Some(recorded), ())
            }))
        })?;
    }
    Ok(())
}

/// Marks as merged the open merge requests into these branches whose head is among the new commits. Call it after every
/// update of branches by commits that other branches may have, with the user who moved them; it may be repeated. 2
/// reads if no merge request into one of the branches is open. Otherwise 1 read for each, or 2 if its source branch is
/// gone, and the new commits, at most 20,000 of each branch.
pub fn after_updates(
    env: &Env,
    repository: RepositoryId,
    updates: &[BranchUpdate],
    user: Option<&UserKey>,
) -> Result<(), StoreError> {
    if updates.iter().all(|update| update.old.is_none()) {
        return Ok(());
    }
    let Some(project) = find_project(env, repository)? else { return Ok(()) };
    let open = merge_requests::list(env, &project)?.open;
    let mut history = History::new(env, &[repository]);
    for update in updates {
        let Some(old) = update.old else { continue };
        let mut heads = Vec::new();
        for listed in open.iter().filter(|listed| listed.branches.target_branch == update.branch) {
            heads.extend(find_head(env, &project, listed)?.map(|head| (listed.iid, head)));
        }
        if heads.is_empty() {
            continue;
        }
        let wanted: BTreeSet<ObjectId> = heads.iter().map(|(_, head)| *head).collect();
        let merged = history::added(&mut history, update.new, old, &wanted)?;
        for (iid, head) in heads.into_iter().filter(|(_, head)| merged.contains(head)) {
            let merge = Merge { target_branch: &update.branch, into: old, head, user };
            mark_merged(env, &project, iid, &merge)?;
        }
    }
    Ok(())
}

fn find_project(env: &Env, repository: RepositoryId) -> Result<Option<ProjectKey>, StoreError> {
    let id = repository.project;
    match project::existence(env, id)? {
        Existence::Present(incarnation) => Ok(Some(ProjectKey { id, incarnation })),
        _ => Ok(None),
    }
}

/// The head of the source branch, or its last head if it was deleted.
fn find_head(env: &Env, project: &ProjectKey, listed: &ListedBranches) -> Result<Option<ObjectId>, StoreError> {
    let Some(source) = listed.branches.source else { return Ok(None) };
    if let Some(head) = refs::read(env, source, &format!("heads/{}", listed.branches.source_branch))? {
        return Ok(Some(head.commit));
    }
    let merge_request = merge_requests::read(env, project, listed.iid)?;
    Ok(merge_request.and_then(|merge_request| ObjectId::parse(&merge_request.sha?)))
}

/// A move of a target branch that merges.
struct Merge<'a> {
    target_branch: &'a str,
    /// The former head of the target branch.
    into: ObjectId,
    /// The head of the source branch.
    head: ObjectId,
    user: Option<&'a UserKey>,
}

fn mark_merged(env: &Env, project: &ProjectKey, iid: u64, merge: &Merge) -> Result<(), StoreError> {
    merge_requests::update(env, project, iid, |present| {
        let open = present.filter(|present| present.is_open() && present.target_branch == merge.target_branch);
        Ok::<_, StoreError>(open.map(|mut merge_request| {
            merge_request.state = MergeRequestState::Merged;
            merge_request.updated = Some(env.now);
            merge_request.ended = Some(End { at: env.now, user: merge.user.cloned() });
            merge_request.sha = Some(merge.head.to_string());
            merge_request.merged_into = Some(merge.into);
            (Some(merge_request), ())
        }))
    })?;
    Ok(())
}
