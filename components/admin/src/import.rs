//! The import: lines out of a stream of chunks, each applied on its own.

use crate::bad_line::{BadLine, Unapplied};
use crate::record::{self, Pending};
use kit::{Body, Env, Error};
use serde::Serialize;
use std::collections::BTreeMap;

/// The longest line, in bytes: what bounds the memory of an import of any size.
const MAX_LINE: usize = 1 << 20;

/// How many bad lines an answer tells about.
const MAX_ERRORS: usize = 100;

/// How much of an error's text an answer has, in characters: it may quote what was sent.
const MAX_TEXT: usize = 300;

/// What became of the lines.
#[derive(Default, Serialize)]
pub struct Report {
    /// How many of each kind were applied.
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

/// Applies every line of `body`. A bad line changes nothing and the others are applied. If the body
/// breaks off, the lines before stay; if storage fails, what was written stays, and the import is
/// to be repeated.
pub async fn run(env: &Env, mut body: Body) -> Result<Report, Error> {
    let mut report = Report::default();
    let mut lines = Lines::default();
    while let Some(chunk) = body.next().await {
        if chunk.is_err() {
            lines.pending.write(env)?;
        }
        let mut rest: &[u8] = &chunk?;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = rest.split_at(end);
            lines.extend(head);
            lines.end(env, &mut report)?;
            rest = tail.get(1..).unwrap_or_default();
        }
        lines.extend(rest);
    }
    lines.end(env, &mut report)?;
    lines.pending.write(env)?;
    Ok(report)
}

/// The line that is being read.
#[derive(Default)]
struct Lines {
    /// How many ended before it.
    before: u64,
    text: Vec<u8>,
    too_long: bool,
    /// Of the lines before.
    pending: Pending,
}

impl Lines {
    fn extend(&mut self, part: &[u8]) {
        self.too_long |= self.text.len() + part.len() > MAX_LINE;
        if self.too_long {
            self.text.clear();
        } else {
            self.text.extend_from_slice(part);
        }
    }

    fn end(&mut self, env: &Env, report: &mut Report) -> Result<(), Error> {
        self.before += 1;
        let outcome = if self.too_long {
            Err(BadLine::TooLong { limit: MAX_LINE }.into())
        } else if self.text.trim_ascii().is_empty() {
            Ok(None)
        } else {
            record::apply(env, &self.text, &mut self.pending).map(Some)
        };
        self.text.clear();
        self.too_long = false;
        match outcome {
            Ok(None) => {}
            Ok(Some(kind)) => *report.imported.entry(kind).or_default() += 1,
            Err(Unapplied::Fault(fault)) => return Err(fault.into()),
            Err(Unapplied::Bad(why)) => {
                report.failed += 1;
                if report.errors.len() < MAX_ERRORS {
                    let error = why.to_string().chars().take(MAX_TEXT).collect();
                    report.errors.push(LineReport { line: self.before, error });
                }
            }
        }
        Ok(())
    }
}
