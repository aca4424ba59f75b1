//! Suggestion blocks in a comment's Markdown: fenced code blocks with the info string
//! `suggestion:-<above>+<below>`.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// The most lines above the commented one, and the most below, that a suggestion replaces.
const MAX_OFFSET: u32 = 100;

/// A proposed replacement of the lines around the one that was commented on.
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
