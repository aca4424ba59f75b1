//! Merge requests: what suggestions depend on. They are imported.

/// A merge request, which is identified by its target project and its iid there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeRequest {
    /// Unique in the whole service.
    pub id: u64,
    pub state: MergeRequestState,
    /// The target project itself or a fork; `None` if the fork was deleted.
    pub source_project_id: Option<u64>,
    pub source_branch: String,
    pub target_branch: String,
    pub title: String,
    pub author_id: Option<u64>,
    /// Whether users who may push to the target branch may push to the source branch.
    pub allow_collaboration: bool,
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
