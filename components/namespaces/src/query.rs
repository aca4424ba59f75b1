//! Search queries.
//!
//! A query is a list of words; letter case does not matter. A text in double quotes is one word. All words of at least
//! three characters must occur in the same text, and shorter words are ignored. If all words are shorter, the query
//! must equal the whole text.

/// The shortest word that a search looks for, in characters.
const MIN_WORD: usize = 3;

/// A query, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Query {
    /// The text contains all of these words.
    Words(Vec<String>),
    /// The text equals this one.
    Whole(String),
}

impl Query {
    /// Parses a query; `None` if it is blank.
    pub fn parse(text: &str) -> Option<Self> {
        Self::of_words(text, MIN_WORD)
    }

    /// The same, but keeps words of any length, for short lists.
    pub fn parse_any_length(text: &str) -> Option<Self> {
        Self::of_words(text, 1)
    }

    fn of_words(text: &str, shortest: usize) -> Option<Self> {
        let text = lower(&text.split_whitespace().collect::<Vec<_>>().join(" "));
        if text.is_empty() {
            return None;
        }
        let mut words = words(&text);
        words.retain(|word| word.chars().count() >= shortest);
        Some(if words.is_empty() { Query::Whole(text) } else { Query::Words(words) })
    }

    /// Whether a lower-case text matches.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Query::Words(words) => words.iter().all(|word| text.contains(word.as_str())),
            Query::Whole(whole) => text == whole,
        }
    }
}

/// Lower case, character by character. So a part of a text maps to a part of the result.
pub fn lower(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.chars().flat_map(char::to_lowercase).collect() }
}

/// The words of a text: separated by spaces, or in quotes that are at the ends of words.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('"').and_then(|after| {
            let (inside, after) = after.split_once('"')?;
            let ends = after.is_empty() || after.starts_with(' ');
            (ends && !inside.is_empty()).then_some((inside.trim(), after))
        });
        let (word, after) = quoted.unwrap_or_else(|| rest.split_at(rest.find(' ').unwrap_or(rest.len())));
        if !word.is_empty() {
            words.push(word.to_owned());
        }
        rest = after.trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        match Query::parse(text) {
            Some(Query::Words(words)) => words,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn long_words_are_looked_for_and_short_ones_dropped() {
        assert_eq!(words("Acme"), ["acme"]);
        assert_eq!(words("  of  the   ACME x "), ["the", "acme"]);
        assert_eq!(words("\"Acme Corp\" tools"), ["acme corp", "tools"]);
        assert_eq!(words("ÄÖÜ"), ["äöü"]);
        assert_eq!(words("a\"bc"), ["a\"bc"], "a quote within a word is a character");
        assert_eq!(words("\"abc"), ["\"abc"]);
    }

    #[test]
    fn short_words_alone_are_the_whole_text() {
        assert_eq!(Query::parse("Ab"), Some(Query::Whole("ab".into())));
        assert_eq!(Query::parse(" a  B "), Some(Query::Whole("a b".into())));
        assert_eq!(Query::parse("äö"), Some(Query::Whole("äö".into())));
        assert_eq!((Query::parse(""), Query::parse("  ")), (None, None));
    }

    #[test]
    fn all_words_occur_in_the_same_text() {
        let query = Query::parse("core ACME").unwrap();
        assert!(query.matches("the acme core") && !query.matches("acme") && !query.matches("core"));
        let whole = Query::parse("ab").unwrap();
        assert!(whole.matches("ab") && !whole.matches("abc"));
    }
}
