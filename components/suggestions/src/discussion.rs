//! Discussions: a comment on a merge request, at a place in its changes or on the whole.

use crate::git::Id;
use crate::suggestion::Suggestion;
use kit::Timestamp;

/// A thread of one note. It never changes: what becomes of its suggestions is recorded elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discussion {
    /// 40 hex digits.
    pub id: String,
    /// The merge request's.
    pub project_id: u64,
    pub merge_request_iid: u64,
    pub note_id: u64,
    pub author_id: u64,
    pub body: String,
    pub created: Timestamp,
    pub position: Option<Position>,
    /// The file whose lines the suggestions replace; there is one if there are any.
    pub file: Option<File>,
    pub suggestions: Vec<Suggestion>,
}

/// A place in the changes, in the words of the one who commented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// `text`, `image` or `file`.
    pub kind: String,
    pub base_sha: String,
    pub start_sha: String,
    /// The commit whose file is commented on.
    pub head_sha: String,
    pub old_path: Option<String>,
    pub new_path: Option<String>,
    /// From 1. A line that is only in the old file was removed.
    pub old_line: Option<u64>,
    pub new_line: Option<u64>,
}

/// The contents of a file as they were commented on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Whose repository has it.
    pub project_id: u64,
    pub commit: Id,
    pub path: String,
    pub blob: Id,
}

impl Position {
    /// The path and the line that suggestions here would replace: a line of the new text.
    pub fn suggestible(&self) -> Option<(&str, u64)> {
        let path = self.new_path.as_deref().or(self.old_path.as_deref())?;
        (self.kind == "text").then_some((path, self.new_line?))
    }
}
