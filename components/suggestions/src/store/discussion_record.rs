//! The stored form of discussions. Unknown fields are ignored; a missing field has its default.

use super::record::is_default;
use crate::discussion::{CommentedFile, DiffPosition, Discussion, Note, Resolution};
use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use crate::suggestion::Suggestion;
use directory::project::{Incarnation, ProjectKey};
use directory::user::UserKey;
use kit::Timestamp;
use serde::{Deserialize, Serialize};

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

/// The discussion that a suggestion is in.
#[derive(Serialize, Deserialize)]
pub struct LocatorRecord {
    pub discussion: String,
    /// Earlier builds look for the suggestion at this index of the discussion's first note.
    pub index: usize,
}

/// A discussion as it was created: with one note, whose body is left out if it is internal. It is never rewritten;
/// later changes are in a [`DiscussionStateRecord`].
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct DiscussionInitialRecord {
    project_id: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    incarnation: Incarnation,
    merge_request_iid: u64,
    note_id: u64,
    author_id: u64,
    /// Left out for the first user with the id, as in all records of earlier builds.
    #[serde(default, skip_serializing_if = "is_default")]
    author_incarnation: Incarnation,
    body: String,
    created: Timestamp,
    #[serde(default, skip_serializing_if = "is_default")]
    individual: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    position: Option<DiffPosition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<FileRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<Suggestion>,
}

/// The present state of a discussion that was changed or is internal.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct DiscussionStateRecord {
    /// Oldest first; none if the discussion was deleted or is internal.
    notes: Vec<NoteRecord>,
    #[serde(default, skip_serializing_if = "is_default")]
    individual: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    resolution: Option<ResolutionRecord>,
    /// Earlier builds ignore this field, and take an internal discussion for a deleted one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    internal: Option<InternalRecord>,
}

