//! Texts as they are searched: folded to one letter case, and cut into words and gaps.
//!
//! Letter case is folded character by character with Unicode's full lower-case mapping, and the
//! final sigma counts as a sigma, so that what matches does not depend on where in a word it
//! stands: `İ` is `i` with a dot above, `ß` stays `ß`.
//!
//! White space is Unicode's. Words and gaps are both pieces, except that the usual gap, one space,
//! is no piece of its own: of pieces that follow one another, two words have one space between them.

/// Appends `text` in one letter case.
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
            char => into.extend(char.to_lowercase()),
        }
    }
}

pub fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    fold(text, &mut folded);
    folded
}

/// Calls `each` for every piece of a folded text, in order.
pub fn pieces<'a>(text: &'a str, mut each: impl FnMut(&'a str)) {
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = split(rest, |char| char.is_whitespace());
        if !word.is_empty() {
            each(word);
        }
        let (gap, after) = split(after, |char| !char.is_whitespace());
        if !gap.is_empty() && gap != " " {
            each(gap);
        }
        rest = after;
    }
}

/// What is before the first character that `ends`, and the rest.
fn split(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    let mut end = 0;
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(end).filter(|byte| byte.is_ascii()) {
        if ends(char::from(*byte)) {
            return text.split_at_checked(end).unwrap_or((text, ""));
        }
        end += 1;
    }
    let Some((before, rest)) = text.split_at_checked(end) else { return (text, "") };
    match rest.find(ends) {
        Some(at) => text.split_at_checked(before.len() + at).unwrap_or((text, "")),
        None => (text, ""),
    }
}

pub fn is_gap(piece: &str) -> bool {
    piece.starts_with(char::is_whitespace)
}

/// A part of a word, of 1 to [`GRAM`] characters, as one number.
pub type Gram = u64;

/// The most characters that a gram has.
pub const GRAM: usize = 3;

const BITS: u32 = 21;

/// Calls `each` for every gram of a word; one that is in it more than once may come again.
pub fn grams(word: &str, mut each: impl FnMut(Gram)) {
    let (mut one, mut two) = (0, 0);
    for char in word.chars() {
        // One more, so that none is 0 and the number tells how many there are.
        let last = u64::from(u32::from(char)) + 1;
        each(last);
        if one != 0 {
            each(one | last << BITS);
        }
        if two != 0 {
            each(two | one << BITS | last << (2 * BITS));
        }
        (two, one) = (one, last);
    }
}

/// Calls `each` for the gram of every length that a word starts with.
pub fn starts(word: &str, mut each: impl FnMut(Gram)) {
    let mut gram = 0;
    for (length, char) in (0..).zip(word.chars().take(GRAM)) {
        gram |= (u64::from(u32::from(char)) + 1) << (length * BITS);
        each(gram);
    }
}

/// Calls `each` for the gram of every length that a word ends with.
pub fn ends(word: &str, mut each: impl FnMut(Gram)) {
    let mut gram = 0;
    for char in word.chars().rev().take(GRAM) {
        gram = gram << BITS | (u64::from(u32::from(char)) + 1);
        each(gram);
    }
}

/// The text of a gram.
pub fn gram_text(gram: Gram) -> String {
    let chars = [0, BITS, 2 * BITS].map(|shift| (gram >> shift) as u32 & ((1 << BITS) - 1));
    chars.into_iter().filter_map(|number| char::from_u32(number.checked_sub(1)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        let mut all = Vec::new();
        pieces(text, |piece| all.push(piece));
        all
    }

    #[test]
    fn letter_case_is_folded_everywhere() {
        assert_eq!(folded("Hello WORLD 1"), "hello world 1");
        assert_eq!(folded("ÄÖÜ Straße ŻÓŁĆ"), "äöü straße żółć");
        assert_eq!(folded("ΟΔΟΣ"), folded("οδος"));
        assert_eq!(folded("İ"), "i\u{307}");
        assert_eq!(folded("日本語"), "日本語");
    }

    #[test]
    fn single_spaces_are_no_pieces() {
        assert_eq!(cut("a bc d"), ["a", "bc", "d"]);
        assert_eq!(cut("a  b\nc "), ["a", "  ", "b", "\n", "c"]);
        assert_eq!(cut("\ta\u{a0}b\u{3000}"), ["\t", "a", "\u{a0}", "b", "\u{3000}"]);
        assert_eq!(cut("日本 語\u{2003}x"), ["日本", "語", "\u{2003}", "x"]);
        assert_eq!(cut(" "), [""; 0]);
        assert_eq!(cut(""), [""; 0]);
        assert!(is_gap("\n") && !is_gap("a"));
    }

    #[test]
    fn grams_are_all_parts_of_up_to_three_characters() {
        let texts = |word: &str| {
            let mut all = Vec::new();
            grams(word, |gram| all.push(gram_text(gram)));
            all.sort();
            all
        };
        assert_eq!(texts("abcd"), ["a", "ab", "abc", "b", "bc", "bcd", "c", "cd", "d"]);
        assert_eq!(texts("語\u{10ffff}"), ["語", "語\u{10ffff}", "\u{10ffff}"]);
        assert_eq!(texts(""), [""; 0]);
    }

    #[test]
    fn edges_are_what_words_start_and_end_with() {
        let texts = |edges: fn(&str, &mut dyn FnMut(Gram)), word: &str| {
            let mut all = Vec::new();
            edges(word, &mut |gram| all.push(gram_text(gram)));
            all
        };
        assert_eq!(texts(|word, each| starts(word, each), "abcd"), ["a", "ab", "abc"]);
        assert_eq!(texts(|word, each| ends(word, each), "abcd"), ["d", "cd", "bcd"]);
        assert_eq!(texts(|word, each| ends(word, each), "語\u{10ffff}"), ["\u{10ffff}", "語\u{10ffff}"]);
        assert_eq!(texts(|word, each| starts(word, each), ""), [""; 0]);
    }
}
