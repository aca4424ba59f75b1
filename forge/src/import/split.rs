//! Splitting a file of records by the areas that own them. Only a line at a time is in memory.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Read};

use serde::Deserialize;

/// The longest line that is sent, in bytes. Areas have lower limits of their own.
const MAX_LINE: usize = 16 << 20;

/// An area and what it imports.
pub struct Owner {
    pub area: &'static str,
    /// Its endpoint, below `/api/v4/`.
    pub path: &'static str,
    kinds: &'static [&'static str],
}

/// Everybody who imports something, in the order in which they must: the others refer to what is
/// in the directory.
pub const OWNERS: [Owner; 4] = [
    Owner {
        area: "directory",
        path: "import/directory",
        kinds: &["user", "token", "group", "project", "member", "setting", "feature"],
    },
    Owner { area: "issue-statistics", path: "import/issues", kinds: &["issue"] },
    Owner { area: "suggestions", path: "import/suggestions", kinds: &["merge_request"] },
    Owner { area: "experiments", path: "import/experiments", kinds: &["experiment"] },
];

/// Why a line is sent to nobody.
#[derive(Debug, PartialEq, Eq)]
pub enum Misfit {
    NotAnObject,
    Json(String),
    Kind(String),
    TooLong,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::NotAnObject => f.write_str("not a JSON object"),
            Misfit::Json(why) => f.write_str(why),
            Misfit::Kind(kind) => write!(f, "no area imports the kind `{kind}`"),
            Misfit::TooLong => write!(f, "longer than {MAX_LINE} bytes"),
        }
    }
}

/// The index in [`OWNERS`] of the one who imports this line; none for a blank line.
pub fn owner(line: &[u8]) -> Result<Option<usize>, Misfit> {
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
        return Err(Misfit::NotAnObject);
    }
    let of = |kind: &str| OWNERS.iter().position(|owner| owner.kinds.contains(&kind));
    // Most writers put the kind first; the area parses the rest.
    if let Some(owner) = leading_kind(line).and_then(of) {
        return Ok(Some(owner));
    }
    let head: Head = serde_json::from_slice(line).map_err(|why| Misfit::Json(why.to_string()))?;
    of(&head.kind).map(Some).ok_or_else(|| Misfit::Kind(head.kind.chars().take(100).collect()))
}

fn leading_kind(line: &[u8]) -> Option<&str> {
    let rest = line.strip_prefix(br#"{"kind":"#)?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(rest.get(..end)?).ok()
}

/// Reads lines of bounded length.
struct Lines<R> {
    input: R,
    /// Of the line read last, from 1.
    number: u64,
    /// Where the next line begins, in bytes.
    offset: u64,
}

impl<R: BufRead> Lines<R> {
    /// Puts the next line with its newline into `line`, and says whether there was one. A line
    /// that is too long is left empty and an error inside.
    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Option<Result<(), Misfit>>> {
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
            return Ok(Some(Err(Misfit::TooLong)));
        }
        // The last line of a file.
        line.push(b'\n');
        Ok(Some(Ok(())))
    }
}

/// The lines of one owner: how many, and where in the file they are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub lines: u64,
    pub bytes: u64,
    /// Where the first one begins, and the number of the line before it.
    pub start: u64,
    before: u64,
    /// Where the last one ends.
    pub end: u64,
}

/// What a file has.
#[derive(Debug, Default)]
pub struct Survey {
    pub parts: [Part; OWNERS.len()],
    /// How many lines nobody imports, and the first of them with their numbers.
    pub misfits: u64,
    pub first_misfits: Vec<(u64, Misfit)>,
}

/// How many misfits are remembered.
const MAX_MISFITS: usize = 100;

/// Looks at every line once. `progress` is told how many bytes were seen.
pub fn survey(input: impl BufRead, mut progress: impl FnMut(u64)) -> io::Result<Survey> {
    let mut survey = Survey::default();
    let mut lines = Lines { input, number: 0, offset: 0 };
    let mut line = Vec::new();
    loop {
        let start = lines.offset;
        let Some(read) = lines.next(&mut line)? else { return Ok(survey) };
        progress(lines.offset);
        match read.and_then(|()| owner(&line)) {
            Ok(None) => {}
            Ok(Some(index)) => {
                if let Some(part) = survey.parts.get_mut(index) {
                    if part.lines == 0 {
                        (part.start, part.before) = (start, lines.number - 1);
                    }
                    part.lines += 1;
                    part.bytes += line.len() as u64;
                    part.end = lines.offset;
                }
            }
            Err(misfit) => {
                survey.misfits += 1;
                if survey.first_misfits.len() < MAX_MISFITS {
                    survey.first_misfits.push((lines.number, misfit));
                }
            }
        }
    }
}

/// The lines of one owner as they are sent.
pub struct Extract<R> {
    lines: Lines<R>,
    owner: usize,
    end: u64,
    line: Vec<u8>,
    /// How much of `line` was given.
    given: usize,
}

