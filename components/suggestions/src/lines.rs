//! Lines of a file, as bytes in any encoding whose line feed is the byte 10.

use std::ops::RangeInclusive;

/// A replacement of lines, which are numbered as in the file before any replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement<'a> {
    /// From 1; may reach beyond the end of the file.
    pub lines: RangeInclusive<u64>,
    pub text: &'a [u8],
}

/// The lines, each with its line ending, which the last one may lack.
fn split(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    file.split_inclusive(|byte| *byte == b'\n')
}

/// The byte range of a range of lines; `None` if the file does not have the first of them.
fn byte_range(file: &[u8], lines: &RangeInclusive<u64>) -> Option<std::ops::Range<usize>> {
    let (mut at, mut number) = (0, 0);
    let mut start = None;
    for line in split(file) {
        number += 1;
        if number == *lines.start() {
            start = Some(at);
        }
        at += line.len();
        if number == *lines.end() {
            break;
        }
    }
    start.map(|start| start..at)
}

/// The bytes of a range of lines, which may reach beyond the end of the file; `None` if the file does not
/// have the first of them.
pub fn slice<'a>(file: &'a [u8], lines: &RangeInclusive<u64>) -> Option<&'a [u8]> {
    file.get(byte_range(file, lines)?)
}

/// Whether the file has a line of this number, from 1.
pub fn has_line(file: &[u8], line: u64) -> bool {
    slice(file, &(line..=line)).is_some()
}

/// The line ending of the last of these lines: `\n`, `\r\n`, or none at the end of a file.
pub fn line_ending(lines: &[u8]) -> &'static str {
    match lines {
        [.., b'\r', b'\n'] => "\r\n",
        [.., b'\n'] => "\n",
        _ => "",
    }
}

/// Whether any two of these replacements, sorted by their first line, have a line in common.
pub fn have_overlap(sorted: &[Replacement]) -> bool {
    sorted.windows(2).any(|pair| match pair {
        [one, next] => next.lines.start() <= one.lines.end(),
        _ => false,
    })
}

/// The file with these replacements, which are sorted and do not overlap.
pub fn replace(file: &[u8], sorted: &[Replacement]) -> Vec<u8> {
    let mut after = Vec::with_capacity(file.len());
    let mut copied = 0;
    let mut lines = split(file);
    // How many lines were read, and the offset of the next one.
    let (mut number, mut at) = (0_u64, 0_usize);
    for replacement in sorted {
        while number + 1 < *replacement.lines.start() {
            let Some(line) = lines.next() else { break };
            (number, at) = (number + 1, at + line.len());
        }
        after.extend_from_slice(file.get(copied..at).unwrap_or_default());
        after.extend_from_slice(replacement.text);
        while number < *replacement.lines.end() {
            let Some(line) = lines.next() else { break };
            (number, at) = (number + 1, at + line.len());
        }
        copied = at;
    }
    after.extend_from_slice(file.get(copied..).unwrap_or_default());
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = b"one\ntwo\r\nthree\n\xff\xfe\nlast";

    #[test]
    fn lines_keep_their_line_endings() {
        assert_eq!(slice(FILE, &(1..=1)), Some(&b"one\n"[..]));
        assert_eq!(slice(FILE, &(2..=3)), Some(&b"two\r\nthree\n"[..]));
        assert_eq!(slice(FILE, &(4..=9)), Some(&b"\xff\xfe\nlast"[..]));
        assert_eq!(slice(FILE, &(6..=6)), None);
        assert_eq!(slice(b"", &(1..=1)), None);
        assert_eq!(slice(b"\n", &(1..=1)), Some(&b"\n"[..]));
        assert!(has_line(FILE, 5) && !has_line(FILE, 6) && !has_line(b"a\n", 2));
        assert_eq!(
            [line_ending(b"a\n"), line_ending(b"a\r\n"), line_ending(b"a"), line_ending(b"\r"), line_ending(b"")],
            ["\n", "\r\n", "", "", ""]
        );
    }

    fn edit(file: &[u8], edits: &[(u64, u64, &str)]) -> String {
        let edits: Vec<Replacement> =
            edits.iter().map(|(from, to, text)| Replacement { lines: *from..=*to, text: text.as_bytes() }).collect();
        assert!(!have_overlap(&edits));
        String::from_utf8_lossy(&replace(file, &edits)).into_owned()
    }

    #[test]
    fn line_numbers_are_those_before_any_replacement() {
        assert_eq!(edit(b"1\n2\n3\n4\n", &[(1, 1, "a\nb\nc\n"), (3, 4, "d\n")]), "a\nb\nc\n2\nd\n");
        assert_eq!(edit(b"1\n2\n3", &[(3, 3, "x")]), "1\n2\nx");
        assert_eq!(edit(b"1\n2\n3", &[(2, 7, "")]), "1\n");
        assert_eq!(edit(b"1\n", &[(1, 1, "")]), "");
        assert_eq!(edit(b"1\r\n2\r\n", &[(1, 1, "x\r\n")]), "x\r\n2\r\n");
        assert_eq!(edit(b"1\n2\n", &[]), "1\n2\n");
        assert_eq!(replace(FILE, &[Replacement { lines: 1..=1, text: b"" }]), b"two\r\nthree\n\xff\xfe\nlast");
    }

    #[test]
    fn a_common_line_is_an_overlap() {
        let lines = |lines| Replacement { lines, text: b"" };
        assert!(have_overlap(&[lines(1..=3), lines(3..=4)]));
        assert!(have_overlap(&[lines(2..=2), lines(2..=2)]));
        assert!(!have_overlap(&[lines(1..=2), lines(3..=4)]));
        assert!(!have_overlap(&[]));
    }
}
