//! The import: lines out of a stream of chunks, collected into batches.

use crate::issue::{self, BadIssue};
use crate::maintenance;
use crate::segment::build::Batch;
use crate::store::Store;
use kit::{Body, Env, Error};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The longest line, in bytes.
const MAX_LINE: usize = 4 << 20;

/// How many bad lines an answer tells about.
const MAX_ERRORS: usize = 100;

/// How much of an error's text an answer has, in characters: it may quote what was sent.
const MAX_TEXT: usize = 300;

/// What became of the lines.
#[derive(Default, Serialize)]
pub struct Report {
    imported: BTreeMap<&'static str, u64>,
    failed: u64,
    /// The first bad lines.
    errors: Vec<LineReport>,
}

#[derive(Serialize)]
struct LineReport {
    /// From 1, blank lines counted.
    line: u64,
    error: String,
}

enum BadLine {
    TooLong,
    Issue(BadIssue),
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadLine::TooLong => write!(f, "the line is longer than {MAX_LINE} bytes"),
            BadLine::Issue(why) => why.fmt(f),
        }
    }
}

/// Applies every line of `body`, batch by batch. A bad line changes nothing and the others are
/// applied. If the body breaks off or storage fails, the batches before stay, and the import is to
/// be repeated.
pub async fn run(env: &Env, mut body: Body) -> Result<Report, Error> {
    let mut import = Import { env: env.clone(), report: Report::default(), batch: Batch::default(), lines: 0 };
    let mut begun: Vec<u8> = Vec::new();
    let mut too_long = false;
    while let Some(chunk) = body.next().await {
        let chunk = chunk?;
        let mut rest: &[u8] = &chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (head, tail) = rest.split_at(end);
            rest = tail.get(1..).unwrap_or_default();
            if too_long || begun.len() + head.len() > MAX_LINE {
                import.bad(&BadLine::TooLong);
            } else if begun.is_empty() {
                import.line(head)?;
            } else {
                begun.extend_from_slice(head);
                import.line(&begun)?;
            }
            begun.clear();
            too_long = false;
        }
        too_long |= begun.len() + rest.len() > MAX_LINE;
        if too_long {
            begun.clear();
        } else {
            begun.extend_from_slice(rest);
        }
    }
    match too_long {
        true => import.bad(&BadLine::TooLong),
        false => import.line(&begun)?,
    }
    import.commit()?;
    Ok(import.report)
}

struct Import {
    env: Env,
    report: Report,
    batch: Batch,
    /// How many ended.
    lines: u64,
}

impl Import {
    fn line(&mut self, line: &[u8]) -> Result<(), Error> {
        if line.trim_ascii().is_empty() {
            self.lines += 1;
            return Ok(());
        }
        let change = match issue::parse(line) {
            Ok(change) => change,
            Err(why) => {
                self.bad(&BadLine::Issue(why));
                return Ok(());
            }
        };
        self.lines += 1;
        self.batch.add(&change, line.len());
        *self.report.imported.entry("issue").or_default() += 1;
        if self.batch.is_full() { self.commit() } else { Ok(()) }
    }

    fn bad(&mut self, why: &BadLine) {
        self.lines += 1;
        self.report.failed += 1;
        if self.report.errors.len() < MAX_ERRORS {
            let error = why.to_string().chars().take(MAX_TEXT).collect();
            self.report.errors.push(LineReport { line: self.lines, error });
        }
    }

    fn commit(&mut self) -> Result<(), Error> {
        if !self.batch.is_empty() {
            let store = Store::new(&self.env.later());
            maintenance::commit(&store, std::mem::take(&mut self.batch))?;
            maintenance::tidy(&store)?;
        }
        Ok(())
    }
}
