//! Suggestions: what replaces which lines, and when that can be applied.

use crate::suggestion_block::Fence;
use crate::git::Id;
use crate::lines;
use crate::merge_request::State;
use serde_json::{Value, json};
use std::fmt;
use std::ops::RangeInclusive;

/// A proposed replacement of lines. What is replaced is not stored: it is in the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// Unique in the whole service.
    pub id: u64,
    /// From 1.
    pub from_line: u64,
    /// May lie beyond the end of the file.
    pub to_line: u64,
    /// Whether it asks for no line beside the one that was commented on.
    pub single_line: bool,
    pub to_content: String,
}

impl Suggestion {
    /// The suggestion that a comment on this line of `file` makes. The last line's end stays as it
    /// is; lines within the text end as they were typed.
    pub fn new(id: u64, fence: Fence, line: u64, file: &[u8]) -> Self {
        let from_line = line.saturating_sub(fence.above.into()).max(1);
        let to_line = line.saturating_add(fence.below.into());
        let replaced = lines::of(file, &(from_line..=to_line)).unwrap_or_default();
        Suggestion {
            id,
            from_line,
            to_line,
            single_line: fence.above == 0 && fence.below == 0,
            to_content: fence.text.map_or(String::new(), |text| text + lines::ending(replaced)),
        }
    }

    pub fn lines(&self) -> RangeInclusive<u64> {
        self.from_line..=self.to_line
    }

    /// As it is shown. The one flag has two names: the documented one, and the one that deployed
    /// clients read. Bytes that are no UTF-8 are shown as U+FFFD.
    pub fn shown(&self, from_content: &[u8], applicable: bool, applied: bool) -> Value {
        json!({
            "id": self.id,
            "from_line": self.from_line,
            "to_line": self.to_line,
            "applicable": applicable,
            "appliable": applicable,
            "applied": applied,
            "from_content": String::from_utf8_lossy(from_content),
            "to_content": self.to_content,
        })
    }
}

/// All that decides whether a suggestion can be applied now.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    pub suggestion: &'a Suggestion,
    /// The file's path.
    pub path: &'a str,
    /// The lines as they were commented on.
    pub from_content: &'a [u8],
    /// The commit that was commented on.
    pub commit: Id,
    pub applied: bool,
    pub state: State,
    /// The source branch, unless it is gone.
    pub branch: Option<Branch<'a>>,
}

/// The source branch as it is.
#[derive(Debug, Clone, Copy)]
pub struct Branch<'a> {
    pub head: Id,
    /// The contents of the file there; `None` if it is gone. The blob is given instead if it is
    /// the one that was commented on.
    pub file: Option<Current<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub enum Current<'a> {
    Same,
    Changed(&'a [u8]),
}

/// Why a suggestion cannot be applied, in the reference service's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    FileNotFound,
    OtherBranch,
    Applied,
    Merged,
    Closed,
    BranchDeleted,
    LineOutdated,
    LinesOutdated,
    Same,
    Unreadable,
    Moved,
    Overlap,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::FileNotFound => "A file was not found.",
            Reason::OtherBranch => "Suggestions must all be on the same branch.",
            Reason::Applied => "Can't apply this suggestion.",
            Reason::Merged => "This merge request was merged. To apply this suggestion, edit this file directly.",
            Reason::Closed => "This merge request is closed. To apply this suggestion, edit this file directly.",
            Reason::BranchDeleted => "Can't apply as the source branch was deleted.",
            Reason::LineOutdated => "Can't apply as this line was changed in a more recent version.",
            Reason::LinesOutdated => "Can't apply as these lines were changed in a more recent version.",
            Reason::Same => "This suggestion already matches its content.",
            Reason::Unreadable => {
                "This file was modified for readability, and can't accept suggestions. Edit it directly."
            }
            Reason::Moved => "A file has been changed.",
            Reason::Overlap => "Suggestions are not applicable as their lines cannot overlap.",
        })
    }
}

