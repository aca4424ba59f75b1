//! Fenced blocks that a page shows in its own way, such as suggestions.

use super::budget::{Budget, STEPS_PER_NODE};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

/// A comment without its blocks of suggestions, as the API finds them. If finding them costs too much, the comment
/// stays whole.
pub fn without_suggestions(text: &str, budget: &Budget) -> String {
    let text = text.replace("\r\n", "\n");
    budget
        .spend(|meter| {
            meter.spend(text.len())?;
            if kit::markdown::is_deep(&text) {
                return None;
            }
            let (mut kept, mut end) = (String::new(), 0);
            for (event, range) in Parser::new(&text).into_offset_iter() {
                meter.spend(STEPS_PER_NODE / 4)?;
                if matches!(event, Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) if is_suggestion(&info)) {
                    kept.push_str(text.get(end..range.start)?);
                    end = range.end;
                }
            }
            kept.push_str(text.get(end..)?);
            Some(kept)
        })
        .unwrap_or(text)
}

/// Whether a block with this info string is a suggestion: `suggestion`, or `suggestion:` with lines.
fn is_suggestion(info: &str) -> bool {
    let word = info.split_whitespace().next().unwrap_or_default();
    word == "suggestion" || word.starts_with("suggestion:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_suggestions_are_left_out() {
        for (text, expected) in [
            (
                "Shorter:\n```suggestion:-0+1\nx\n```\nand\n```js\nkeep();\n```\n````suggestion\n```\n````\nend",
                "Shorter:\n\nand\n```js\nkeep();\n```\n\nend",
            ),
            ("a\r\n~~~ suggestion and more\r\nb\r\n~~~\r\nc", "a\n\nc"),
            ("- item\n\n  ```suggestion\n  a\n  ```\n\n  after", "- item\n\n  \n\n  after"),
            ("```suggestion\nnever closed", ""),
        ] {
            assert_eq!(without_suggestions(text, &Budget::default()), expected, "{text}");
        }
        for text in [
            "Text before\n\n    ```suggestion\n    code\n\nafter",
            "```suggestions-of-mine\na\n```",
            "```js\n~~~suggestion\n```\nafter",
            "`suggestion`",
        ] {
            assert_eq!(without_suggestions(text, &Budget::default()), text);
        }
        let costly = ">".repeat(1000) + "a\n```suggestion\nb\n```";
        assert_eq!(without_suggestions(&costly, &Budget::default()), costly);
    }
}