impl<R: BufRead> Extract<R> {
    /// `input` begins where `part` does.
    pub fn new(input: R, owner: usize, part: &Part) -> Self {
        let lines = Lines { input, number: part.before, offset: part.start };
        Extract { lines, owner, end: part.end, line: Vec::new(), given: 0 }
    }

    /// Goes on to the owner's next line; false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.given = 0;
        while self.lines.offset < self.end {
            match self.lines.next(&mut self.line)? {
                Some(Ok(())) if owner(&self.line) == Ok(Some(self.owner)) => return Ok(true),
                Some(_) => {}
                None => break,
            }
        }
        self.line.clear();
        Ok(false)
    }

    /// The numbers in the file of those lines that are the `wanted`th of the owner, from 1 and
    /// ascending.
    pub fn numbers(mut self, wanted: &[u64]) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        let mut sent = 0;
        for wanted in wanted {
            while sent < *wanted && self.advance()? {
                sent += 1;
            }
            numbers.push(self.lines.number);
        }
        Ok(numbers)
    }
}

impl<R: BufRead> Read for Extract<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.given >= self.line.len() && !self.advance()? {
            return Ok(0);
        }
        let rest = self.line.get(self.given..).unwrap_or_default();
        let taken = rest.len().min(into.len());
        into.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        self.given += taken;
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

    fn extract(owner: usize) -> Extract<&'static [u8]> {
        let survey = survey(FILE.as_bytes(), |_| {}).unwrap();
        let part = &survey.parts[owner];
        Extract::new(&FILE.as_bytes()[part.start as usize..], owner, part)
    }

    fn lines(owner: usize) -> Vec<String> {
        let mut text = String::new();
        extract(owner).read_to_string(&mut text).unwrap();
        assert_eq!(text.len() as u64, survey(FILE.as_bytes(), |_| {}).unwrap().parts[owner].bytes);
        text.split_inclusive('\n').map(str::to_owned).collect()
    }

    #[test]
    fn each_owner_gets_its_lines_in_order() {
        assert_eq!(lines(0), ["{\"kind\": \"user\",\"id\":1}\n", "{\"kind\":\"group\",\"id\":1}\n"]);
        assert_eq!(
            lines(1),
            ["{\"kind\":\"issue\",\"id\":1}\n", "{\"id\":2,\"kind\":\"issue\"}\n", "{\"kind\":\"issue\",\"id\":3}\n"]
        );
        assert_eq!(lines(2), [""; 0]);
        assert_eq!(lines(3), ["{\"kind\":\"experiment\"}\n"]);
    }

    #[test]
    fn numbers_are_those_of_the_file() {
        assert_eq!(extract(1).numbers(&[1, 2, 3]).unwrap(), [1, 4, 9]);
        assert_eq!(extract(1).numbers(&[3]).unwrap(), [9]);
        assert_eq!(extract(0).numbers(&[2]).unwrap(), [7]);
        assert_eq!(extract(3).numbers(&[1]).unwrap(), [8]);
    }

    #[test]
    fn misfits_are_found_with_their_numbers() {
        let survey = survey(FILE.as_bytes(), |_| {}).unwrap();
        assert_eq!(survey.misfits, 2);
        assert_eq!(survey.first_misfits, [(5, Misfit::NotAnObject), (6, Misfit::Kind("weather".into()))]);
    }

    #[test]
    fn the_owner_is_found_wherever_the_kind_is() {
        assert_eq!(owner(br#" { "x" : [1], "kind" : "\u0075ser" } "#), Ok(Some(0)));
        assert_eq!(owner(br#"{"kind":"merge_request"}"#), Ok(Some(2)));
        assert_eq!(owner(b" \r\n"), Ok(None));
        assert!(matches!(owner(br#"{"kind":5}"#), Err(Misfit::Json(_))));
        assert!(matches!(owner(br#"{"id":5}"#), Err(Misfit::Json(_))));
        assert_eq!(owner(br#"["user"]"#), Err(Misfit::NotAnObject));
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped() {
        let long = format!("{{\"kind\":\"user\",\"name\":\"{}\"}}", "x".repeat(MAX_LINE));
        let file = format!("{{\"kind\":\"user\"}}\n{long}\n{{\"kind\":\"group\"}}\n");
        let survey = survey(file.as_bytes(), |_| {}).unwrap();
        assert_eq!(survey.first_misfits, [(2, Misfit::TooLong)]);
        let mut text = String::new();
        let part = &survey.parts[0];
        Extract::new(file.as_bytes(), 0, part).read_to_string(&mut text).unwrap();
        assert_eq!(text, "{\"kind\":\"user\"}\n{\"kind\":\"group\"}\n");
        assert_eq!(part.end, file.len() as u64);
    }

    #[test]
    fn small_reads_give_the_same() {
        let mut extract = extract(1);
        let mut bytes = Vec::new();
        let mut one = [0];
        while extract.read(&mut one).unwrap() == 1 {
            bytes.push(one[0]);
        }
        assert_eq!(String::from_utf8(bytes).unwrap(), lines(1).concat());
    }
}
