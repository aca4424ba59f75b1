//! Keys; the crate's documentation has the table.
//!
//! Two semispaces for objects, so that unreachable objects can be removed.
//!
//! The key of an object is the hash of its contents and tells no age. A writer that finds an object in the store and
//! relies on it leaves no trace. So writers write to, and rely on, the *current* semispace only, and a sweep removes
//! from the other one only. The semispaces exchange roles (flip). A sweep follows a flip after a day at the earliest,
//! when every request that relied on the swept semispace has long put its objects below a ref. Readers look into both.
//!
//! The flip happens at the beginning of a run of [`kit::gc`], if the last sweep ended more than
//! [`kit::gc::GRACE`] before. So no step of a delayed run still sweeps the semispace that becomes current.

use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use directory::project::ProjectKey;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The prefix of every key that this component writes; the number is the format's version.
pub const PREFIX: &str = "suggestions/v1/";

/// Present if names of refs may have the form of format 2. A host then refuses a component that reads format 1 only.
pub const FORMAT_2: &str = "suggestions/v2/format";

/// A key below [`PREFIX`]. The numbers are ids, and a merge request's iid.
pub enum Key<'a> {
    Object(Semispace, RepositoryId, ObjectId),
    /// A chunk of a stored object, by the id of the upload that wrote it.
    Chunk(Semispace, &'a str, usize),
    SemispaceRoles,
    /// The list of a repository's packs.
    Packs(RepositoryId),
    /// A blob of a pack, by the pack's id.
    Pack(&'a str, usize),
    /// A page of a pack's index.
    PackIndex(&'a str, usize),
    /// The first ids of the pages of a pack's index.
    PackDirectory(&'a str),
    /// The tips and bases of a pack, if they are many.
    PackTips(&'a str),
    /// Packs that were joined at one moment, by an id of that moment.
    ReplacedPacks(&'a str),
    /// A branch or tag, by its name below `refs/`.
    Ref(RepositoryId, &'a str),
    /// How a transaction of refs ended, by its id.
    RefTransaction(&'a str),
    RefNames(RepositoryId),
    ReflogEntry(&'a str),
    MergeRequest(&'a ProjectKey, u64),
    /// The list of a project's merge requests.
    MergeRequests(&'a ProjectKey),
    Discussions(&'a ProjectKey, u64),
    /// A full page of a list of discussions.
    Page(&'a str),
    DiscussionInitial(&'a str),
    /// The present notes of a discussion, by its id.
    DiscussionState(&'a str),
    Suggestion(u64),
    Applied(u64),
    MergeRequestCounter,
    NoteCounter,
    SuggestionCounter,
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(PREFIX)?;
        match self {
            Key::Object(Semispace::First, project, id) => write!(f, "object/{project}/{id}"),
            Key::Object(Semispace::Second, project, id) => write!(f, "object2/{project}/{id}"),
            Key::Chunk(Semispace::First, upload, number) => write!(f, "chunk/{upload}/{number}"),
            Key::Chunk(Semispace::Second, upload, number) => write!(f, "chunk2/{upload}/{number}"),
            Key::SemispaceRoles => f.write_str("space"),
            Key::Packs(project) => write!(f, "packs/{project}"),
            Key::Pack(pack, number) => write!(f, "pack/{pack}/{number}"),
            Key::PackIndex(pack, number) => write!(f, "pack_index/{pack}/{number}"),
            Key::PackDirectory(pack) => write!(f, "pack_index/{pack}/directory"),
            Key::PackTips(pack) => write!(f, "pack_index/{pack}/tips"),
            Key::ReplacedPacks(id) => write!(f, "replaced_packs/{id}"),
            // Percent-encoded, because names contain slashes, and keys below a root's key belong to that root.
            Key::Ref(project, name) => write!(f, "ref/{project}/{}", kit::path::encode(name)),
            Key::RefTransaction(id) => write!(f, "ref_transaction/{id}"),
            Key::RefNames(project) => write!(f, "branches/{project}"),
            Key::ReflogEntry(id) => write!(f, "reflog/{id}"),
            Key::MergeRequest(project, iid) => write!(f, "merge_request/{project}/{iid}"),
            Key::MergeRequests(project) => write!(f, "merge_requests/{project}"),
            Key::Discussions(project, iid) => write!(f, "discussions/{project}/{iid}"),
            Key::Page(id) => write!(f, "page/{id}"),
            Key::DiscussionInitial(id) => write!(f, "discussion/{id}"),
            Key::DiscussionState(id) => write!(f, "thread/{id}"),
            Key::Suggestion(id) => write!(f, "suggestion/{id}"),
            Key::Applied(id) => write!(f, "applied/{id}"),
            Key::MergeRequestCounter => f.write_str("counter/merge_request"),
            Key::NoteCounter => f.write_str("counter/note"),
            Key::SuggestionCounter => f.write_str("counter/suggestion"),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Semispace {
    #[default]
    First,
    Second,
}

impl Semispace {
    pub const BOTH: [Semispace; 2] = [Semispace::First, Semispace::Second];

    pub fn other(self) -> Self {
        match self {
            Semispace::First => Semispace::Second,
            Semispace::Second => Semispace::First,
        }
    }
}
