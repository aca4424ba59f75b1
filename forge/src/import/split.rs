//! Splits a file of records by the areas that import them. Keeps one line at a time in memory.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Read};

use serde::Deserialize;

/// The longest line that is sent, in bytes. Areas have lower limits of their own.
const MAX_LINE: usize = 16 << 20;

/// An area and the kinds of records that it imports.
pub struct Importer {
    pub area: &'static str,
    /// Its endpoint, below `/api/v4/`.
    pub path: &'static str,
    kinds: &'static [&'static str],
}

/// The areas that import records, in the order of the imports. Records of other areas refer to records of the
/// directory, so these come first.
pub const IMPORTERS: [Importer; 4] = [
    Importer {
        area: "directory",
        path: "import/directory",
        kinds: &["user", "token", "group", "project", "member", "setting", "feature"],
    },
    Importer { area: "issue-statistics", path: "import/issues", kinds: &["issue"] },
    Importer { area: "suggestions", path: "import/suggestions", kinds: &["merge_request"] },
    Importer { area: "experiments", path: "import/experiments", kinds: &["experiment"] },
];

/// The reason why a line is not sent.
#[derive(Debug, PartialEq, Eq)]
pub enum LineError {
    NotAnObject,
    Json(String),
    Kind(String),
    TooLong,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineError::NotAnObject => f.write_str("not a JSON object"),
            LineError::Json(why) => f.write_str(why),
            LineError::Kind(kind) => write!(f, "no area imports the kind `{kind}`"),
            LineError::TooLong => write!(f, "longer than {MAX_LINE} bytes"),
        }
    }
}

/// The index in [`IMPORTERS`] of the area that imports this line; `None` for a blank line.
pub fn importer(line: &[u8]) -> Result<Option<usize>, LineError> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        kind: Cow<'a, str>,
    }

    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    if !line.starts_with(b"{") {
        return Err(LineError::NotAnObject);
    }
    let importer_of = |kind: &str| IMPORTERS.iter().position(|importer| importer.kinds.contains(&kind));
    // Most files have the kind first. The area parses the rest.
    if let Some(importer) = leading_kind(line).and_then(importer_of) {
        return Ok(Some(importer));
    }
    let head: Head = serde_json::from_slice(line).map_err(|why| LineError::Json(why.to_string()))?;
    importer_of(&head.kind).map(Some).ok_or_else(|| LineError::Kind(head.kind.chars().take(100).collect()))
}

fn leading_kind(line: &[u8]) -> Option<&str> {
    let rest = line.strip_prefix(br#"{"kind":"#)?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(rest.get(..end)?).ok()
}

/// Reads lines of bounded length.
struct Lines<R> {
    input: R,
    /// The number of the last line that was read, from 1.
    number: u64,
    /// The offset of the next line, in bytes.
    offset: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads the next line with its newline into `line`; `None` at the end of the file. If the line is too long, `line`
    /// stays empty.
    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Option<Result<(), LineError>>> {
        line.clear();
        let limit = MAX_LINE as u64 + 1;
        let read = self.input.by_ref().take(limit).read_until(b'\n', line)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.offset += read as u64;
        if line.ends_with(b"\n") {
            return Ok(Some(Ok(())));
        }
        if read as u64 == limit {
            line.clear();
            self.offset += self.input.skip_until(b'\n')? as u64;
            return Ok(Some(Err(LineError::TooLong)));
        }
        // The last line of a file may lack a newline.
        line.push(b'\n');
        Ok(Some(Ok(())))
    }
}

/// The number of lines of one area, and their range in the file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct AreaLines {
    pub count: u64,
    pub bytes: u64,
    /// The offset of the first line, and the number of the line before it.
    pub start: u64,
    number_before: u64,
    /// The offset after the last line.
    pub end: u64,
}

/// The lines of a file, by area.
#[derive(Debug, Default)]
pub struct FileScan {
    /// In the order of [`IMPORTERS`].
    pub areas: [AreaLines; IMPORTERS.len()],
    /// The number of lines that cannot be sent, and the first of them with their line numbers.
    pub errors: u64,
    pub first_errors: Vec<(u64, LineError)>,
}

/// How many lines that cannot be sent are listed.
const MAX_ERRORS: usize = 100;

/// Reads every line once. `progress` gets the number of bytes so far.
pub fn scan(input: impl BufRead, mut progress: impl FnMut(u64)) -> io::Result<FileScan> {
    let mut scan = FileScan::default();
    let mut lines = Lines { input, number: 0, offset: 0 };
    let mut line = Vec::new();
    loop {
        let start = lines.offset;
        let Some(read) = lines.next(&mut line)? else { return Ok(scan) };
        progress(lines.offset);
        match read.and_then(|()| importer(&line)) {
            Ok(None) => {}
            Ok(Some(index)) => {
                if let Some(area) = scan.areas.get_mut(index) {
                    if area.count == 0 {
                        (area.start, area.number_before) = (start, lines.number - 1);
                    }
                    area.count += 1;
                    area.bytes += line.len() as u64;
                    area.end = lines.offset;
                }
            }
            Err(error) => {
                scan.errors += 1;
                if scan.first_errors.len() < MAX_ERRORS {
                    scan.first_errors.push((lines.number, error));
                }
            }
        }
    }
}

/// Reads the lines of one area in the form in which they are sent.
pub struct LineReader<R> {
    lines: Lines<R>,
    importer: usize,
    end: u64,
    line: Vec<u8>,
    /// How many bytes of `line` the caller has read.
    consumed: usize,
}

