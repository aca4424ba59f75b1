//! Suggestions: which lines are replaced by which text.

use crate::lines::{self, IndexedFile};
use crate::suggestion_block::SuggestionBlock;
use serde_json::{Value, json};
use std::ops::RangeInclusive;

/// A proposed replacement of lines. The replaced text is not stored, because the repository has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// Unique in the whole service.
    pub id: u64,
    /// From 1.
    pub from_line: u64,
    /// May lie beyond the end of the file.
    pub to_line: u64,
    /// Whether it replaces the commented line only, as it was declared.
    pub single_line: bool,
    pub to_content: String,
}

impl Suggestion {
    /// The suggestion that a block makes in a comment on this line of `file`. Its lines get the line endings of the
    /// replaced lines ([`lines::with_line_endings`]).
    pub fn new(id: u64, block: SuggestionBlock, line: u64, file: &IndexedFile) -> Self {
        let from_line = line.saturating_sub(block.above.into()).max(1);
        let to_line = line.saturating_add(block.below.into());
        let replaced = file.slice(&(from_line..=to_line)).unwrap_or_default();
        let above = file.slice(&(from_line - 1..=from_line - 1)).unwrap_or_default();
        let other = if lines::line_ending(&above) == "\r\n" { "\r\n" } else { "\n" };
        Suggestion {
            id,
            from_line,
            to_line,
            single_line: block.above == 0 && block.below == 0,
            to_content: block.text.map_or(String::new(), |text| lines::with_line_endings(&text, &replaced, other)),
        }
    }

    /// Whether both replace the same lines by the same text.
    pub fn proposes_as(&self, other: &Self) -> bool {
        let place = |one: &Self| (one.from_line, one.to_line, one.single_line);
        place(self) == place(other) && self.to_content == other.to_content
    }

    pub fn lines(&self) -> RangeInclusive<u64> {
        self.from_line..=self.to_line
    }

    /// The suggestion's JSON. `first_line` is where its lines begin now, from 1. The flag has two names: the
    /// documented one, and the one that deployed clients read. Invalid UTF-8 becomes U+FFFD.
    pub fn to_json(&self, first_line: u64, from_content: &[u8], applicable: bool, applied: bool) -> Value {
        json!({
            "id": self.id,
            "from_line": first_line,
            "to_line": first_line.saturating_add(self.to_line.saturating_sub(self.from_line)),
            "applicable": applicable,
            "appliable": applicable,
            "applied": applied,
            "from_content": String::from_utf8_lossy(from_content),
            "to_content": self.to_content,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const FILE: &[u8] = b"one\ntwo\r\nthree\nfour";

    fn made(above: u32, below: u32, text: Option<&str>, line: u64) -> Suggestion {
        let file = IndexedFile::new(Bytes::from_static(FILE));
        Suggestion::new(1, SuggestionBlock { above, below, text: text.map(str::to_owned) }, line, &file)
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
        assert_eq!(made(0, 0, Some("a\nb"), 2).to_content, "a\r\nb\r\n");
        assert_eq!(made(0, 0, Some("a\nb"), 4).to_content, "a\nb", "as the line above, and none at the end");
    }

    #[test]
    fn the_flag_has_both_names() {
        let json = made(1, 0, Some("x"), 2).to_json(5, b"\xfftwo\r\n", true, false);
        let expected = json!({"id": 1, "from_line": 5, "to_line": 6, "applicable": true, "appliable": true,
            "applied": false, "from_content": "\u{fffd}two\r\n", "to_content": "x\r\n"});
        assert_eq!(json, expected);
    }
}
