//! Bounds of Markdown that is parsed.

/// The deepest nesting of block quotes, lists and footnotes.
const MAX_DEPTH: usize = 50;

/// Whether blocks may be nested more than 50 deep. A parser checks every open block for every line, which takes minutes
/// for a text with thousands of open blocks.
pub fn is_deep(text: &str) -> bool {
    text.split(['\n', '\r']).any(|line| depth(line) > MAX_DEPTH)
}

/// The most blocks that are open after this line, if it begins one. Each takes a marker, or two columns of indentation.
fn depth(line: &str) -> usize {
    let (mut markers, mut columns, mut rest) = (0, 0, line);
    loop {
        let text = rest.trim_start_matches([' ', '\t']);
        let indentation = rest.strip_suffix(text).unwrap_or_default();
        columns += indentation.bytes().map(|byte| if byte == b'\t' { 4 } else { 1 }).sum::<usize>();
        match after_marker(text) {
            Some(after) => (markers, rest) = (markers + 1, after),
            None if markers == 0 => return 0,
            None => return markers + columns / 2,
        }
    }
}

/// The rest of a line after the marker of a block quote, a list item or a footnote.
fn after_marker(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('>') {
        return Some(rest);
    }
    if let Some(label) = text.strip_prefix("[^") {
        return label.split_once("]:").map(|(_, rest)| rest);
    }
    let rest = match text.strip_prefix(['-', '*', '+']) {
        Some(rest) => rest,
        None => {
            let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
            digits.strip_prefix(['.', ')']).filter(|_| digits.len() < text.len())?
        }
    };
    (rest.is_empty() || rest.starts_with([' ', '\t'])).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_is_that_of_marks_and_indentation() {
        for (line, expected) in [
            ("", 0),
            ("text > text", 0),
            ("        code", 0),
            ("-----", 0),
            ("1.2", 0),
            (". x", 0),
            ("[^a] is", 0),
            (">>>", 3),
            ("> - 1. x", 4),
            ("- ", 1),
            ("    - item", 3),
            ("\t\t* item", 5),
            ("[^a]: [^b]: x", 3),
        ] {
            assert_eq!(depth(line), expected, "{line:?}");
        }
    }

    #[test]
    fn texts_of_people_are_not_deep() {
        let outline: String = (0..16).map(|level| format!("{}- item\n", "    ".repeat(level))).collect();
        for text in [&outline, &"> ".repeat(20), &"-".repeat(200), &"a > b\n".repeat(1000)] {
            assert!(!is_deep(text), "{text}");
        }
        for text in [">".repeat(51), "a\r".to_owned() + &"- ".repeat(60), " ".repeat(100) + "- a"] {
            assert!(is_deep(&text), "{text}");
        }
    }
}
