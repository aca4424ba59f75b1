//! Lines of a file, as bytes: what they are encoded in is nobody's business here.

use std::ops::RangeInclusive;

/// A replacement of lines; their numbers are those before any replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement<'a> {
    /// From 1; lines beyond the end of the file do not count.
    pub lines: RangeInclusive<u64>,
    pub text: &'a [u8],
}

/// Each line with its end, if it has one.
fn split(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    file.split_inclusive(|byte| *byte == b'\n')
}

/// Where in `file` the lines of a range are, in bytes; `None` if not even the first one is there.
fn place(file: &[u8], lines: &RangeInclusive<u64>) -> Option<std::ops::Range<usize>> {
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

/// The bytes of a range of lines, which may reach beyond the end of the file.
pub fn of<'a>(file: &'a [u8], lines: &RangeInclusive<u64>) -> Option<&'a [u8]> {
    file.get(place(file, lines)?)
}

/// Whether the file has a line of this number, from 1.
pub fn exists(file: &[u8], line: u64) -> bool {
    of(file, &(line..=line)).is_some()
}

/// How the last line ends: `\n`, `\r\n`, or nothing at the end of a file.
pub fn ending(lines: &[u8]) -> &'static str {
    match lines {
        [.., b'\r', b'\n'] => "\r\n",
        [.., b'\n'] => "\n",
        _ => "",
    }
}

/// Whether any two of these replacements, sorted by their first line, have a line in common.
pub fn overlap(sorted: &[Replacement]) -> bool {
    sorted.windows(2).any(|pair| match pair {
        [one, next] => next.lines.start() <= one.lines.end(),
        _ => false,
    })
}

/// The file after these replacements, which are sorted and do not overlap.
pub fn replace(file: &[u8], sorted: &[Replacement]) -> Vec<u8> {
    let mut after = Vec::with_capacity(file.len());
    let mut done = 0;
    let mut lines = split(file);
    // Lines that were read, and where the next one begins.
    let (mut number, mut at) = (0_u64, 0_usize);
    for replacement in sorted {
        while number + 1 < *replacement.lines.start() {
            let Some(line) = lines.next() else { break };
            (number, at) = (number + 1, at + line.len());
        }
        after.extend_from_slice(file.get(done..at).unwrap_or_default());
        after.extend_from_slice(replacement.text);
        while number < *replacement.lines.end() {
            let Some(line) = lines.next() else { break };
            (number, at) = (number + 1, at + line.len());
        }
        done = at;
    }
    after.extend_from_slice(file.get(done..).unwrap_or_default());
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = b"one\ntwo\r\nthree\n\xff\xfe\nlast";

    #[test]
    fn lines_keep_their_ends() {
        assert_eq!(of(FILE, &(1..=1)), Some(&b"one\n"[..]));
        assert_eq!(of(FILE, &(2..=3)), Some(&b"two\r\nthree\n"[..]));
        assert_eq!(of(FILE, &(4..=9)), Some(&b"\xff\xfe\nlast"[..]));
        assert_eq!(of(FILE, &(6..=6)), None);
        assert_eq!(of(b"", &(1..=1)), None);
        assert_eq!(of(b"\n", &(1..=1)), Some(&b"\n"[..]));
        assert!(exists(FILE, 5) && !exists(FILE, 6) && !exists(b"a\n", 2));
        assert_eq!(
            [ending(b"a\n"), ending(b"a\r\n"), ending(b"a"), ending(b"\r"), ending(b"")],
            ["\n", "\r\n", "", "", ""]
        );
    }

    fn edit(file: &[u8], edits: &[(u64, u64, &str)]) -> String {
        let edits: Vec<Replacement> =
            edits.iter().map(|(from, to, text)| Replacement { lines: *from..=*to, text: text.as_bytes() }).collect();
        assert!(!overlap(&edits));
        String::from_utf8_lossy(&replace(file, &edits)).into_owned()
    }

    #[test]
    fn later_lines_move_by_what_earlier_replacements_added() {
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
        assert!(overlap(&[lines(1..=3), lines(3..=4)]));
        assert!(overlap(&[lines(2..=2), lines(2..=2)]));
        assert!(!overlap(&[lines(1..=2), lines(3..=4)]));
        assert!(!overlap(&[]));
    }
}