/// The text of an internal discussion, which has no [`DiscussionInitialRecord`] of its own.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct InternalRecord {
    #[serde(rename = "began")]
    initial: DiscussionInitialRecord,
    /// Oldest first; at least one.
    notes: Vec<NoteRecord>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct NoteRecord {
    id: u64,
    author_id: u64,
    /// Left out for the first user with the id, as in all records of earlier builds.
    #[serde(default, skip_serializing_if = "is_default")]
    author_incarnation: Incarnation,
    body: String,
    created: Timestamp,
    #[serde(default, skip_serializing_if = "is_default")]
    updated: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_default")]
    system: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<Suggestion>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct ResolutionRecord {
    user_id: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    user_incarnation: Incarnation,
    at: Timestamp,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct FileRecord {
    project_id: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    incarnation: Incarnation,
    commit: ObjectId,
    path: String,
    blob: ObjectId,
}

impl DiscussionInitialRecord {
    pub fn created(&self) -> Timestamp {
        self.created
    }

    pub fn note_id(&self) -> u64 {
        self.note_id
    }

    /// The discussion with the notes of its state; `None` if it was deleted.
    pub fn into_discussion(self, id: &str, state: Option<DiscussionStateRecord>) -> Option<Discussion> {
        let first = Note {
            id: self.note_id,
            author: UserKey { id: self.author_id, incarnation: self.author_incarnation },
            body: self.body,
            created: self.created,
            updated: self.created,
            is_system: false,
            suggestions: self.suggestions,
        };
        let (notes, is_individual, resolution) = match state {
            None => (vec![first], self.individual, None),
            Some(DiscussionStateRecord { notes, individual, resolution, internal }) => {
                let notes = internal.map_or(notes, |internal| internal.notes);
                (notes.into_iter().map(Note::from).collect(), individual, resolution.map(Resolution::from))
            }
        };
        let file = self.file.map(CommentedFile::from);
        let discussion = Discussion {
            id: id.to_owned(),
            project: ProjectKey { id: self.project_id, incarnation: self.incarnation },
            merge_request_iid: self.merge_request_iid,
            notes,
            is_individual,
            resolution,
            position: self.position,
            file,
        };
        (!discussion.notes.is_empty()).then_some(discussion)
    }

    /// The file that the discussion's suggestions change.
    pub fn into_file(self) -> Option<CommentedFile> {
        self.file.map(CommentedFile::from)
    }

    /// The record of a new discussion, with its only note.
    pub fn new(discussion: &Discussion, note: &Note) -> Self {
        DiscussionInitialRecord {
            project_id: discussion.project.id,
            incarnation: discussion.project.incarnation.clone(),
            merge_request_iid: discussion.merge_request_iid,
            note_id: note.id,
            author_id: note.author.id,
            author_incarnation: note.author.incarnation.clone(),
            body: if discussion.is_internal() { String::new() } else { note.body.clone() },
            created: note.created,
            individual: discussion.is_individual,
            position: discussion.position.clone(),
            file: discussion.file.clone().map(FileRecord::from),
            suggestions: note.suggestions.clone(),
        }
    }
}

impl DiscussionStateRecord {
    /// The state of a discussion with this initial record.
    pub fn new(discussion: &Discussion, initial: &DiscussionInitialRecord) -> Self {
        let mut notes: Vec<NoteRecord> = discussion.notes.iter().cloned().map(NoteRecord::from).collect();
        let internal = (discussion.is_internal() && !notes.is_empty())
            .then(|| InternalRecord { initial: initial.clone(), notes: std::mem::take(&mut notes) });
        DiscussionStateRecord {
            notes,
            individual: discussion.is_individual,
            resolution: discussion.resolution.clone().map(ResolutionRecord::from),
            internal,
        }
    }

    /// The initial record of an internal discussion; `None` if it was deleted.
    pub fn internal_initial(&self) -> Option<&DiscussionInitialRecord> {
        self.internal.as_ref().map(|internal| &internal.initial)
    }

    pub fn is_deleted(&self) -> bool {
        self.notes.is_empty() && self.internal.is_none()
    }

    pub fn note_ids(&self) -> impl Iterator<Item = u64> {
        let internal = self.internal.iter().flat_map(|internal| &internal.notes);
        self.notes.iter().chain(internal).map(|note| note.id)
    }
}

impl From<NoteRecord> for Note {
    fn from(record: NoteRecord) -> Self {
        Note {
            id: record.id,
            author: UserKey { id: record.author_id, incarnation: record.author_incarnation },
            body: record.body,
            created: record.created,
            updated: record.updated.unwrap_or(record.created),
            is_system: record.system,
            suggestions: record.suggestions,
        }
    }
}

impl From<Note> for NoteRecord {
    fn from(note: Note) -> Self {
        NoteRecord {
            id: note.id,
            author_id: note.author.id,
            author_incarnation: note.author.incarnation,
            body: note.body,
            created: note.created,
            updated: Some(note.updated).filter(|updated| *updated != note.created),
            system: note.is_system,
            suggestions: note.suggestions,
        }
    }
}

impl From<ResolutionRecord> for Resolution {
    fn from(record: ResolutionRecord) -> Self {
        Resolution { user: UserKey { id: record.user_id, incarnation: record.user_incarnation }, at: record.at }
    }
}

impl From<Resolution> for ResolutionRecord {
    fn from(value: Resolution) -> Self {
        ResolutionRecord { user_id: value.user.id, user_incarnation: value.user.incarnation, at: value.at }
    }
}

impl From<FileRecord> for CommentedFile {
    fn from(record: FileRecord) -> Self {
        CommentedFile {
            repository: RepositoryId::new(record.project_id, &record.incarnation),
            commit: record.commit,
            path: record.path,
            blob: record.blob,
        }
    }
}

impl From<CommentedFile> for FileRecord {
    fn from(value: CommentedFile) -> Self {
        FileRecord {
            project_id: value.repository.project,
            incarnation: value.repository.incarnation(),
            commit: value.commit,
            path: value.path,
            blob: value.blob,
        }
    }
}
