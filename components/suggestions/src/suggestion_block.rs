//! Suggestions in a comment's Markdown: fenced blocks labelled `suggestion:-<above>+<below>`.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// How many lines above, and how many below, a suggestion reaches at most.
const MAX_REACH: u32 = 100;

/// A proposed replacement of the lines around the one that was commented on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// Lines above the commented one that are replaced as well, at most 100.
    pub above: u32,
    pub below: u32,
    /// The replacement without the end of its last line; `None` deletes the lines.
    pub text: Option<String>,
}

/// The suggestions of a comment, in order. Blocks with other labels are skipped.
pub fn parse(markdown: &str) -> Vec<Fence> {
    let markdown = markdown.replace("\r\n", "\n");
    let mut fences = Vec::new();
    let mut open: Option<((u32, u32), String)> = None;
    for event in Parser::new(&markdown) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                open = reach(&info).map(|reach| (reach, String::new()));
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
                    fences.push(Fence { above, below, text });
                }
            }
            _ => {}
        }
    }
    fences
}

/// How far a block with this label reaches; `None` if it is no suggestion. What follows the colon
/// and is not understood counts as nothing.
fn reach(label: &str) -> Option<(u32, u32)> {
    let word = label.split_whitespace().next()?;
    let Some(rest) = word.strip_prefix("suggestion:") else {
        return (word == "suggestion").then_some((0, 0));
    };
    Some(offsets(rest).unwrap_or((0, 0)))
}

/// `-<above>`, `+<below>`, or one after the other.
fn offsets(text: &str) -> Option<(u32, u32)> {
    let (above, below) = match text.split_once('+') {
        Some((above, below)) => (above, Some(below)),
        None => (text, None),
    };
    let above = match above {
        "" => 0,
        above => number(above.strip_prefix('-')?)?,
    };
    Some((above, below.map_or(Some(0), number)?))
}

fn number(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // A number that does not fit is larger than any reach.
    is_number.then(|| digits.parse().unwrap_or(MAX_REACH).min(MAX_REACH))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(label: &str) -> Option<(u32, u32)> {
        parse(&format!("```{label}\nx\n```")).first().map(|fence| (fence.above, fence.below))
    }

    #[test]
    fn labels_say_how_far_a_suggestion_reaches() {
        for (label, expected) in [
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
            assert_eq!(labels(label), Some(expected), "{label}");
        }
        for other in ["", "rust", "suggestions", "Suggestion", "xsuggestion", "rust suggestion"] {
            assert_eq!(labels(other), None, "{other}");
        }
    }

    fn texts(markdown: &str) -> Vec<Option<String>> {
        parse(markdown).into_iter().map(|fence| fence.text).collect()
    }

    #[test]
    fn the_text_is_the_blocks_without_its_last_line_end() {
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
    fn nothing_in_the_block_deletes_the_lines() {
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
}
