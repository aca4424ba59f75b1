//! Byte ranges of a file (RFC 9110 §14).

use std::ops::Range;

/// The part of a file that a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum ByteRange {
    Whole,
    /// These bytes, at least one.
    Part(Range<u64>),
    /// Bytes that the file does not have.
    Unsatisfiable,
}

/// Reads `Range` and `If-Range` for a file of `size` bytes with this strong entity tag. Anything but a
/// single byte range is ignored, which RFC 9110 §14.2 allows.
pub fn requested(range: Option<&str>, if_range: Option<&str>, entity_tag: &str, size: u64) -> ByteRange {
    let same_file = if_range.is_none_or(|tag| tag.trim() == entity_tag);
    let Some((first, last)) = range.filter(|_| same_file).and_then(bounds) else {
        return ByteRange::Whole;
    };
    let part = match (first, last) {
        (Some(first), Some(last)) if first > last => return ByteRange::Whole,
        (Some(first), Some(last)) => first..last.saturating_add(1).min(size),
        (Some(first), None) => first..size,
        (None, Some(length)) => size.saturating_sub(length)..size,
        (None, None) => return ByteRange::Whole,
    };
    if part.start < part.end { ByteRange::Part(part) } else { ByteRange::Unsatisfiable }
}

/// The two numbers of `bytes=first-last`, of which one may be missing.
fn bounds(range: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (unit, bounds) = range.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = bounds.split_once('-')?;
    let number = |text: &str| -> Option<Option<u64>> {
        match text.trim() {
            "" => Some(None),
            digits if digits.bytes().all(|b| b.is_ascii_digit()) => Some(Some(digits.parse().unwrap_or(u64::MAX))),
            _ => None,
        }
    };
    Some((number(first)?, number(last)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(range: &str, expected: ByteRange) {
        assert_eq!(requested(Some(range), None, "\"a\"", 10), expected, "{range}");
    }

    #[test]
    fn parts_of_a_file() {
        for (range, part) in [
            ("bytes=0-0", 0..1),
            ("bytes=0-9", 0..10),
            ("bytes=3-5", 3..6),
            ("bytes=9-", 9..10),
            ("bytes=0-99", 0..10),
            ("bytes=-1", 9..10),
            ("bytes=-99", 0..10),
            ("Bytes= 3 - 5 ", 3..6),
            ("bytes=3-18446744073709551615", 3..10),
            ("bytes=3-99999999999999999999999", 3..10),
        ] {
            check(range, ByteRange::Part(part));
        }
    }

    #[test]
    fn ranges_beyond_the_end_are_unsatisfiable() {
        for range in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999999-"] {
            check(range, ByteRange::Unsatisfiable);
        }
    }

    #[test]
    fn other_values_are_ignored() {
        for range in
            ["", "bytes", "bytes=", "bytes=-", "bytes=5-3", "bytes=a-b", "bytes=0-1,3-4", "items=0-1", "bytes=+1-2"]
        {
            check(range, ByteRange::Whole);
        }
        assert_eq!(requested(None, None, "\"a\"", 10), ByteRange::Whole);
    }

    #[test]
    fn if_range_of_another_file_gives_the_whole() {
        for (if_range, expected) in [
            ("\"a\"", ByteRange::Part(0..1)),
            ("\"b\"", ByteRange::Whole),
            ("W/\"a\"", ByteRange::Whole),
            ("Sat, 21 Nov 2026 07:05:32 GMT", ByteRange::Whole),
        ] {
            assert_eq!(requested(Some("bytes=0-0"), Some(if_range), "\"a\"", 10), expected, "{if_range}");
        }
    }
}
