//! Merge requests.

use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use directory::user::UserKey;
use kit::Timestamp;

/// A merge request, which is identified by its target project and its iid there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeRequest {
    /// Unique in the whole service.
    pub id: u64,
    pub state: MergeRequestState,
    /// The repository of the target project itself or of a fork; `None` if the fork was deleted.
    pub source: Option<RepositoryId>,
    pub source_branch: String,
    pub target_branch: String,
    pub title: String,
    pub description: Option<String>,
    pub author: Option<UserKey>,
    /// Whether users who may push to the target branch may push to the source branch.
    pub allow_collaboration: bool,
    /// Not known of merge requests that an earlier build imported.
    pub created: Option<Timestamp>,
    pub updated: Option<Timestamp>,
    /// Of a merged or closed one.
    pub ended: Option<End>,
    /// The head of the source branch when it was merged, closed or last deleted. If it is open and its branch exists,
    /// the branch has the head.
    pub sha: Option<String>,
    /// The head of the target branch before a merge. Not known if it was imported as merged.
    pub merged_into: Option<ObjectId>,
}

/// When a merge request was merged or closed, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub at: Timestamp,
    pub user: Option<UserKey>,
}

/// Which branch is to be merged into which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branches {
    /// As [`MergeRequest::source`].
    pub source: Option<RepositoryId>,
    pub source_branch: String,
    /// Of the target project.
    pub target_branch: String,
}

impl MergeRequest {
    pub fn branches(&self) -> Branches {
        Branches {
            source: self.source,
            source_branch: self.source_branch.clone(),
            target_branch: self.target_branch.clone(),
        }
    }

    /// Whether it can still be merged.
    pub fn is_open(&self) -> bool {
        matches!(self.state, MergeRequestState::Opened | MergeRequestState::Locked)
    }

    /// Whether its title says that it is not ready.
    pub fn is_draft(&self) -> bool {
        let title = self.title.trim_start().to_lowercase();
        ["draft:", "[draft]", "(draft)"].iter().any(|mark| title.starts_with(mark))
    }

    /// When it was merged, and by whom; `None` unless it was.
    pub fn merged(&self) -> Option<&End> {
        self.ended.as_ref().filter(|_| self.state == MergeRequestState::Merged)
    }

    /// Closes an open merge request, or reopens a closed one; a request for its present state changes nothing.
    pub fn set_open(&mut self, open: bool, now: Timestamp, user: &UserKey) {
        match (open, self.state) {
            (false, MergeRequestState::Opened) => {
                self.state = MergeRequestState::Closed;
                self.ended = Some(End { at: now, user: Some(user.clone()) });
            }
            (true, MergeRequestState::Closed) => {
                self.state = MergeRequestState::Opened;
                self.ended = None;
            }
            _ => {}
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeRequestState {
    Opened,
    Closed,
    Merged,
    /// A merge is in progress.
    Locked,
}

impl MergeRequestState {
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "opened" => Some(MergeRequestState::Opened),
            "closed" => Some(MergeRequestState::Closed),
            "merged" => Some(MergeRequestState::Merged),
            "locked" => Some(MergeRequestState::Locked),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            MergeRequestState::Opened => "opened",
            MergeRequestState::Closed => "closed",
            MergeRequestState::Merged => "merged",
            MergeRequestState::Locked => "locked",
        }
    }
}
