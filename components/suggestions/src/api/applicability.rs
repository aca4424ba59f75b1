//! Whether a suggestion can be applied to the source branch as it is, and to which lines.

use super::file_cache::FileCache;
use super::source_branch::{BranchHead, SourceBranch};
use crate::applicability::{ApplicabilityInputs, InapplicableReason, LinesAtHead};
use crate::discussion::CommentedFile;
use crate::git::{ObjectId, SpecialFile};
use crate::lines::{self, Replacement};
use crate::merge_request::MergeRequest;
use crate::store::applied;
use crate::suggestion::Suggestion;
use bytes::Bytes;
use kit::Env;
use kit::store::StoreError;
use serde_json::Value;
use std::ops::RangeInclusive;

pub struct Applicability {
    /// `None` if the suggestion can be applied.
    pub inapplicable_reason: Option<InapplicableReason>,
    pub applied: bool,
    /// The lines that are replaced, at the commit that was commented on.
    pub from_content: Bytes,
    /// Where those lines are at the head, if they are unchanged.
    pub at_head: Option<FileLines>,
}

/// Lines of a file at the head of a branch.
pub struct FileLines {
    pub path: String,
    pub blob: ObjectId,
    /// From 1.
    pub lines: RangeInclusive<u64>,
}

impl Applicability {
    /// The suggestion's JSON. Its lines are the ones that it would replace now. If it was applied, or its lines were
    /// changed, they are the lines of the commit that was commented on.
    pub fn render(&self, suggestion: &Suggestion) -> Value {
        let first_line = match &self.at_head {
            Some(at_head) if !self.applied => *at_head.lines.start(),
            _ => suggestion.from_line,
        };
        suggestion.to_json(first_line, &self.from_content, self.inapplicable_reason.is_none(), self.applied)
    }
}

/// Reads the inputs of a suggestion's applicability, and decides it. For `same_branch` see [`ApplicabilityInputs`].
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
    let mut at_head = None;
    let lines_at_head = match &branch.head {
        None => None,
        Some(head) => Some(match head.find(file) {
            None => LinesAtHead::FileMissing,
            Some((path, blob)) => {
                let lines = files.follow(file, &suggestion.lines(), (head.repository, blob))?;
                at_head = lines.map(|lines| FileLines { path: path.to_owned(), blob, lines });
                if at_head.is_some() { LinesAtHead::Unchanged } else { LinesAtHead::Changed }
            }
        }),
    };
    let (mut is_binary, mut disallowed) = (files.is_binary(file.repository, file.blob)?, None);
    if let (Some(at_head), Some(head)) = (&at_head, &branch.head) {
        is_binary |= at_head.blob != file.blob && files.is_binary(head.repository, at_head.blob)?;
        disallowed = disallowed_contents(files, head, at_head, suggestion)?;
    }
    let inputs = ApplicabilityInputs {
        suggestion,
        path: &file.path,
        from_content: &from_content,
        applied,
        state: merge_request.state,
        lines_at_head,
        is_binary,
        same_branch,
        disallowed,
    };
    Ok(Applicability { inapplicable_reason: inputs.inapplicable_reason(), applied, from_content, at_head })
}

/// Why git would refuse the changed file. Checks only files that git reads.
fn disallowed_contents(
    files: &FileCache,
    head: &BranchHead,
    at_head: &FileLines,
    suggestion: &Suggestion,
) -> Result<Option<&'static str>, StoreError> {
    let FileLines { path, blob, lines } = at_head;
    if !is_special(path) {
        return Ok(None);
    }
    let Some(before) = files.read(head.repository, *blob)? else { return Ok(None) };
    let replacement = Replacement { lines: lines.clone(), text: suggestion.to_content.as_bytes() };
    Ok(check_contents(path, &lines::replace(before.contents(), &[replacement])).err())
}

fn is_special(path: &str) -> bool {
    special_files(path).next().is_some()
}

/// The special files that git may take a file at this path for.
fn special_files(path: &str) -> impl Iterator<Item = SpecialFile> {
    SpecialFile::named(path.rsplit('/').next().unwrap_or_default().as_bytes())
}

/// Checks a file as a push does.
pub fn check_contents(path: &str, contents: &[u8]) -> Result<(), &'static str> {
    special_files(path).try_for_each(|file| file.check(Some(contents)))
}
