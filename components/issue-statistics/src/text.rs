//! Text analysis: case folding, [tokens] and n-grams.
//!
//! Case is folded character by character with Unicode's full lower-case mapping: `İ` becomes `i` with a dot above, `ß`
//! stays `ß`. The final sigma counts as a sigma. So a match does not depend on its position in a word. White space is
//! defined by Unicode.
//!
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

/// Appends the folded `text`.
pub fn fold(text: &str, into: &mut String) {
    if text.is_ascii() {
        let start = into.len();
        into.push_str(text);
        if let Some(added) = into.get_mut(start..) {
            added.make_ascii_lowercase();
        }
        return;
    }
    for char in text.chars() {
        match char {
            'ς' => into.push('σ'),
            char if char.is_ascii() => into.push(char.to_ascii_lowercase()),
            // Han, kana and Hangul have no case. The check avoids a slow look-up.
            '\u{3000}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' => into.push(char),
            char => into.extend(char.to_lowercase()),
        }
    }
}

pub fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    fold(text, &mut folded);
    folded
}

/// 1 to [`MAX_NGRAM`] characters of a term, each in 21 bits.
pub type Ngram = u64;

/// The most characters of an n-gram.
pub const MAX_NGRAM: usize = 3;

/// The bits of a character.
const BITS_PER_CHAR: u32 = 21;

/// Calls `each` for the longest n-gram at each character of a term. The other n-grams of the term are
/// [prefixes](ngram_prefixes) of these.
pub fn longest_ngrams(term: &str, mut each: impl FnMut(Ngram)) {
    let (mut one, mut two) = (0, 0);
    for char in term.chars() {
        let last = packed(char);
        if two != 0 {
            each(two | one << BITS_PER_CHAR | last << (2 * BITS_PER_CHAR));
        }
        (two, one) = (one, last);
    }
    if two != 0 {
        each(two | one << BITS_PER_CHAR);
    }
    if one != 0 {
        each(one);
    }
}

/// The character plus 1; 0 means no character.
fn packed(char: char) -> Ngram {
    u64::from(u32::from(char)) + 1
}

/// The prefixes of an n-gram, the shortest first. The last one is the n-gram itself.
pub fn ngram_prefixes(ngram: Ngram) -> impl Iterator<Item = Ngram> {
    let length = (u64::BITS - ngram.leading_zeros()).div_ceil(BITS_PER_CHAR);
    (1..=length).map(move |length| ngram_prefix(ngram, length))
}

/// The first `length` characters of an n-gram.
pub fn ngram_prefix(ngram: Ngram, length: u32) -> Ngram {
    ngram & ((1 << (length * BITS_PER_CHAR)) - 1)
}

/// The suffixes of an n-gram, the longest first. The first one is the n-gram itself.
pub fn ngram_suffixes(ngram: Ngram) -> impl Iterator<Item = Ngram> {
    iter::successors(Some(ngram), |ngram| Some(ngram >> BITS_PER_CHAR).filter(|ngram| *ngram != 0))
}

/// The longest n-gram that a term begins with.
pub fn longest_prefix(term: &str) -> Ngram {
    term.chars().take(MAX_NGRAM).zip(0..).fold(0, |all, (char, at)| all | packed(char) << (at * BITS_PER_CHAR))
}

/// The longest n-gram that a term ends with.
pub fn longest_suffix(term: &str) -> Ngram {
    term.chars().rev().take(MAX_NGRAM).fold(0, |all, char| all << BITS_PER_CHAR | packed(char))
}

/// A number that sorts n-grams in the order of their texts.
pub fn ngram_rank(ngram: Ngram) -> u64 {
    chars_of(ngram).into_iter().fold(0, |rank, char| rank << BITS_PER_CHAR | char)
}

/// The packed characters of an n-gram, with 0 for each missing one.
fn chars_of(ngram: Ngram) -> [u64; MAX_NGRAM] {
    [0, BITS_PER_CHAR, 2 * BITS_PER_CHAR].map(|shift| ngram >> shift & ((1 << BITS_PER_CHAR) - 1))
}

pub fn ngram_text(ngram: Ngram) -> String {
    chars_of(ngram).into_iter().filter_map(|char| char::from_u32(char.checked_sub(1)? as u32)).collect()
}

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

    #[test]
    fn case_is_folded() {
        assert_eq!(folded("Hello WORLD 1"), "hello world 1");
        assert_eq!(folded("ÄÖÜ Straße ŻÓŁĆ"), "äöü straße żółć");
        assert_eq!(folded("ΟΔΟΣ"), folded("οδος"));
        assert_eq!(folded("İ"), "i\u{307}");
        assert_eq!(folded("日本語"), "日本語");
    }

    #[test]
    fn ngrams_have_up_to_three_characters() {
        let texts = |word: &str| {
            let mut all = Vec::new();
            longest_ngrams(word, |ngram| all.push(ngram_prefixes(ngram).map(ngram_text).collect::<Vec<_>>()));
            all
        };
        assert_eq!(texts("abcd"), [vec!["a", "ab", "abc"], vec!["b", "bc", "bcd"], vec!["c", "cd"], vec!["d"]]);
        assert_eq!(texts("語\u{10ffff}"), [vec!["語", "語\u{10ffff}"], vec!["\u{10ffff}"]]);
        assert!(texts("").is_empty());
    }

    #[test]
    fn affixes_have_up_to_three_characters() {
        let prefixes = |word| ngram_prefixes(longest_prefix(word)).map(ngram_text).collect::<Vec<_>>();
        let suffixes = |word| ngram_suffixes(longest_suffix(word)).map(ngram_text).collect::<Vec<_>>();
        assert_eq!((prefixes("abcd"), suffixes("abcd")), (texts(&["a", "ab", "abc"]), texts(&["bcd", "cd", "d"])));
        assert_eq!(prefixes("語"), ["語"]);
        assert_eq!(suffixes("x語\u{10ffff}"), ["x語\u{10ffff}", "語\u{10ffff}", "\u{10ffff}"]);
    }

    #[test]
    fn ranks_order_ngrams_as_their_texts() {
        let mut all = texts(&["語", "b", "ab", "abc", "\u{10ffff}a", "a", "aé", "a語", "b\u{7f}", "\0", "\0\0"]);
        all.sort();
        let ranks: Vec<u64> = all.iter().map(|text| ngram_rank(longest_prefix(text))).collect();
        assert!(ranks.is_sorted_by(|one, other| one < other), "{ranks:?}");
    }

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| (*text).to_owned()).collect()
    }
}

#[cfg(test)]
mod tokens_tests {
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
