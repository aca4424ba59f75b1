//! Whether a suggestion can be applied to the source branch as it is.

use super::file_cache::FileCache;
use super::source_branch::SourceBranch;
use crate::applicability::{ApplicabilityInputs, BranchState, FileAtHead, InapplicableReason};
use crate::discussion::CommentedFile;
use crate::merge_request::MergeRequest;
use crate::store::applied;
use crate::suggestion::Suggestion;
use bytes::Bytes;
use kit::Env;
use kit::store::StoreError;

pub struct Applicability {
    /// See [`ApplicabilityInputs::inapplicable_reason`].
    pub inapplicable_reason: Option<InapplicableReason>,
    /// See [`ApplicabilityInputs::refusal_reason`].
    pub refusal_reason: Option<InapplicableReason>,
    pub applied: bool,
    /// The lines that are replaced, at the commit that was commented on.
    pub from_content: Bytes,
}

/// Reads what decides about a suggestion, and decides. `same_branch` is for
/// [`ApplicabilityInputs::refusal_reason`].
pub fn assess(
    env: &Env,
    files: &FileCache,
    branch: &SourceBranch,
    merge_request: &MergeRequest,
    file: &CommentedFile,
    suggestion: &Suggestion,
    same_branch: bool,
) -> Result<Applicability, StoreError> {
    let from_content = files.read_commented_lines(file, suggestion)?;
    let is_named = branch.head.as_ref().is_some_and(|head| head.value.applied.contains(&suggestion.id));
    let applied = is_named || applied::read(env, suggestion.id)?.is_some();
    let lines_at_head;
    let branch = match &branch.head {
        None => None,
        Some(head) => {
            let file = match &head.tree {
                None => Some(FileAtHead::Unchanged),
                Some(tree) => match tree.blob(&file.path) {
                    None => None,
                    Some(blob) if blob == file.blob => Some(FileAtHead::Unchanged),
                    Some(blob) => {
                        // Suggestions are on files of bounded size, so the lines of a larger one differ.
                        let file = files.read(branch.project, blob)?;
                        lines_at_head = file.and_then(|file| file.slice(&suggestion.lines()));
                        Some(FileAtHead::Changed(lines_at_head.as_deref()))
                    }
                },
            };
            Some(BranchState { head: head.value.commit, file })
        }
    };
    let inputs = ApplicabilityInputs {
        suggestion,
        path: &file.path,
        from_content: &from_content,
        commit: file.commit,
        applied,
        state: merge_request.state,
        branch,
    };
    let (inapplicable_reason, refusal_reason) = (inputs.inapplicable_reason(), inputs.refusal_reason(same_branch));
    Ok(Applicability { inapplicable_reason, refusal_reason, applied, from_content })
}
