//! Tokens: the parts of a text that the index contains.
//!
//! A text is cut into runs: words, white space, and single characters of scripts that are written without spaces (Han,
//! kana, Thai, emoji and others). Each run is one token, with two exceptions:
//!
//! - A single space between two words is no token. Two adjacent words have one space between them.
//! - A run of more than [`MAX_RUN`] bytes becomes *bigrams*. Each character and the next one are a token, and so is the
//!   last character alone.
//!
//! So every term is short, and consecutive tokens determine the text between them exactly. The end of a run depends on
//! neighbouring characters only. So a part of a text has the same runs as the text, except that its first and last run
//! may be shorter.

use std::iter;

/// The rules by which texts become tokens. A segment names the analyzer that made it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Analyzer {
    /// Words of any length in all scripts, and runs of white space.
    #[default]
    Words,
    /// The rules of this module.
    Runs,
}

/// The longest run that becomes one token, in bytes.
pub const MAX_RUN: usize = 128;

/// The beginning of every bigram token. Any other token that begins with a space consists of white space only.
pub const BIGRAM_PREFIX: &str = " +";

/// The first character of scripts without spaces, with few exceptions.
const FIRST_CHARACTER: char = '\u{e00}';

/// Latin and Greek letters with accents, and punctuation. They are parts of words.
const WORD_BLOCKS: std::ops::RangeInclusive<char> = '\u{1e00}'..='\u{206f}';

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    Word,
    Space,
    /// A single character of a script without spaces.
    Character,
}

