//! The stored form of each record but those of discussions. Unknown fields are ignored; a missing field has
//! its default.

use crate::git::ObjectId;
use crate::merge_request::{Branches, End, MergeRequest, MergeRequestState};
use crate::repository_id::RepositoryId;
use directory::project::Incarnation;
use directory::user::UserKey;
use kit::Timestamp;
use kit::list::Top;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct MergeRequestRecord {
    pub id: u64,
    state: String,
    #[serde(default, skip_serializing_if = "is_default")]
    source_project_id: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    source_incarnation: Incarnation,
    source_branch: String,
    target_branch: String,
    #[serde(default, skip_serializing_if = "is_default")]
    title: String,
    #[serde(default, skip_serializing_if = "is_default")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    author_id: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    author_incarnation: Incarnation,
    #[serde(default, skip_serializing_if = "is_default")]
    allow_collaboration: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    created: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_default")]
    updated: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_default")]
    ended: Option<EndRecord>,
    #[serde(default, skip_serializing_if = "is_default")]
    sha: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    merged_into: Option<ObjectId>,
    /// The claim that opened it last; another value if a request has given its branches to another merge request since.
    /// So a request that has read the record before loses its swap.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claim: String,
}

/// When and by whom a merge request was merged or closed.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct EndRecord {
    at: Timestamp,
    #[serde(default, skip_serializing_if = "is_default")]
    user_id: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    user_incarnation: Incarnation,
}

impl From<EndRecord> for End {
    fn from(record: EndRecord) -> Self {
        let user = record.user_id.map(|id| UserKey { id, incarnation: record.user_incarnation });
        End { at: record.at, user }
    }
}

impl From<&End> for EndRecord {
    fn from(end: &End) -> Self {
        let (user_id, user_incarnation) = split_user(end.user.as_ref());
        EndRecord { at: end.at, user_id, user_incarnation }
    }
}

/// A user as records have them: the incarnation is left out for the first user with the id, as in records of earlier
/// builds.
fn split_user(user: Option<&UserKey>) -> (Option<u64>, Incarnation) {
    (user.map(|user| user.id), user.map(|user| user.incarnation.clone()).unwrap_or_default())
}

impl From<MergeRequestRecord> for MergeRequest {
    fn from(record: MergeRequestRecord) -> Self {
        MergeRequest {
            id: record.id,
            // In a state that this build does not know, nothing may be applied.
            state: MergeRequestState::parse(&record.state).unwrap_or(MergeRequestState::Closed),
            source: record.source_project_id.map(|project| RepositoryId::new(project, &record.source_incarnation)),
            source_branch: record.source_branch,
            target_branch: record.target_branch,
            title: record.title,
            description: record.description,
            author: record.author_id.map(|id| UserKey { id, incarnation: record.author_incarnation }),
            allow_collaboration: record.allow_collaboration,
            created: record.created,
            updated: record.updated,
            ended: record.ended.map(End::from),
            sha: record.sha,
            merged_into: record.merged_into,
        }
    }
}

impl From<&MergeRequest> for MergeRequestRecord {
    fn from(merge_request: &MergeRequest) -> Self {
        let (author_id, author_incarnation) = split_user(merge_request.author.as_ref());
        MergeRequestRecord {
            id: merge_request.id,
            state: merge_request.state.as_str().to_owned(),
            source_project_id: merge_request.source.map(|source| source.project),
            source_incarnation: merge_request.source.map(RepositoryId::incarnation).unwrap_or_default(),
            source_branch: merge_request.source_branch.clone(),
            target_branch: merge_request.target_branch.clone(),
            title: merge_request.title.clone(),
            description: merge_request.description.clone(),
            author_id,
            author_incarnation,
            allow_collaboration: merge_request.allow_collaboration,
            created: merge_request.created,
            updated: merge_request.updated,
            ended: merge_request.ended.as_ref().map(EndRecord::from),
            sha: merge_request.sha.clone(),
            merged_into: merge_request.merged_into,
            claim: String::new(),
        }
    }
}

impl MergeRequestRecord {
    pub fn with_claim(self, claim: &str) -> Self {
        MergeRequestRecord { claim: claim.to_owned(), ..self }
    }
}

/// The merge requests of a project.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MergeRequestListRecord {
    /// A merge request is in the list before its record is written.
    #[serde(default)]
    pub iids: BTreeSet<u64>,
    /// The branches of merge requests that may be open, by iid.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open: BTreeMap<u64, BranchesRecord>,
    /// The request that allocated the last iid, and that iid.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allocated: Option<(String, u64)>,
}

/// The branches of a merge request that may be open: no other one may be opened with them.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct BranchesRecord {
    #[serde(default, skip_serializing_if = "is_default")]
    source_project_id: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    source_incarnation: Incarnation,
    source_branch: String,
    target_branch: String,
    /// Branches that it may have in place of these until its own record is written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub before: Vec<BranchesRecord>,
    /// An id of the attempt to open it, or to give it these branches.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claim: String,
}

