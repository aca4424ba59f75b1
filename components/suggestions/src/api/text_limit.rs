//! How long a title, a description, or the text of a note may be.

/// The longest title and text, in characters, as in the reference service.
const MAX_TITLE: usize = 255;
const MAX_CHARACTERS: usize = 1_000_000;

/// The most bytes of a text in an answer. A page of a list has many texts ([`super::json_page`]).
const MAX_BYTES: usize = 2 << 20;

/// Why a title is too long.
pub fn find_excess_of_title(title: &str) -> Option<String> {
    let is_too_long = title.chars().count() > MAX_TITLE;
    is_too_long.then(|| format!("is too long (maximum is {MAX_TITLE} characters)"))
}

/// Why a text is too long.
pub fn find_excess(text: &str) -> Option<String> {
    if text.chars().count() > MAX_CHARACTERS {
        return Some(format!("is too long (maximum is {MAX_CHARACTERS} characters)"));
    }
    let is_too_large = json_length(text) > MAX_BYTES;
    is_too_large.then(|| format!("is too long (maximum is {MAX_BYTES} bytes in JSON)"))
}

/// The bytes of a JSON string without its quotation marks.
fn json_length(text: &str) -> usize {
    let length = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(length).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_that_of_the_json() {
        let all: String = (0..0x180).filter_map(char::from_u32).collect();
        for text in ["", "a\"b\\c/\n", &all] {
            assert_eq!(json_length(text) + 2, serde_json::to_string(text).unwrap().len());
        }
    }

    #[test]
    fn texts_are_bounded_in_characters_and_in_bytes() {
        assert_eq!(find_excess(&"x".repeat(1_000_000)), None);
        assert_eq!(find_excess(&"\n".repeat(1_000_000)), None);
        assert!(find_excess(&"x".repeat(1_000_001)).unwrap().contains("1000000 characters"));
        assert_eq!(find_excess(&"字".repeat(699_050)), None);
        assert!(find_excess(&"字".repeat(699_051)).unwrap().contains("2097152 bytes"));
    }
}
