//! What is kept where: the only file, with its rooms, that knows a key or a stored byte.

mod refs;
mod objects;
mod reachability;
mod record;
mod semispace;
mod discussions;

pub use refs::{Head, Names, Tip, head, names, save_left, save_names, update_head};
pub use objects::{Loose, MAX_WHOLE, Writer, blob, commit, exists, keep, loose, may_be_head, save, tree};
pub use reachability::Repositories;
pub use semispace::{Space, current as current_space, in_time};
pub use discussions::{discussion, discussions, locate, reserve_note, reserve_suggestions, save_discussion};

use crate::git::Id;
use crate::merge_request::MergeRequest;
use bytes::Bytes;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;
use record::{AppliedRecord, MergeRequestRecord};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Everything this component writes is below this prefix; the number is the format's.
pub const PREFIX: &str = "suggestions/v1/";

/// The keys below [`PREFIX`]; the crate's documentation has the table. Numbers are a project's id
/// and a merge request's number in it.
enum Key<'a> {
    Object(Space, u64, Id),
    /// A piece of a stored object, by the id of what wrote it.
    Chunk(Space, &'a str, usize),
    /// Which space is current.
    Space,
    Branch(u64, &'a str),
    Branches(u64),
    /// Where a branch stood before it was moved.
    Left(&'a str),
    MergeRequest(u64, u64),
    Discussions(u64, u64),
    /// A full page of a list of discussions.
    Page(&'a str),
    Discussion(&'a str),
    Suggestion(u64),
    Applied(u64),
    NoteCounter,
    SuggestionCounter,
}

impl std::fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(PREFIX)?;
        match self {
            Key::Object(Space::First, project, id) => write!(f, "object/{project}/{id}"),
            Key::Object(Space::Second, project, id) => write!(f, "object2/{project}/{id}"),
            Key::Chunk(Space::First, upload, number) => write!(f, "chunk/{upload}/{number}"),
            Key::Chunk(Space::Second, upload, number) => write!(f, "chunk2/{upload}/{number}"),
            Key::Space => f.write_str("space"),
            // Encoded, because a name has slashes, and what is below a root belongs to it.
            Key::Branch(project, name) => write!(f, "ref/{project}/{}", kit::path::encode(name)),
            Key::Branches(project) => write!(f, "branches/{project}"),
            Key::Left(id) => write!(f, "reflog/{id}"),
            Key::MergeRequest(project, iid) => write!(f, "merge_request/{project}/{iid}"),
            Key::Discussions(project, iid) => write!(f, "discussions/{project}/{iid}"),
            Key::Page(id) => write!(f, "page/{id}"),
            Key::Discussion(id) => write!(f, "discussion/{id}"),
            Key::Suggestion(id) => write!(f, "suggestion/{id}"),
            Key::Applied(id) => write!(f, "applied/{id}"),
            Key::NoteCounter => f.write_str("counter/note"),
            Key::SuggestionCounter => f.write_str("counter/suggestion"),
        }
    }
}

/// The merge request with this number in a project. 1 read.
pub fn merge_request(env: &Env, project: u64, iid: u64) -> Result<Option<MergeRequest>, StoreError> {
    let key = Key::MergeRequest(project, iid).to_string();
    let record = root::read::<Option<MergeRequestRecord>>(&*env.store, &key)?.flatten();
    Ok(record.map(MergeRequest::from))
}

/// Creates or replaces a merge request; `None` forgets it.
pub fn save_merge_request(env: &Env, project: u64, iid: u64, new: Option<&MergeRequest>) -> Result<(), StoreError> {
    let new = new.map(MergeRequestRecord::from);
    let key = Key::MergeRequest(project, iid).to_string();
    root::update(&*env.store, &key, |current: Option<Option<MergeRequestRecord>>| {
        let unchanged = current.flatten() == new;
        Ok(if unchanged { Decision::Done(()) } else { Decision::Write(new.clone(), ()) })
    })
}

/// That a suggestion is in a commit. Written once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub commit: Id,
    /// Of the request that applied it.
    pub operation: String,
}

/// Whether, and by what, a suggestion was applied; beside this, the head of its branch may name it
/// (see [`Head::applied`]). 1 read.
pub fn applied(env: &Env, suggestion: u64) -> Result<Option<Applied>, StoreError> {
    let record = get::<AppliedRecord>(env, &Key::Applied(suggestion))?;
    Ok(record.map(|AppliedRecord { commit, operation }| Applied { commit, operation }))
}

/// Records that these suggestions were applied.
pub fn save_applied(env: &Env, suggestions: &[u64], applied: &Applied) -> Result<(), StoreError> {
    let record = AppliedRecord { commit: applied.commit, operation: applied.operation.clone() };
    suggestions.iter().try_for_each(|id| put(env, &Key::Applied(*id), &record))
}

/// A JSON blob, if it is there.
fn get<R: DeserializeOwned>(env: &Env, key: &Key) -> Result<Option<R>, StoreError> {
    let key = key.to_string();
    let Some(bytes) = env.blob(&key)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|why| StoreError::corrupt(&key, why))
}

/// Writes a JSON blob.
fn put(env: &Env, key: &Key, record: &impl Serialize) -> Result<(), StoreError> {
    let key = key.to_string();
    let bytes = serde_json::to_vec(record).map_err(|why| StoreError::corrupt(&key, why))?;
    env.store.set(&key, &bytes)?;
    env.blobs.put(&key, Bytes::from(bytes));
    Ok(())
}
