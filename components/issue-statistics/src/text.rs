//! Text analysis: case folding, [tokens] and n-grams.
//!
//! Case is folded character by character with Unicode's full lower-case mapping, and the final sigma
//! counts as a sigma, so that a match does not depend on where it is in a word: `İ` is `i` with a dot
//! above, `ß` stays `ß`. White space is Unicode's.

mod tokens;

pub use tokens::{Analyzer, PIECE_PREFIX, Run, RunKind, is_searched_by_part, is_space_or_piece, pieces, runs, tokens};

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
            // Han, kana and Hangul have no case, and looking that up takes time.
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

/// 1 to [`MAX_NGRAM`] characters of a term, 21 bits each.
pub type Ngram = u64;

/// The most characters of an n-gram.
pub const MAX_NGRAM: usize = 3;

/// Bits for a character.
const BITS_PER_CHAR: u32 = 21;

/// Calls `each` for every n-gram of a term, once for each occurrence.
pub fn ngrams(term: &str, mut each: impl FnMut(Ngram)) {
    let (mut one, mut two) = (0, 0);
    for char in term.chars() {
        // One more than the character, so that 0 means that there is none.
        let last = u64::from(u32::from(char)) + 1;
        each(last);
        if one != 0 {
            each(one | last << BITS_PER_CHAR);
        }
        if two != 0 {
            each(two | one << BITS_PER_CHAR | last << (2 * BITS_PER_CHAR));
        }
        (two, one) = (one, last);
    }
}

/// Calls `each` for the prefixes of a term, the shortest first.
pub fn prefixes(term: &str, mut each: impl FnMut(Ngram)) {
    let mut ngram = 0;
    for (length, char) in (0..).zip(term.chars().take(MAX_NGRAM)) {
        ngram |= (u64::from(u32::from(char)) + 1) << (length * BITS_PER_CHAR);
        each(ngram);
    }
}

/// Calls `each` for the suffixes of a term, the shortest first.
pub fn suffixes(term: &str, mut each: impl FnMut(Ngram)) {
    let mut ngram = 0;
    for char in term.chars().rev().take(MAX_NGRAM) {
        ngram = ngram << BITS_PER_CHAR | (u64::from(u32::from(char)) + 1);
        each(ngram);
    }
}

pub fn ngram_text(ngram: Ngram) -> String {
    let chars = [0, BITS_PER_CHAR, 2 * BITS_PER_CHAR].map(|shift| (ngram >> shift) as u32 & ((1 << BITS_PER_CHAR) - 1));
    chars.into_iter().filter_map(|number| char::from_u32(number.checked_sub(1)?)).collect()
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
            ngrams(word, |ngram| all.push(ngram_text(ngram)));
            all.sort();
            all
        };
        assert_eq!(texts("abcd"), ["a", "ab", "abc", "b", "bc", "bcd", "c", "cd", "d"]);
        assert_eq!(texts("語\u{10ffff}"), ["語", "語\u{10ffff}", "\u{10ffff}"]);
        assert_eq!(texts(""), [""; 0]);
    }

    #[test]
    fn affixes_have_up_to_three_characters() {
        let texts = |affixes: fn(&str, &mut dyn FnMut(Ngram)), word: &str| {
            let mut all = Vec::new();
            affixes(word, &mut |ngram| all.push(ngram_text(ngram)));
            all
        };
        assert_eq!(texts(|word, each| prefixes(word, each), "abcd"), ["a", "ab", "abc"]);
        assert_eq!(texts(|word, each| suffixes(word, each), "abcd"), ["d", "cd", "bcd"]);
        assert_eq!(texts(|word, each| suffixes(word, each), "語\u{10ffff}"), ["\u{10ffff}", "語\u{10ffff}"]);
        assert_eq!(texts(|word, each| prefixes(word, each), ""), [""; 0]);
    }
}