impl RunKind {
    #[inline]
    pub fn of(char: char) -> Self {
        match char {
            // The highest white space is U+3000.
            '\u{3001}'.. => RunKind::Character,
            char if char.is_whitespace() => RunKind::Space,
            char if char >= FIRST_CHARACTER && !WORD_BLOCKS.contains(&char) => RunKind::Character,
            _ => RunKind::Word,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run<'a> {
    pub text: &'a str,
    pub kind: RunKind,
}

impl Run<'_> {
    /// Whether the run becomes bigrams.
    pub fn is_long(&self) -> bool {
        self.text.len() > MAX_RUN
    }

    fn is_short_word(&self) -> bool {
        self.kind == RunKind::Word && !self.is_long()
    }
}

/// The runs of a text, in order.
pub fn runs(text: &str) -> impl Iterator<Item = Run<'_>> {
    let mut rest = text;
    iter::from_fn(move || {
        let first = rest.chars().next()?;
        let kind = RunKind::of(first);
        let end = if kind == RunKind::Character { first.len_utf8() } else { run_end(rest, kind) };
        let (text, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        rest = after;
        Some(Run { text, kind })
    })
}

/// The length of the run at the beginning of `text`, in bytes.
fn run_end(text: &str, kind: RunKind) -> usize {
    let is_other = |char: char| RunKind::of(char) != kind;
    let ascii = text.bytes().take_while(|byte| byte.is_ascii() && !is_other(char::from(*byte))).count();
    match text.get(ascii..) {
        Some(rest) if !rest.starts_with(|char: char| char.is_ascii()) => {
            rest.find(is_other).map_or(text.len(), |end| ascii + end)
        }
        _ => ascii,
    }
}

/// Calls `each` for every token of a folded text, in order.
pub fn tokens(text: &str, analyzer: Analyzer, mut each: impl FnMut(&str)) {
    if analyzer == Analyzer::Words {
        return words(text).for_each(each);
    }
    let mut runs = runs(text).peekable();
    let mut before: Option<Run> = None;
    while let Some(run) = runs.next() {
        match run {
            run if run.is_long() => bigrams(run.text, true, &mut each),
            Run { text: " ", .. } if !is_space_token(before.as_ref(), runs.peek()) => {}
            run => each(run.text),
        }
        before = Some(run);
    }
}

/// Whether a single space between these runs is a token.
fn is_space_token(before: Option<&Run>, after: Option<&Run>) -> bool {
    let is_other = |run: Option<&Run>| run.is_some_and(|run| !run.is_short_word());
    is_other(before) || is_other(after)
}

/// Calls `each` for the bigrams of a run, or of a part of one. Without `is_end`, the last character has no bigram,
/// because the next character is unknown.
pub fn bigrams(run: &str, is_end: bool, mut each: impl FnMut(&str)) {
    let mut bigram = String::with_capacity(BIGRAM_PREFIX.len() + 8);
    let mut push = |characters: Option<&str>| {
        bigram.clear();
        bigram.push_str(BIGRAM_PREFIX);
        bigram.push_str(characters.unwrap_or_default());
        each(&bigram);
    };
    let mut starts = run.char_indices().map(|(start, char)| (start, start + char.len_utf8()));
    let Some((mut start, _)) = starts.next() else { return };
    for (next, end) in starts {
        push(run.get(start..end));
        start = next;
    }
    if is_end {
        push(run.get(start..));
    }
}

/// The tokens of [`Analyzer::Words`].
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    iter::from_fn(move || {
        loop {
            let is_space = rest.chars().next()?.is_whitespace();
            let end = rest.find(|char: char| char.is_whitespace() != is_space).unwrap_or(rest.len());
            let (token, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            rest = after;
            if token != " " {
                return Some(token);
            }
        }
    })
}

/// Whether a token is white space or a bigram, and neither a word nor a character.
pub fn is_space_or_bigram(token: &str) -> bool {
    token.starts_with(char::is_whitespace)
}

/// Whether a search for a part of a word may match this token.
pub fn is_searched_by_part(token: &str, analyzer: Analyzer) -> bool {
    match analyzer {
        Analyzer::Words => !is_space_or_bigram(token),
        Analyzer::Runs => token.chars().next().is_some_and(|char| RunKind::of(char) == RunKind::Word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, analyzer: Analyzer) -> Vec<String> {
        let mut all = Vec::new();
        tokens(text, analyzer, |token| all.push(token.to_owned()));
        all
    }

    #[test]
    fn single_spaces_between_words_are_no_tokens() {
        for analyzer in [Analyzer::Words, Analyzer::Runs] {
            assert_eq!(all("a bc d", analyzer), ["a", "bc", "d"]);
            assert_eq!(all("a  b\nc ", analyzer), ["a", "  ", "b", "\n", "c"]);
            assert_eq!(all("\ta\u{a0}b\u{3000}", analyzer), ["\t", "a", "\u{a0}", "b", "\u{3000}"]);
            assert_eq!(all("naïve “x’y” שלום مرحبا", analyzer), ["naïve", "“x’y”", "שלום", "مرحبا"]);
            assert_eq!((all(" ", analyzer), all("", analyzer)), (vec![], vec![]));
        }
        assert_eq!(all("日本 語\u{2003}x", Analyzer::Words), ["日本", "語", "\u{2003}", "x"]);
    }

    #[test]
    fn characters_of_scripts_without_spaces_are_tokens() {
        assert_eq!(all("日本語", Analyzer::Runs), ["日", "本", "語"]);
        assert_eq!(all("日 本", Analyzer::Runs), ["日", " ", "本"], "other tokens than without the space");
        assert_eq!(all("ab日c d", Analyzer::Runs), ["ab", "日", "c", "d"]);
        assert_eq!(all("ab 日", Analyzer::Runs), ["ab", " ", "日"]);
        assert_eq!(all("👩\u{200d}💻!", Analyzer::Runs), ["👩", "\u{200d}", "💻", "!"]);
        assert_eq!(all("ภาษา", Analyzer::Runs), ["ภ", "า", "ษ", "า"]);
        assert_eq!(all("việt", Analyzer::Runs), ["việt"]);
    }

    #[test]
    fn long_runs_become_bigrams() {
        let short = "x".repeat(MAX_RUN);
        assert_eq!(all(&short, Analyzer::Runs).concat(), short);
        assert_eq!(all(&short, Analyzer::Runs).len(), 1);
        let long = format!("{short}é");
        let found = all(&format!("a {long} b"), Analyzer::Runs);
        assert_eq!(found.len(), 2 + MAX_RUN + 1 + 2);
        assert_eq!(found[..3], ["a", " ", " +xx"]);
        assert_eq!(found[found.len() - 4..], [" +xé", " +é", " ", "b"]);
        let spaces = all(&format!("a{}b", " ".repeat(MAX_RUN + 1)), Analyzer::Runs);
        assert_eq!((spaces.len(), &*spaces[1], &*spaces[MAX_RUN + 1]), (MAX_RUN + 3, " +  ", " + "));
        let mut part = Vec::new();
        bigrams("abc", false, |bigram| part.push(bigram.to_owned()));
        assert_eq!(part, [" +ab", " +bc"]);
    }

    #[test]
    fn words_and_characters_are_no_bigrams() {
        assert!(is_space_or_bigram("\n") && is_space_or_bigram(" +ab") && !is_space_or_bigram("a"));
        assert!(is_searched_by_part("日", Analyzer::Words) && !is_searched_by_part("日", Analyzer::Runs));
        assert!(is_searched_by_part("a日", Analyzer::Words) && is_searched_by_part("ab", Analyzer::Runs));
    }
}
