//! The stored form of each record. Unknown fields are ignored; a missing field has its default.

use crate::discussion::{CommentedFile, DiffPosition, Discussion};
use crate::git::ObjectId;
use crate::merge_request::{MergeRequest, MergeRequestState};
use crate::suggestion::Suggestion;
use kit::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct MergeRequestRecord {
    id: u64,
    state: String,
    #[serde(default, skip_serializing_if = "is_default")]
    source_project_id: Option<u64>,
    source_branch: String,
    target_branch: String,
    #[serde(default, skip_serializing_if = "is_default")]
    title: String,
    #[serde(default, skip_serializing_if = "is_default")]
    author_id: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    allow_collaboration: bool,
}

impl From<MergeRequestRecord> for MergeRequest {
    fn from(record: MergeRequestRecord) -> Self {
        MergeRequest {
            id: record.id,
            // In a state that this build does not know, nothing may be applied.
            state: MergeRequestState::parse(&record.state).unwrap_or(MergeRequestState::Closed),
            source_project_id: record.source_project_id,
            source_branch: record.source_branch,
            target_branch: record.target_branch,
            title: record.title,
            author_id: record.author_id,
            allow_collaboration: record.allow_collaboration,
        }
    }
}

impl From<&MergeRequest> for MergeRequestRecord {
    fn from(merge_request: &MergeRequest) -> Self {
        MergeRequestRecord {
            id: merge_request.id,
            state: merge_request.state.as_str().to_owned(),
            source_project_id: merge_request.source_project_id,
            source_branch: merge_request.source_branch.clone(),
            target_branch: merge_request.target_branch.clone(),
            title: merge_request.title.clone(),
            author_id: merge_request.author_id,
            allow_collaboration: merge_request.allow_collaboration,
        }
    }
}

/// A branch or tag. A deleted one is stored as `null`, as is a deleted merge request.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct RefRecord {
    pub commit: ObjectId,
    #[serde(default, skip_serializing_if = "is_default")]
    pub applied: Vec<u64>,
    pub operation: String,
}

/// The packs of a repository, in the order in which they were added.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PackListRecord {
    pub packs: Vec<PackRecord>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PackRecord {
    pub id: String,
    pub objects: u32,
    /// Bytes of the entries.
    pub size: u64,
    /// The objects for whose sake the others are in the pack: new heads of branches, and tags.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tips: Vec<ObjectId>,
    /// Commits of other packs that those of this pack build on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bases: Vec<ObjectId>,
    /// Whether the tips reach every object of the pack, no earlier pack has one of them, and what they need and this
    /// pack lacks is in earlier packs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_closed: bool,
}

/// A former value of a branch or tag.
#[derive(Serialize, Deserialize)]
pub struct ReflogRecord {
    pub project_id: u64,
    pub commit: ObjectId,
}

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RefNamesRecord {
    #[serde(default)]
    pub names: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub default: Option<String>,
}

#[derive(Serialize, Deserialize)]
pub struct AppliedRecord {
    pub commit: ObjectId,
    pub operation: String,
}

/// The discussions of a merge request, oldest first.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct DiscussionListRecord {
    /// Ids of full pages.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pages: Vec<String>,
    /// Ids of the discussions that follow, fewer than a full page has.
    #[serde(default)]
    pub last: Vec<String>,
}

/// The discussion that a suggestion is in, and its index there.
#[derive(Serialize, Deserialize)]
pub struct LocatorRecord {
    pub discussion: String,
    pub index: usize,
}

#[derive(Serialize, Deserialize)]
pub struct DiscussionRecord {
    project_id: u64,
    merge_request_iid: u64,
    note_id: u64,
    author_id: u64,
    body: String,
    created: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    position: Option<PositionRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<FileRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<SuggestionRecord>,
}

#[derive(Serialize, Deserialize)]
struct PositionRecord {
    kind: String,
    base_sha: String,
    start_sha: String,
    head_sha: String,
    #[serde(default, skip_serializing_if = "is_default")]
    old_path: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    new_path: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    old_line: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    new_line: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct FileRecord {
    project_id: u64,
    commit: ObjectId,
    path: String,
    blob: ObjectId,
}

#[derive(Serialize, Deserialize)]
struct SuggestionRecord {
    id: u64,
    from_line: u64,
    to_line: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    single_line: bool,
    to_content: String,
}

impl DiscussionRecord {
    pub fn created(&self) -> Timestamp {
        self.created
    }

    pub fn into_discussion(self, id: &str) -> Discussion {
        let position = |record: PositionRecord| DiffPosition {
            kind: record.kind,
            base_sha: record.base_sha,
            start_sha: record.start_sha,
            head_sha: record.head_sha,
            old_path: record.old_path,
            new_path: record.new_path,
            old_line: record.old_line,
            new_line: record.new_line,
        };
        let suggestion = |record: SuggestionRecord| Suggestion {
            id: record.id,
            from_line: record.from_line,
            to_line: record.to_line,
            single_line: record.single_line,
            to_content: record.to_content,
        };
        Discussion {
            id: id.to_owned(),
            project_id: self.project_id,
            merge_request_iid: self.merge_request_iid,
            note_id: self.note_id,
            author_id: self.author_id,
            body: self.body,
            created: self.created,
            position: self.position.map(position),
            file: self.file.map(|FileRecord { project_id, commit, path, blob }| CommentedFile {
                project_id,
                commit,
                path,
                blob,
            }),
            suggestions: self.suggestions.into_iter().map(suggestion).collect(),
        }
    }
}

impl From<&Discussion> for DiscussionRecord {
    fn from(discussion: &Discussion) -> Self {
        let position = |position: DiffPosition| PositionRecord {
            kind: position.kind,
            base_sha: position.base_sha,
            start_sha: position.start_sha,
            head_sha: position.head_sha,
            old_path: position.old_path,
            new_path: position.new_path,
            old_line: position.old_line,
            new_line: position.new_line,
        };
        let suggestion = |suggestion: Suggestion| SuggestionRecord {
            id: suggestion.id,
            from_line: suggestion.from_line,
            to_line: suggestion.to_line,
            single_line: suggestion.single_line,
            to_content: suggestion.to_content,
        };
        let Discussion { file, suggestions, .. } = discussion.clone();
        DiscussionRecord {
            project_id: discussion.project_id,
            merge_request_iid: discussion.merge_request_iid,
            note_id: discussion.note_id,
            author_id: discussion.author_id,
            body: discussion.body.clone(),
            created: discussion.created,
            position: discussion.position.clone().map(position),
            file: file.map(|CommentedFile { project_id, commit, path, blob }| FileRecord {
                project_id,
                commit,
                path,
                blob,
            }),
            suggestions: suggestions.into_iter().map(suggestion).collect(),
        }
    }
}