impl<R: BufRead> LineReader<R> {
    /// `input` begins at `lines.start`; `importer` is an index in [`IMPORTERS`].
    pub fn new(input: R, importer: usize, lines: &AreaLines) -> Self {
        let end = lines.end;
        let lines = Lines { input, number: lines.number_before, offset: lines.start };
        LineReader { lines, importer, end, line: Vec::new(), consumed: 0 }
    }

    /// Moves to the area's next line; false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.consumed = 0;
        while self.lines.offset < self.end {
            match self.lines.next(&mut self.line)? {
                Some(Ok(())) if importer(&self.line) == Ok(Some(self.importer)) => return Ok(true),
                Some(_) => {}
                None => break,
            }
        }
        self.line.clear();
        Ok(false)
    }

    /// Maps numbers within the lines of the area to line numbers in the file. Both count from 1 and ascend.
    pub fn file_numbers(mut self, sent_numbers: &[u64]) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        let mut sent = 0;
        for number in sent_numbers {
            while sent < *number && self.advance()? {
                sent += 1;
            }
            numbers.push(self.lines.number);
        }
        Ok(numbers)
    }
}

impl<R: BufRead> Read for LineReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.consumed >= self.line.len() && !self.advance()? {
            return Ok(0);
        }
        let rest = self.line.get(self.consumed..).unwrap_or_default();
        let taken = rest.len().min(into.len());
        into.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        self.consumed += taken;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"kind":"issue","id":1}

{"kind": "user","id":1}
{"id":2,"kind":"issue"}
nonsense
{"kind":"weather"}
{"kind":"group","id":1}
{"kind":"experiment"}
{"kind":"issue","id":3}"#;

    fn reader(importer: usize) -> LineReader<&'static [u8]> {
        let scan = scan(FILE.as_bytes(), |_| {}).unwrap();
        let lines = &scan.areas[importer];
        LineReader::new(&FILE.as_bytes()[lines.start as usize..], importer, lines)
    }

    fn lines(importer: usize) -> Vec<String> {
        let mut text = String::new();
        reader(importer).read_to_string(&mut text).unwrap();
        assert_eq!(text.len() as u64, scan(FILE.as_bytes(), |_| {}).unwrap().areas[importer].bytes);
        text.split_inclusive('\n').map(str::to_owned).collect()
    }

    #[test]
    fn each_area_gets_its_lines_in_order() {
        assert_eq!(lines(0), ["{\"kind\": \"user\",\"id\":1}\n", "{\"kind\":\"group\",\"id\":1}\n"]);
        let expected =
            ["{\"kind\":\"issue\",\"id\":1}\n", "{\"id\":2,\"kind\":\"issue\"}\n", "{\"kind\":\"issue\",\"id\":3}\n"];
        assert_eq!(lines(1), expected);
        assert_eq!(lines(2), [""; 0]);
        assert_eq!(lines(3), ["{\"kind\":\"experiment\"}\n"]);
    }

    #[test]
    fn file_numbers_count_lines_of_the_whole_file() {
        assert_eq!(reader(1).file_numbers(&[1, 2, 3]).unwrap(), [1, 4, 9]);
        assert_eq!(reader(1).file_numbers(&[3]).unwrap(), [9]);
        assert_eq!(reader(0).file_numbers(&[2]).unwrap(), [7]);
        assert_eq!(reader(3).file_numbers(&[1]).unwrap(), [8]);
    }

    #[test]
    fn lines_that_cannot_be_sent_are_listed_with_their_numbers() {
        let scan = scan(FILE.as_bytes(), |_| {}).unwrap();
        assert_eq!(scan.errors, 2);
        assert_eq!(scan.first_errors, [(5, LineError::NotAnObject), (6, LineError::Kind("weather".into()))]);
    }

    #[test]
    fn the_area_is_found_wherever_the_kind_is() {
        assert_eq!(importer(br#" { "x" : [1], "kind" : "\u0075ser" } "#), Ok(Some(0)));
        assert_eq!(importer(br#"{"kind":"merge_request"}"#), Ok(Some(2)));
        assert_eq!(importer(b" \r\n"), Ok(None));
        assert!(matches!(importer(br#"{"kind":5}"#), Err(LineError::Json(_))));
        assert!(matches!(importer(br#"{"id":5}"#), Err(LineError::Json(_))));
        assert_eq!(importer(br#"["user"]"#), Err(LineError::NotAnObject));
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped() {
        let long = format!("{{\"kind\":\"user\",\"name\":\"{}\"}}", "x".repeat(MAX_LINE));
        let file = format!("{{\"kind\":\"user\"}}\n{long}\n{{\"kind\":\"group\"}}\n");
        let scan = scan(file.as_bytes(), |_| {}).unwrap();
        assert_eq!(scan.first_errors, [(2, LineError::TooLong)]);
        let mut text = String::new();
        let lines = &scan.areas[0];
        LineReader::new(file.as_bytes(), 0, lines).read_to_string(&mut text).unwrap();
        assert_eq!(text, "{\"kind\":\"user\"}\n{\"kind\":\"group\"}\n");
        assert_eq!(lines.end, file.len() as u64);
    }

    #[test]
    fn small_reads_give_the_same() {
        let mut reader = reader(1);
        let mut bytes = Vec::new();
        let mut one = [0];
        while reader.read(&mut one).unwrap() == 1 {
            bytes.push(one[0]);
        }
        assert_eq!(String::from_utf8(bytes).unwrap(), lines(1).concat());
    }
}
