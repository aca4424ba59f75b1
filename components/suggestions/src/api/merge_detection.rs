//! Merge requests that are merged by an update of their target branch.

use super::history::History;
use crate::git::ObjectId;
use crate::merge_request::{End, MergeRequestState};
use crate::repository_id::RepositoryId;
use crate::store::{merge_requests, refs};
use directory::project::{self, Existence, ProjectKey};
use kit::Env;
use kit::store::StoreError;
use std::collections::BTreeSet;

/// A branch that was moved.
pub struct BranchUpdate<'a> {
    pub repository: RepositoryId,
    /// Without `heads/`.
    pub branch: &'a str,
    /// `None` if the branch is new, and merges nothing.
    pub old: Option<ObjectId>,
    pub new: ObjectId,
    /// Who moved it.
    pub user_id: Option<u64>,
}

/// Marks as merged the open merge requests into this branch whose head is among its new commits. To be called
/// after every update of a branch; may be repeated. 2 reads where no merge request into the branch is open;
/// otherwise 1 for each of them, and the new commits, at most 20,000.
pub fn after_update(env: &Env, update: &BranchUpdate) -> Result<(), StoreError> {
    let Some(old) = update.old else { return Ok(()) };
    let id = update.repository.project;
    let Existence::Present(incarnation) = project::existence(env, id)? else { return Ok(()) };
    let project = ProjectKey { id, incarnation };
    let open = merge_requests::list(env, &project)?.open;
    let mut heads = Vec::new();
    for listed in open.into_iter().filter(|listed| listed.target_branch == update.branch) {
        let Some(source) = listed.source else { continue };
        if let Some(head) = refs::read(env, source, &format!("heads/{}", listed.source_branch))? {
            heads.push((listed.iid, head.commit));
        }
    }
    if heads.is_empty() {
        return Ok(());
    }
    let wanted: BTreeSet<ObjectId> = heads.iter().map(|(_, head)| *head).collect();
    let merged = History::new(env, &[update.repository]).added(update.new, old, &wanted)?;
    for (iid, head) in heads.into_iter().filter(|(_, head)| merged.contains(head)) {
        merge_requests::update(env, &project, iid, |present| {
            let open = present.filter(|present| present.is_open() && present.target_branch == update.branch);
            Ok::<_, StoreError>(open.map(|mut merge_request| {
                merge_request.state = MergeRequestState::Merged;
                merge_request.updated = Some(env.now);
                merge_request.ended = Some(End { at: env.now, user_id: update.user_id });
                merge_request.sha = Some(head.to_string());
                (Some(merge_request), ())
            }))
        })?;
    }
    Ok(())
}
