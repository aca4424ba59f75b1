//! Suggestions: which lines are replaced by which text.
//!
//! Suggestion blocks in a comment's Markdown: fenced code blocks with the info string `suggestion:-<above>+<below>`.

use crate::lines::{self, IndexedFile};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::ops::RangeInclusive;

/// A proposed replacement of lines. The replaced text is not stored, because the repository has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// Unique in the whole service.
    pub id: u64,
    /// From 1.
    pub from_line: u64,
    /// May lie beyond the end of the file.
    pub to_line: u64,
    /// Whether it replaces the commented line only, as it was declared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
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

/// The most lines above the commented one, and the most below, that a suggestion replaces.
const MAX_OFFSET: u32 = 100;

/// A proposed replacement of the commented line and of lines around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuggestionBlock {
    /// How many lines above the commented one are replaced as well, at most 100.
    pub above: u32,
    /// As `above`.
    pub below: u32,
    /// The replacement without its last line ending; `None` deletes the lines.
    pub text: Option<String>,
}

/// The suggestion blocks of a comment, in order. Other code blocks are skipped. A comment whose blocks are nested
/// beyond [`kit::markdown`]'s bound has none.
pub fn parse(markdown: &str) -> Vec<SuggestionBlock> {
    if kit::markdown::is_deep(markdown) {
        return Vec::new();
    }
    let markdown = markdown.replace("\r\n", "\n");
    let mut blocks = Vec::new();
    let mut open: Option<((u32, u32), String)> = None;
    for event in Parser::new(&markdown) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                open = parse_info(&info).map(|offsets| (offsets, String::new()));
            }
            Event::Text(text) => {
                if let Some((_, content)) = &mut open {
                    content.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                if let Some(((above, below), content)) = open.take() {
                    let text = content.strip_suffix('\n').unwrap_or(&content);
                    let text = (!text.trim().is_empty()).then(|| text.to_owned());
                    blocks.push(SuggestionBlock { above, below, text });
                }
            }
            _ => {}
        }
    }
    blocks
}

/// The lines above and below that an info string names; `None` if it is not a suggestion's. Malformed offsets count as
/// 0.
fn parse_info(info: &str) -> Option<(u32, u32)> {
    let word = info.split_whitespace().next()?;
    let Some(rest) = word.strip_prefix("suggestion:") else {
        return (word == "suggestion").then_some((0, 0));
    };
    Some(parse_offsets(rest).unwrap_or((0, 0)))
}

/// Parses `-<above>`, `+<below>`, or one after the other.
fn parse_offsets(text: &str) -> Option<(u32, u32)> {
    let (above, below) = match text.split_once('+') {
        Some((above, below)) => (above, Some(below)),
        None => (text, None),
    };
    let above = match above {
        "" => 0,
        above => parse_offset(above.strip_prefix('-')?)?,
    };
    Some((above, below.map_or(Some(0), parse_offset)?))
}

fn parse_offset(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // A number that does not fit is larger than the bound.
    is_number.then(|| digits.parse().unwrap_or(MAX_OFFSET).min(MAX_OFFSET))
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

#[cfg(test)]
mod suggestion_block_tests {
    use super::*;

    fn offsets(info: &str) -> Option<(u32, u32)> {
        parse(&format!("```{info}\nx\n```")).first().map(|block| (block.above, block.below))
    }

    #[test]
    fn info_strings_name_the_lines_above_and_below() {
        for (info, expected) in [
            ("suggestion", (0, 0)),
            ("suggestion:-0+0", (0, 0)),
            ("suggestion:-3", (3, 0)),
            ("suggestion:+3", (0, 3)),
            ("suggestion:-2+1", (2, 1)),
            ("suggestion:-100+100", (100, 100)),
            ("suggestion:-101+5000", (100, 100)),
            ("suggestion:-99999999999999999999+1", (100, 1)),
            ("suggestion:", (0, 0)),
            ("suggestion:+1-2", (0, 0)),
            ("suggestion:-a+1", (0, 0)),
            ("suggestion:-+1", (0, 0)),
            ("suggestion:2+1", (0, 0)),
            ("suggestion:-1+1+1", (0, 0)),
            (" suggestion:-1+1 and more", (1, 1)),
        ] {
            assert_eq!(offsets(info), Some(expected), "{info}");
        }
        for other in ["", "rust", "suggestions", "Suggestion", "xsuggestion", "rust suggestion"] {
            assert_eq!(offsets(other), None, "{other}");
        }
    }

    fn texts(markdown: &str) -> Vec<Option<String>> {
        parse(markdown).into_iter().map(|block| block.text).collect()
    }

    #[test]
    fn the_text_is_the_blocks_without_its_last_line_ending() {
        let some = |text: &str| vec![Some(text.to_owned())];
        assert_eq!(texts("```suggestion\na\n```"), some("a"));
        assert_eq!(texts("```suggestion\n  a\n\n  b\n\n```"), some("  a\n\n  b\n"));
        assert_eq!(texts("please:\r\n\r\n```suggestion\r\na\r\nb\r\n```\r\n"), some("a\nb"));
        assert_eq!(texts("````suggestion\n```\ncode\n```\n````"), some("```\ncode\n```"));
        assert_eq!(texts("~~~suggestion\na\n~~~"), some("a"));
        assert_eq!(texts("```suggestion\nnever closed"), some("never closed"));
        assert_eq!(texts("```suggestion\n&amp; <b> *x* \\n\n```"), some("&amp; <b> *x* \\n"));
        assert_eq!(texts("- item\n\n  ```suggestion\n  in a list\n  ```"), some("in a list"));
        assert_eq!(texts("> ```suggestion\n> quoted\n> ```"), some("quoted"));
    }

    #[test]
    fn a_blank_block_deletes_the_lines() {
        for empty in ["```suggestion\n```", "```suggestion\n\n```", "```suggestion\n  \t\n \n```"] {
            assert_eq!(texts(empty), [None], "{empty:?}");
        }
    }

    #[test]
    fn several_suggestions_come_in_order_and_other_code_is_skipped() {
        let comment =
            "```suggestion\n1\n```\ntext\n```rust\n2\n```\n```suggestion:-1\n3\n```\n\n    suggestion\n\n`suggestion`";
        assert_eq!(texts(comment), [Some("1".into()), Some("3".into())]);
        assert_eq!(texts("no code"), []);
    }

    /// Without the bound this takes minutes.
    #[test]
    fn blocks_deep_in_each_other_have_no_suggestions() {
        let suggestion = "\n\n```suggestion\na\n```\n";
        assert_eq!(texts(&("> ".repeat(100_000) + "a\n" + &"b\n".repeat(300_000) + suggestion)), []);
        assert_eq!(texts(&("> ".repeat(30) + "a" + suggestion)), [Some("a".into())]);
    }
}
