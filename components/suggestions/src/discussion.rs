//! Discussions: comments on a merge request, at a position of its diff or on the whole.

use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use crate::suggestion::Suggestion;
use directory::project::ProjectKey;
use directory::user::UserKey;
use kit::Timestamp;
use serde::{Deserialize, Serialize};

/// The end of an internal discussion's id. Earlier builds find no discussion by an id of that length.
const INTERNAL: &str = "-internal";

/// The length of an id, without [`INTERNAL`].
const ID_LENGTH: usize = 40;

/// A discussion with its present notes. Another record says whether a suggestion was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discussion {
    /// 40 hex digits. The id of an internal discussion has an ending ([`is_internal`]).
    pub id: String,
    /// The target project of the merge request.
    pub project: ProjectKey,
    pub merge_request_iid: u64,
    /// Oldest first; at least one.
    pub notes: Vec<Note>,
    /// Whether it is a comment on the whole merge request without a reply, which cannot be resolved.
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

/// Whether discussions may have this id. A client's text can be too long for a key.
pub fn is_id(text: &str) -> bool {
    text.strip_suffix(INTERNAL).unwrap_or(text).len() == ID_LENGTH
}

/// Whether the discussion with this id is internal: only Reporters of its project see it, as in the reference service.
pub fn is_internal(id: &str) -> bool {
    id.len() > ID_LENGTH && id.ends_with(INTERNAL)
}

/// The id of an internal discussion, made of an id of 40 hex digits.
pub fn internal_id(id: &str) -> String {
    format!("{id}{INTERNAL}")
}

impl Discussion {
    /// Whether only Reporters of its project see its notes.
    pub fn is_internal(&self) -> bool {
        is_internal(&self.id)
    }

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffPosition {
    /// `text`, `image` or `file`.
    pub kind: String,
    pub base_sha: String,
    pub start_sha: String,
    /// The commit whose file is commented on.
    pub head_sha: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_path: Option<String>,
    /// From 1. A line without a number in the new file was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_line: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_line: Option<u64>,
    /// The first and the last line of a comment on several lines. They are only shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_range: Option<[RangeEnd; 2]>,
}

/// A line at the end of a range, as the author of the comment gave it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeEnd {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_code: Option<String>,
    /// For example `new` or `old`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_line: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// The path and the line that suggestions at this position replace; `None` unless it is a line of the new text.
    pub fn suggestible_line(&self) -> Option<(&str, u64)> {
        let path = self.new_path.as_deref().or(self.old_path.as_deref())?;
        (self.kind == "text").then_some((path, self.new_line?))
    }
}
