//! Discussions: comments on a merge request, at a position of its diff or on the whole.

use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use crate::suggestion::Suggestion;
use directory::project::ProjectKey;
use directory::user::UserKey;
use kit::Timestamp;

/// A thread of notes. Whether a suggestion was applied is recorded elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discussion {
    /// 40 hex digits.
    pub id: String,
    /// The target project of the merge request.
    pub project: ProjectKey,
    pub merge_request_iid: u64,
    /// Oldest first; at least one.
    pub notes: Vec<Note>,
    /// A comment on the merge request as a whole, which cannot be resolved. A reply makes a thread of it.
    pub is_individual: bool,
    pub resolution: Option<Resolution>,
    pub position: Option<DiffPosition>,
    /// The file that the position is in, if its line can be replaced; `Some` if there are suggestions. Earlier
    /// builds recorded it only then.
    pub file: Option<CommentedFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Unique in the whole service.
    pub id: u64,
    pub author: UserKey,
    pub body: String,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// Written by the service, about an action of its author.
    pub is_system: bool,
    pub suggestions: Vec<Suggestion>,
}

/// The user who resolved a discussion, and the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    pub user: UserKey,
    pub at: Timestamp,
}

impl Discussion {
    pub fn suggestions(&self) -> impl Iterator<Item = &Suggestion> {
        self.notes.iter().flat_map(|note| &note.suggestions)
    }

    /// The bytes of its notes and suggestions.
    pub fn text_length(&self) -> usize {
        let notes: usize = self.notes.iter().map(|note| note.body.len()).sum();
        notes + self.suggestions().map(|suggestion| suggestion.to_content.len()).sum::<usize>()
    }

    /// A suggestion, and the note that makes it.
    pub fn suggestion(&self, id: u64) -> Option<(&Note, &Suggestion)> {
        self.notes.iter().find_map(|note| {
            let suggestion = note.suggestions.iter().find(|suggestion| suggestion.id == id)?;
            Some((note, suggestion))
        })
    }

    pub fn note(&self, id: u64) -> Option<&Note> {
        self.notes.iter().find(|note| note.id == id)
    }
}

/// A position in the diff, as the author of the comment gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffPosition {
    /// `text`, `image` or `file`.
    pub kind: String,
    pub base_sha: String,
    pub start_sha: String,
    /// The commit whose file is commented on.
    pub head_sha: String,
    pub old_path: Option<String>,
    pub new_path: Option<String>,
    /// From 1. A line without a number in the new file was removed.
    pub old_line: Option<u64>,
    pub new_line: Option<u64>,
}

/// A file at the commit that was commented on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentedFile {
    /// The repository that has the commit.
    pub repository: RepositoryId,
    pub commit: ObjectId,
    pub path: String,
    pub blob: ObjectId,
}

impl DiffPosition {
    /// The path and the line that suggestions at this position replace; `None` unless it is a line of the
    /// new text.
    pub fn suggestible_line(&self) -> Option<(&str, u64)> {
        let path = self.new_path.as_deref().or(self.old_path.as_deref())?;
        (self.kind == "text").then_some((path, self.new_line?))
    }
}
