//! Merge requests, as far as suggestions ask about them. They are imported.

/// A merge request; its project and its number there are its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeRequest {
    /// Unique in the whole service.
    pub id: u64,
    pub state: State,
    /// Where the commits come from: the project itself, or a fork; none if the fork is gone.
    pub source_project_id: Option<u64>,
    pub source_branch: String,
    pub target_branch: String,
    pub title: String,
    pub author_id: Option<u64>,
    /// Whether those who may push to the target project may push to the source branch.
    pub allow_collaboration: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Opened,
    Closed,
    Merged,
    /// Being merged at this moment.
    Locked,
}

impl State {
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "opened" => Some(State::Opened),
            "closed" => Some(State::Closed),
            "merged" => Some(State::Merged),
            "locked" => Some(State::Locked),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            State::Opened => "opened",
            State::Closed => "closed",
            State::Merged => "merged",
            State::Locked => "locked",
        }
    }
}
