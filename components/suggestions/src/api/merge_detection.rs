//! Merge requests that are merged by an update of their target branch.

use super::history;
use crate::git::ObjectId;
use crate::merge_request::{End, MergeRequestState};
use crate::repository_id::RepositoryId;
use crate::store::history::History;
use crate::store::{merge_requests, refs};
use directory::project::{self, Existence, ProjectKey};
use kit::Env;
use kit::store::StoreError;
use std::collections::BTreeSet;

/// A branch that was moved.
pub struct BranchUpdate {
    /// Without `heads/`.
    pub branch: String,
    /// `None` if the branch is new, and merges nothing.
    pub old: Option<ObjectId>,
    pub new: ObjectId,
}

/// Marks as merged the open merge requests into these branches whose head is among the new commits. To be called after
/// every update of branches by commits that others may have too, with who moved them; may be repeated. 2 reads where no
/// merge request into one of the branches is open; otherwise 1 for each of them, and the new commits, at most 20,000 of
/// each branch.
pub fn after_updates(
    env: &Env,
    repository: RepositoryId,
    updates: &[BranchUpdate],
    user_id: Option<u64>,
) -> Result<(), StoreError> {
    if updates.iter().all(|update| update.old.is_none()) {
        return Ok(());
    }
    let id = repository.project;
    let Existence::Present(incarnation) = project::existence(env, id)? else { return Ok(()) };
    let project = ProjectKey { id, incarnation };
    let open = merge_requests::list(env, &project)?.open;
    let mut history = History::new(env, &[repository]);
    for update in updates {
        let Some(old) = update.old else { continue };
        let mut heads = Vec::new();
        for listed in open.iter().filter(|listed| listed.target_branch == update.branch) {
            let Some(source) = listed.source else { continue };
            if let Some(head) = refs::read(env, source, &format!("heads/{}", listed.source_branch))? {
                heads.push((listed.iid, head.commit));
            }
        }
        if heads.is_empty() {
            continue;
        }
        let wanted: BTreeSet<ObjectId> = heads.iter().map(|(_, head)| *head).collect();
        let merged = history::added(&mut history, update.new, old, &wanted)?;
        for (iid, head) in heads.into_iter().filter(|(_, head)| merged.contains(head)) {
            mark_merged(env, &project, iid, &update.branch, head, user_id)?;
        }
    }
    Ok(())
}

fn mark_merged(
    env: &Env,
    project: &ProjectKey,
    iid: u64,
    target_branch: &str,
    head: ObjectId,
    user_id: Option<u64>,
) -> Result<(), StoreError> {
    merge_requests::update(env, project, iid, |present| {
        let open = present.filter(|present| present.is_open() && present.target_branch == target_branch);
        Ok::<_, StoreError>(open.map(|mut merge_request| {
            merge_request.state = MergeRequestState::Merged;
            merge_request.updated = Some(env.now);
            merge_request.ended = Some(End { at: env.now, user_id });
            merge_request.sha = Some(head.to_string());
            (Some(merge_request), ())
        }))
    })?;
    Ok(())
}
