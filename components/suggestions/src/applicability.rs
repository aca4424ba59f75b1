//! Whether a suggestion can be applied, and why not.

use crate::merge_request::MergeRequestState;
use crate::suggestion::Suggestion;
use std::fmt;

/// The inputs of the decision whether a suggestion can be applied now.
#[derive(Debug, Clone, Copy)]
pub struct ApplicabilityInputs<'a> {
    pub suggestion: &'a Suggestion,
    /// The file's path.
    pub path: &'a str,
    /// The lines that are replaced, at the commit that was commented on.
    pub from_content: &'a [u8],
    pub applied: bool,
    pub state: MergeRequestState,
    /// The state of those lines at the head of the source branch; `None` if the branch was deleted.
    pub lines_at_head: Option<LinesAtHead>,
    /// Whether git takes the file for a binary one, at the commit that was commented on or at the head.
    pub is_binary: bool,
    /// Whether the source branch is the one that the commit is made on.
    pub same_branch: bool,
    /// git's objection to the changed file, if it has one.
    pub disallowed: Option<&'static str>,
}

/// The state of a suggestion's lines at the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinesAtHead {
    /// The head has them, perhaps under other numbers, or in a file of another path.
    Unchanged,
    Changed,
    /// The head does not have the file.
    FileMissing,
}

/// Why a suggestion cannot be applied. The texts are the reference service's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InapplicableReason {
    FileNotFound,
    OtherBranch,
    AlreadyApplied,
    Merged,
    Closed,
    BranchDeleted,
    LineOutdated,
    LinesOutdated,
    NoChange,
    /// The diff of a notebook is rendered, so that its lines are not those of the file.
    RenderedNotebook,
    /// The lines of such a file mean nothing, and its text is not UTF-8.
    BinaryFile,
    /// git would not read the changed file, or would run a program that it names: why, in git's words.
    DisallowedContents(&'static str),
    /// Other requests moved the branch on every attempt to make the commit.
    HeadMoved,
    OverlappingLines,
}

impl fmt::Display for InapplicableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InapplicableReason::DisallowedContents(why) => return write!(f, "git would refuse this file: {why}."),
            InapplicableReason::FileNotFound => "A file was not found.",
            InapplicableReason::OtherBranch => "Suggestions must all be on the same branch.",
            InapplicableReason::AlreadyApplied => "Can't apply this suggestion.",
            InapplicableReason::Merged => {
                "This merge request was merged. To apply this suggestion, edit this file directly."
            }
            InapplicableReason::Closed => {
                "This merge request is closed. To apply this suggestion, edit this file directly."
            }
            InapplicableReason::BranchDeleted => "Can't apply as the source branch was deleted.",
            InapplicableReason::LineOutdated => "Can't apply as this line was changed in a more recent version.",
            InapplicableReason::LinesOutdated => "Can't apply as these lines were changed in a more recent version.",
            InapplicableReason::NoChange => "This suggestion already matches its content.",
            InapplicableReason::RenderedNotebook => {
                "This file was modified for readability, and can't accept suggestions. Edit it directly."
            }
            InapplicableReason::BinaryFile => "This file is binary, and can't accept suggestions. Edit it directly.",
            InapplicableReason::HeadMoved => "A file has been changed.",
            InapplicableReason::OverlappingLines => "Suggestions are not applicable as their lines cannot overlap.",
        })
    }
}

impl ApplicabilityInputs<'_> {
    /// The first reason why the suggestion cannot be applied, in the order of the reference service. `None` if it can:
    /// then the flag `applicable` is true, and a request that applies it succeeds.
    pub fn inapplicable_reason(&self) -> Option<InapplicableReason> {
        let ApplicabilityInputs { suggestion, from_content, .. } = *self;
        if self.lines_at_head == Some(LinesAtHead::FileMissing) {
            return Some(InapplicableReason::FileNotFound);
        }
        if !self.same_branch {
            return Some(InapplicableReason::OtherBranch);
        }
        match (self.applied, self.state, self.lines_at_head) {
            (true, ..) => Some(InapplicableReason::AlreadyApplied),
            (_, MergeRequestState::Merged, _) => Some(InapplicableReason::Merged),
            (_, MergeRequestState::Closed, _) => Some(InapplicableReason::Closed),
            (.., None) => Some(InapplicableReason::BranchDeleted),
            (.., Some(LinesAtHead::Changed)) if suggestion.single_line => Some(InapplicableReason::LineOutdated),
            (.., Some(LinesAtHead::Changed)) => Some(InapplicableReason::LinesOutdated),
            _ if suggestion.to_content.as_bytes() == from_content => Some(InapplicableReason::NoChange),
            _ if self.is_binary => Some(InapplicableReason::BinaryFile),
            _ if self.path.ends_with("ipynb") => Some(InapplicableReason::RenderedNotebook),
            _ => self.disallowed.map(InapplicableReason::DisallowedContents),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::IndexedFile;
    use crate::suggestion_block::SuggestionBlock;

    fn suggestion(text: &str) -> Suggestion {
        let block = SuggestionBlock { above: 0, below: 0, text: Some(text.to_owned()) };
        Suggestion::new(1, block, 2, &IndexedFile::new("one\ntwo\r\nthree\nfour".into()))
    }

    fn applicable(suggestion: &Suggestion) -> ApplicabilityInputs<'_> {
        ApplicabilityInputs {
            suggestion,
            path: "src/a.rs",
            from_content: b"two\r\n",
            applied: false,
            state: MergeRequestState::Opened,
            lines_at_head: Some(LinesAtHead::Unchanged),
            is_binary: false,
            same_branch: true,
            disallowed: None,
        }
    }

    #[test]
    fn the_strongest_reason_is_reported() {
        let one = suggestion("x");
        let many = Suggestion { single_line: false, ..one.clone() };
        let same = suggestion("two");
        let mut case = applicable(&one);
        assert_eq!(case.inapplicable_reason(), None);
        case.state = MergeRequestState::Locked;
        assert_eq!(case.inapplicable_reason(), None);

        // From the weakest reason to the strongest; each adds to those before.
        case.disallowed = Some("gitmodulesUrl: disallowed submodule url");
        let refusal = case.inapplicable_reason().unwrap().to_string();
        assert_eq!(refusal, "git would refuse this file: gitmodulesUrl: disallowed submodule url.");
        case.path = "book.ipynb";
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::RenderedNotebook));
        case.is_binary = true;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::BinaryFile));
        case.suggestion = &same;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::NoChange));
        case.lines_at_head = Some(LinesAtHead::Changed);
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::LineOutdated));
        case.suggestion = &many;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::LinesOutdated));
        case.lines_at_head = None;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::BranchDeleted));
        case.state = MergeRequestState::Closed;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::Closed));
        case.state = MergeRequestState::Merged;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::Merged));
        case.applied = true;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::AlreadyApplied));
        case.same_branch = false;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::OtherBranch));
        case.lines_at_head = Some(LinesAtHead::FileMissing);
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::FileNotFound));
    }
}
