//! The parameter `search`.

use crate::text;

/// The folded texts that an issue must contain. White space separates them. A text in double quotes may contain white
/// space. The quotes must be at the ends of `search` or beside white space. White space at the ends of a text is
/// ignored.
pub fn substrings(search: &str) -> Vec<String> {
    let mut substrings = Vec::new();
    let mut rest = search.trim_start();
    while !rest.is_empty() {
        let (substring, after) =
            quoted(rest).unwrap_or_else(|| rest.split_once(char::is_whitespace).unwrap_or((rest, "")));
        let substring = substring.trim();
        if !substring.is_empty() {
            substrings.push(text::folded(substring));
        }
        rest = after.trim_start();
    }
    substrings.sort();
    substrings.dedup();
    substrings
}

/// The quoted text at the beginning of `text`, and the remaining text.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (inside, after) = text.strip_prefix('"')?.split_once('"')?;
    let is_quoted = !inside.is_empty() && (after.is_empty() || after.starts_with(char::is_whitespace));
    is_quoted.then_some((inside, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_phrases() {
        for (search, expected) in [
            ("", vec![]),
            ("  \t ", vec![]),
            ("Login  ERROR", vec!["error", "login"]),
            ("a a", vec!["a"]),
            ("\"Login error\" x", vec!["login error", "x"]),
            ("x \"a  b\"", vec!["a  b", "x"]),
            ("\" a b \"", vec!["a b"]),
            ("\"open", vec!["\"open"]),
            ("a\"b c\"", vec!["a\"b", "c\""]),
            ("\"a b\"c", vec!["\"a", "b\"c"]),
            ("\"\"", vec!["\"\""]),
            ("\" \"", vec![]),
            ("ÄÖ", vec!["äö"]),
        ] {
            assert_eq!(substrings(search), expected, "{search}");
        }
    }
}
