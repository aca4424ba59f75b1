//! The parameter `search`: which texts have to be found.

use crate::text;

/// The folded texts of a search. White space separates them; what is between double quotes, with
/// white space or an end around these, is one text. White space at its ends does not count.
pub fn terms(search: &str) -> Vec<String> {
    let mut terms = Vec::new();
    let mut rest = search.trim_start();
    while !rest.is_empty() {
        let (term, after) = quoted(rest).unwrap_or_else(|| rest.split_once(char::is_whitespace).unwrap_or((rest, "")));
        let term = term.trim();
        if !term.is_empty() {
            terms.push(text::folded(term));
        }
        rest = after.trim_start();
    }
    terms.sort();
    terms.dedup();
    terms
}

/// What is between the quotes that `text` begins with, and what comes after them.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (inside, after) = text.strip_prefix('"')?.split_once('"')?;
    let is_term = !inside.is_empty() && (after.is_empty() || after.starts_with(char::is_whitespace));
    is_term.then_some((inside, after))
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
            assert_eq!(terms(search), expected, "{search}");
        }
    }
}