impl Circumstances<'_> {
    /// Why this suggestion, seen alone, cannot be applied. This is what its flag tells.
    pub fn inapplicable(&self) -> Option<Reason> {
        let Circumstances { suggestion, from_content, .. } = self;
        let is_outdated = |branch: Branch| match branch.file {
            None => true,
            Some(Current::Same) => false,
            Some(Current::Changed(file)) => lines::of(file, &suggestion.lines()) != Some(from_content),
        };
        match (self.applied, self.state, self.branch) {
            (true, ..) => Some(Reason::Applied),
            (_, State::Merged, _) => Some(Reason::Merged),
            (_, State::Closed, _) => Some(Reason::Closed),
            (.., None) => Some(Reason::BranchDeleted),
            (.., Some(branch)) if is_outdated(branch) => {
                Some(if suggestion.single_line { Reason::LineOutdated } else { Reason::LinesOutdated })
            }
            _ if suggestion.to_content.as_bytes() == *from_content => Some(Reason::Same),
            _ if self.path.ends_with("ipynb") => Some(Reason::Unreadable),
            _ => None,
        }
    }

    /// Why it cannot be applied to the branch on which the others of its batch are;
    /// `same_branch` tells whether it is on that one.
    pub fn refusal(&self, same_branch: bool) -> Option<Reason> {
        if self.branch.is_some_and(|branch| branch.file.is_none()) {
            return Some(Reason::FileNotFound);
        }
        if !same_branch {
            return Some(Reason::OtherBranch);
        }
        let moved = self.branch.is_some_and(|branch| branch.head != self.commit);
        self.inapplicable().or(moved.then_some(Reason::Moved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = b"one\ntwo\r\nthree\nfour";

    fn made(above: u32, below: u32, text: Option<&str>, line: u64) -> Suggestion {
        Suggestion::new(1, Fence { above, below, text: text.map(str::to_owned) }, line, FILE)
    }

    #[test]
    fn lines_are_clamped_at_the_beginning_and_the_last_lines_end_is_kept() {
        for (above, below, line, from, to, content) in [
            (0, 0, 1, 1, 1, "x\n"),
            (0, 0, 2, 2, 2, "x\r\n"),
            (0, 0, 4, 4, 4, "x"),
            (5, 0, 2, 1, 2, "x\r\n"),
            (1, 1, 2, 1, 3, "x\n"),
            (0, 100, 3, 3, 103, "x"),
        ] {
            let made = made(above, below, Some("x"), line);
            assert_eq!((made.from_line, made.to_line, made.to_content.as_str()), (from, to, content));
            assert_eq!(made.single_line, above + below == 0);
        }
        assert_eq!(made(0, 0, None, 2).to_content, "");
        assert_eq!(made(0, 0, Some("a\nb"), 2).to_content, "a\nb\r\n");
    }

    fn id(byte: u8) -> Id {
        Id::new([byte; 20])
    }

    fn fine(suggestion: &Suggestion) -> Circumstances<'_> {
        Circumstances {
            suggestion,
            path: "src/a.rs",
            from_content: b"two\r\n",
            commit: id(1),
            applied: false,
            state: State::Opened,
            branch: Some(Branch { head: id(1), file: Some(Current::Same) }),
        }
    }

    #[test]
    fn each_reason_in_its_order() {
        let one = made(0, 0, Some("x"), 2);
        let many = Suggestion { single_line: false, ..one.clone() };
        let same = made(0, 0, Some("two"), 2);
        let fine = fine(&one);
        assert_eq!((fine.inapplicable(), fine.refusal(true)), (None, None));

        // From the weakest reason to the strongest; each is set on top of those before.
        let mut case = fine;
        case.branch = Some(Branch { head: id(2), file: Some(Current::Changed(b"0\ntwo\r\nmore")) });
        assert_eq!((case.inapplicable(), case.refusal(true)), (None, Some(Reason::Moved)));
        case.path = "book.ipynb";
        assert_eq!(case.refusal(true), Some(Reason::Unreadable));
        case.suggestion = &same;
        assert_eq!(case.refusal(true), Some(Reason::Same));
        case.branch = Some(Branch { head: id(2), file: Some(Current::Changed(b"two\r\n")) });
        assert_eq!(case.refusal(true), Some(Reason::LineOutdated));
        case.suggestion = &many;
        assert_eq!(case.refusal(true), Some(Reason::LinesOutdated));
        case.branch = None;
        assert_eq!(case.refusal(true), Some(Reason::BranchDeleted));
        case.state = State::Closed;
        assert_eq!(case.refusal(true), Some(Reason::Closed));
        case.state = State::Merged;
        assert_eq!(case.refusal(true), Some(Reason::Merged));
        case.applied = true;
        assert_eq!((case.inapplicable(), case.refusal(true)), (Some(Reason::Applied), Some(Reason::Applied)));
        assert_eq!(case.refusal(false), Some(Reason::OtherBranch));
        case.branch = Some(Branch { head: id(1), file: None });
        assert_eq!(case.refusal(false), Some(Reason::FileNotFound));
    }

    #[test]
    fn a_file_that_is_gone_is_an_outdated_line_to_the_flag() {
        let one = made(0, 0, Some("x"), 2);
        let gone = Circumstances { branch: Some(Branch { head: id(2), file: None }), ..fine(&one) };
        assert_eq!(gone.inapplicable(), Some(Reason::LineOutdated));
        assert_eq!(Circumstances { state: State::Locked, ..fine(&one) }.refusal(true), None);
    }

    #[test]
    fn both_names_of_the_flag_are_shown() {
        let shown = made(0, 0, Some("x"), 2).shown(b"\xfftwo\r\n", true, false);
        assert_eq!(
            shown,
            json!({"id": 1, "from_line": 2, "to_line": 2, "applicable": true, "appliable": true,
                "applied": false, "from_content": "\u{fffd}two\r\n", "to_content": "x\r\n"})
        );
    }
}
