//! Whether a suggestion can be applied, and why not.

use crate::git::ObjectId;
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
    /// The commit that was commented on.
    pub commit: ObjectId,
    pub applied: bool,
    pub state: MergeRequestState,
    /// The source branch; `None` if it was deleted.
    pub branch: Option<BranchState<'a>>,
}

/// The present state of the source branch.
#[derive(Debug, Clone, Copy)]
pub struct BranchState<'a> {
    pub head: ObjectId,
    /// The file at the head; `None` if there is none.
    pub file: Option<FileAtHead<'a>>,
}

/// A file at the head of the source branch, compared with the commit that was commented on.
#[derive(Debug, Clone, Copy)]
pub enum FileAtHead<'a> {
    /// The same blob.
    Unchanged,
    /// The suggestion's lines at the head; `None` if the file does not reach that far.
    Changed(Option<&'a [u8]>),
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
    HeadMoved,
    OverlappingLines,
}

impl fmt::Display for InapplicableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
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
            InapplicableReason::HeadMoved => "A file has been changed.",
            InapplicableReason::OverlappingLines => "Suggestions are not applicable as their lines cannot overlap.",
        })
    }
}

impl ApplicabilityInputs<'_> {
    /// Why this suggestion alone cannot be applied; the flag `applicable` is true if there is no reason.
    pub fn inapplicable_reason(&self) -> Option<InapplicableReason> {
        let ApplicabilityInputs { suggestion, from_content, .. } = *self;
        let is_outdated = |branch: BranchState| match branch.file {
            None => true,
            Some(FileAtHead::Unchanged) => false,
            Some(FileAtHead::Changed(lines)) => lines != Some(from_content),
        };
        match (self.applied, self.state, self.branch) {
            (true, ..) => Some(InapplicableReason::AlreadyApplied),
            (_, MergeRequestState::Merged, _) => Some(InapplicableReason::Merged),
            (_, MergeRequestState::Closed, _) => Some(InapplicableReason::Closed),
            (.., None) => Some(InapplicableReason::BranchDeleted),
            (.., Some(branch)) if is_outdated(branch) => Some(if suggestion.single_line {
                InapplicableReason::LineOutdated
            } else {
                InapplicableReason::LinesOutdated
            }),
            _ if suggestion.to_content.as_bytes() == from_content => Some(InapplicableReason::NoChange),
            _ if self.path.ends_with("ipynb") => Some(InapplicableReason::RenderedNotebook),
            _ => None,
        }
    }

    /// Why it cannot be applied within a batch; `same_branch` tells whether its source branch is the
    /// batch's.
    pub fn refusal_reason(&self, same_branch: bool) -> Option<InapplicableReason> {
        if self.branch.is_some_and(|branch| branch.file.is_none()) {
            return Some(InapplicableReason::FileNotFound);
        }
        if !same_branch {
            return Some(InapplicableReason::OtherBranch);
        }
        let is_head_moved = self.branch.is_some_and(|branch| branch.head != self.commit);
        self.inapplicable_reason().or(is_head_moved.then_some(InapplicableReason::HeadMoved))
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

    fn id(byte: u8) -> ObjectId {
        ObjectId::new([byte; 20])
    }

    fn applicable(suggestion: &Suggestion) -> ApplicabilityInputs<'_> {
        ApplicabilityInputs {
            suggestion,
            path: "src/a.rs",
            from_content: b"two\r\n",
            commit: id(1),
            applied: false,
            state: MergeRequestState::Opened,
            branch: Some(BranchState { head: id(1), file: Some(FileAtHead::Unchanged) }),
        }
    }

    #[test]
    fn the_strongest_reason_is_reported() {
        let one = suggestion("x");
        let many = Suggestion { single_line: false, ..one.clone() };
        let same = suggestion("two");
        let applicable = applicable(&one);
        assert_eq!((applicable.inapplicable_reason(), applicable.refusal_reason(true)), (None, None));

        // From the weakest reason to the strongest; each adds to those before.
        let mut case = applicable;
        case.branch = Some(BranchState { head: id(2), file: Some(FileAtHead::Changed(Some(b"two\r\n"))) });
        assert_eq!(
            (case.inapplicable_reason(), case.refusal_reason(true)),
            (None, Some(InapplicableReason::HeadMoved))
        );
        case.path = "book.ipynb";
        assert_eq!(case.refusal_reason(true), Some(InapplicableReason::RenderedNotebook));
        case.suggestion = &same;
        assert_eq!(case.refusal_reason(true), Some(InapplicableReason::NoChange));
        case.branch = Some(BranchState { head: id(2), file: Some(FileAtHead::Changed(Some(b"to\r\n"))) });
        assert_eq!(case.refusal_reason(true), Some(InapplicableReason::LineOutdated));
        case.suggestion = &many;
        assert_eq!(case.refusal_reason(true), Some(InapplicableReason::LinesOutdated));
        case.branch = None;
        assert_eq!(case.refusal_reason(true), Some(InapplicableReason::BranchDeleted));
        case.state = MergeRequestState::Closed;
        assert_eq!(case.refusal_reason(true), Some(InapplicableReason::Closed));
        case.state = MergeRequestState::Merged;
        assert_eq!(case.refusal_reason(true), Some(InapplicableReason::Merged));
        case.applied = true;
        assert_eq!(
            (case.inapplicable_reason(), case.refusal_reason(true)),
            (Some(InapplicableReason::AlreadyApplied), Some(InapplicableReason::AlreadyApplied))
        );
        assert_eq!(case.refusal_reason(false), Some(InapplicableReason::OtherBranch));
        case.branch = Some(BranchState { head: id(1), file: None });
        assert_eq!(case.refusal_reason(false), Some(InapplicableReason::FileNotFound));
    }

    #[test]
    fn the_flag_reports_a_deleted_file_as_an_outdated_line() {
        let one = suggestion("x");
        let deleted = ApplicabilityInputs { branch: Some(BranchState { head: id(2), file: None }), ..applicable(&one) };
        assert_eq!(deleted.inapplicable_reason(), Some(InapplicableReason::LineOutdated));
        assert_eq!(
            ApplicabilityInputs { state: MergeRequestState::Locked, ..applicable(&one) }.refusal_reason(true),
            None
        );
    }
}
