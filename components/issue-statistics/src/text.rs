//! Text analysis: case folding, [tokens] and n-grams.
//!
//! Case is folded character by character with Unicode's full lower-case mapping: `İ` becomes `i` with a dot above, `ß`
//! stays `ß`. The final sigma counts as a sigma. So a match does not depend on its position in a word. White space is
//! defined by Unicode.

mod tokens;

pub use tokens::{
    Analyzer, BIGRAM_PREFIX, Run, RunKind, bigrams, is_searched_by_part, is_space_or_bigram, runs, tokens,
};

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
