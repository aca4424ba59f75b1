//! Lines of a file, as bytes in any encoding whose line feed is the byte 10.

use bytes::Bytes;
use std::ops::{Range, RangeInclusive};

/// git takes a file for binary if it has a zero byte among so many first bytes.
const BINARY_PREFIX: usize = 8000;

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

/// A file of at most 4 GiB with a table of its lines, so that any range of them is found at once.
pub struct IndexedFile {
    contents: Bytes,
    /// The offset of each line, and of the end.
    offsets: Vec<u32>,
}

impl IndexedFile {
    pub fn new(contents: Bytes) -> Self {
        // A number that does not fit is beyond the end, so that no slice has it.
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let mut offsets = Vec::with_capacity(memchr::memchr_iter(b'\n', &contents).count() + 2);
        offsets.push(0);
        offsets.extend(memchr::memchr_iter(b'\n', &contents).map(|at| offset(at + 1)));
        if !contents.is_empty() && !contents.ends_with(b"\n") {
            offsets.push(offset(contents.len()));
        }
        IndexedFile { contents, offsets }
    }

    pub fn contents(&self) -> &Bytes {
        &self.contents
    }

    /// Whether git takes the file for binary: its lines then mean nothing.
    pub fn is_binary(&self) -> bool {
        let prefix = self.contents.get(..BINARY_PREFIX).unwrap_or(&self.contents);
        memchr::memchr(0, prefix).is_some()
    }

    /// The memory that it takes, in bytes.
    pub fn size(&self) -> usize {
        self.contents.len() + self.offsets.len() * size_of::<u32>()
    }

    /// The bytes of a range of lines, which may reach beyond the end of the file; `None` if the file does
    /// not have the first of them.
    pub fn slice(&self, lines: &RangeInclusive<u64>) -> Option<Bytes> {
        let offset = |line: u64| self.offsets.get(usize::try_from(line).ok()?).copied();
        let last = self.offsets.len() as u64 - 1;
        let first = lines.start().checked_sub(1).filter(|first| *first < last)?;
        let range = offset(first)? as usize..offset(*lines.end().min(&last))? as usize;
        self.contents.get(range).map(|slice| self.contents.slice_ref(slice))
    }

    /// How many lines the file has.
    pub fn count(&self) -> u64 {
        self.offsets.len() as u64 - 1
    }

    /// The lines with these numbers, from 0, each with its line ending. Numbers beyond the end of the file are left
    /// out.
    pub fn lines(&self, numbers: Range<u64>) -> impl DoubleEndedIterator<Item = &[u8]> {
        numbers.filter_map(|number| {
            let number = usize::try_from(number).ok()?;
            let (start, end) = (*self.offsets.get(number)?, *self.offsets.get(number + 1)?);
            self.contents.get(start as usize..end as usize)
        })
    }

    /// Whether the file has a line of this number, from 1.
    pub fn has_line(&self, line: u64) -> bool {
        self.slice(&(line..=line)).is_some()
    }
}

/// The line ending of the last of these lines: `\n`, `\r\n`, or none at the end of a file.
pub fn line_ending(lines: &[u8]) -> &'static str {
    match lines {
        [.., b'\r', b'\n'] => "\r\n",
        [.., b'\n'] => "\n",
        _ => "",
    }
}

/// `text`, whose lines end with LF, with the line endings of the lines that it replaces. Each line gets the ending of
/// the line in its place; lines beyond them get the ending of the last replaced line that has one. The last line gets
/// the ending of the last replaced line, which has none at the end of a file. If no replaced line has an ending, lines
/// within the text get `other`.
pub fn with_line_endings(text: &str, replaced: &[u8], other: &'static str) -> String {
    let mut endings = split(replaced).map(line_ending).filter(|ending| !ending.is_empty());
    let mut ending = other;
    let mut lines = text.split('\n').peekable();
    let mut converted = String::with_capacity(text.len() + 2);
    while let Some(line) = lines.next() {
        converted.push_str(line);
        ending = endings.next().unwrap_or(ending);
        converted.push_str(if lines.peek().is_some() { ending } else { line_ending(replaced) });
    }
    converted
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
        let slice = |file: &'static [u8], lines| IndexedFile::new(Bytes::from_static(file)).slice(&lines);
        assert_eq!(slice(FILE, 1..=1).as_deref(), Some(&b"one\n"[..]));
        assert_eq!(slice(FILE, 2..=3).as_deref(), Some(&b"two\r\nthree\n"[..]));
        assert_eq!(slice(FILE, 4..=9).as_deref(), Some(&b"\xff\xfe\nlast"[..]));
        assert_eq!(slice(FILE, 5..=u64::MAX).as_deref(), Some(&b"last"[..]));
        assert_eq!((slice(FILE, 6..=6), slice(FILE, 0..=1), slice(FILE, u64::MAX..=u64::MAX)), (None, None, None));
        assert_eq!(slice(b"", 1..=1), None);
        assert_eq!(slice(b"\n", 1..=1).as_deref(), Some(&b"\n"[..]));
        let has_line = |file: &'static [u8], line| IndexedFile::new(Bytes::from_static(file)).has_line(line);
        assert!(has_line(FILE, 5) && !has_line(FILE, 6) && !has_line(b"a\n", 2));
        let file = IndexedFile::new(Bytes::from_static(FILE));
        assert_eq!((file.count(), IndexedFile::new(Bytes::new()).count()), (5, 0));
        assert_eq!(file.lines(3..9).collect::<Vec<_>>(), [&b"\xff\xfe\n"[..], b"last"]);
        let found =
            [line_ending(b"a\n"), line_ending(b"a\r\n"), line_ending(b"a"), line_ending(b"\r"), line_ending(b"")];
        assert_eq!(found, ["\n", "\r\n", "", "", ""]);
    }

    #[test]
    fn a_text_gets_the_line_endings_of_the_lines_that_it_replaces() {
        for (text, replaced, other, expected) in [
            ("x", "a\n", "\n", "x\n"),
            ("x\ny", "a\n", "\r\n", "x\ny\n"),
            ("x\ny\nz", "a\r\n", "\n", "x\r\ny\r\nz\r\n"),
            ("x\ny\nz", "a\nb\r\n", "\n", "x\ny\r\nz\r\n"),
            ("x\ny", "a\r\nb\nc\n", "\n", "x\r\ny\n"),
            ("x\ny\n", "a\r\n", "\n", "x\r\ny\r\n\r\n"),
            // At the end of a file without a last line ending.
            ("x\ny", "a\r\nb", "\n", "x\r\ny"),
            ("x\ny", "b", "\r\n", "x\r\ny"),
            ("x", "b", "\r\n", "x"),
            ("x\ny", "", "\n", "x\ny"),
        ] {
            assert_eq!(with_line_endings(text, replaced.as_bytes(), other), expected, "{text:?} {replaced:?}");
        }
    }

    fn edit(file: &[u8], edits: &[(u64, u64, &str)]) -> String {
        let edits: Vec<Replacement> =
            edits.iter().map(|(from, to, text)| Replacement { lines: *from..=*to, text: text.as_bytes() }).collect();
        assert!(!have_overlap(&edits));
        String::from_utf8_lossy(&replace(file, &edits)).into_owned()
    }

    #[test]
    fn line_numbers_refer_to_the_text_before_any_replacement() {
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
