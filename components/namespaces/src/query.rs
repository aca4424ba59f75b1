//! What a search asks for.
//!
//! A query is its words, without regard to letter case; what stands in double quotes is one word.
//! Words of three characters and more must all occur in the same text, anywhere in it; then shorter
//! ones are not looked at. If there are only shorter ones, the whole query must be the whole text.

/// The shortest word that is looked for within a text, in characters.
const MIN_WORD: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Query {
    /// All of them occur in the text. In lower case.
    Words(Vec<String>),
    /// This is the text. In lower case.
    Whole(String),
}

impl Query {
    /// `None` if nothing is asked for.
    pub fn parse(text: &str) -> Option<Self> {
        let text = lower(&text.split_whitespace().collect::<Vec<_>>().join(" "));
        if text.is_empty() {
            return None;
        }
        let mut words = words(&text);
        words.retain(|word| word.chars().count() >= MIN_WORD);
        Some(if words.is_empty() { Query::Whole(text) } else { Query::Words(words) })
    }

    /// Whether a text, in lower case, is what is asked for.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Query::Words(words) => words.iter().all(|word| text.contains(word.as_str())),
            Query::Whole(whole) => text == whole,
        }
    }
}

/// Character by character, so that a part of a text is the same part of the lower-case one.
pub fn lower(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.chars().flat_map(char::to_lowercase).collect() }
}

/// Words between spaces, and between quotes that stand at the ends of words.
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