impl BranchesRecord {
    pub fn new(branches: &Branches, claim: &str) -> Self {
        BranchesRecord {
            source_project_id: branches.source.map(|source| source.project),
            source_incarnation: branches.source.map(RepositoryId::incarnation).unwrap_or_default(),
            source_branch: branches.source_branch.clone(),
            target_branch: branches.target_branch.clone(),
            before: Vec::new(),
            claim: claim.to_owned(),
        }
    }

    fn branches(&self) -> Branches {
        let source = self.source_project_id.map(|project| RepositoryId::new(project, &self.source_incarnation));
        let (source_branch, target_branch) = (self.source_branch.clone(), self.target_branch.clone());
        Branches { source, source_branch, target_branch }
    }

    /// All branches that it may have.
    pub fn all(&self) -> impl Iterator<Item = Branches> {
        std::iter::once(self).chain(&self.before).map(BranchesRecord::branches)
    }
}

/// A branch or tag. A deleted one is stored as `null`, as is a deleted merge request.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct RefRecord {
    pub commit: ObjectId,
    #[serde(default, skip_serializing_if = "is_default")]
    pub applied: Vec<u64>,
    pub operation: String,
    /// An update together with other refs. Until it is decided, the other fields hold. For a ref that does not exist
    /// yet, they have the new commit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lock: Option<RefLockRecord>,
}

/// The part of one ref in a transaction.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct RefLockRecord {
    pub transaction: String,
    /// `None` deletes the ref.
    #[serde(default, skip_serializing_if = "is_default")]
    pub new: Option<ObjectId>,
    /// Whether the ref does not exist yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_creation: bool,
}

/// How a transaction of refs ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransactionRecord {
    Undecided,
    Committed,
    Aborted,
}

/// The packs of a repository, in the order in which they were added.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PackListRecord {
    pub packs: Vec<PackRecord>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackRecord {
    pub id: String,
    pub objects: u32,
    /// Bytes of the entries.
    pub size: u64,
    /// The objects that reach the others in the pack: new heads of branches, and tags.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tips: Vec<ObjectId>,
    /// Commits of other packs that commits of this pack build on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bases: Vec<ObjectId>,
    /// Whether the tips reach every object of the pack, and earlier packs have the other objects that these need.
    #[serde(default, rename = "is_closed", skip_serializing_if = "is_default")]
    pub is_self_contained: bool,
    /// Whether it is self-contained, with tips and bases in a blob of their own because they are many
    /// ([`PackTipsRecord`]). An earlier build does not take the pack for self-contained.
    #[serde(default, rename = "is_closed_aside", skip_serializing_if = "is_default")]
    pub has_tips_blob: bool,
    /// Whether an earlier pack has some of the objects, too. Packs of earlier builds with such objects are not
    /// self-contained.
    #[serde(default, skip_serializing_if = "is_default")]
    pub has_copies: bool,
    /// The ids of its objects, sorted, if there are few; empty if only the index has them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ids: Vec<ObjectId>,
}

impl PackRecord {
    /// Whether an object can be in the pack, as far as the list tells.
    pub fn may_have(&self, id: ObjectId) -> bool {
        self.ids.is_empty() || self.ids.binary_search(&id).is_ok()
    }

    /// Whether it is self-contained (closed under reachability), with its tips here or in a blob.
    pub fn is_reachability_closed(&self) -> bool {
        self.is_self_contained || self.has_tips_blob
    }
}

/// The tips of a pack, and the commits of other packs that it builds on.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PackTipsRecord {
    pub tips: Vec<ObjectId>,
    pub bases: Vec<ObjectId>,
}

/// Packs that were joined, and are not listed any more.
#[derive(Default, Serialize, Deserialize)]
pub struct ReplacedPacksRecord {
    pub packs: Vec<String>,
}

/// A former value of a branch or tag.
#[derive(Serialize, Deserialize)]
pub struct ReflogRecord {
    project_id: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    incarnation: Incarnation,
    pub commit: ObjectId,
}

impl ReflogRecord {
    pub fn new(repository: RepositoryId, commit: ObjectId) -> Self {
        ReflogRecord { project_id: repository.project, incarnation: repository.incarnation(), commit }
    }

    pub fn repository(&self) -> RepositoryId {
        RepositoryId::new(self.project_id, &self.incarnation)
    }
}

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RefNamesRecord {
    /// The form of format 2; a set before.
    #[serde(default)]
    pub names: Top,
    #[serde(default, skip_serializing_if = "is_default")]
    pub default: Option<String>,
    /// Names of refs that are being created, with the ids of the requests that do it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub creating: BTreeMap<String, BTreeSet<String>>,
    /// The request that has changed the names last. So no later value equals an earlier one. A request that has read
    /// refs meanwhile loses its swap, even if the names are the same as before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub changed_by: String,
}

impl RefNamesRecord {
    /// The number of names. A listed name that is being created counts twice.
    pub fn count(&self) -> usize {
        usize::try_from(self.names.count()).unwrap_or(usize::MAX).saturating_add(self.creating.len())
    }
}

#[derive(Serialize, Deserialize)]
pub struct AppliedRecord {
    pub commit: ObjectId,
    pub operation: String,
}
