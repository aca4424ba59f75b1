//! The import: lines out of a stream of chunks, each applied on its own, the catalog following in
//! batches.

use crate::bad_line::{BadLine, Unapplied};
use crate::record::{Pending, Record};
use directory::catalog;
use directory::catalog::change::Changes;
use kit::{Body, Env, Error};
use serde::Serialize;
use std::collections::BTreeMap;

/// The longest line, in bytes: what bounds the memory of an import of any size.
const MAX_LINE: usize = 1 << 20;

/// How many lines, and how many bytes of them, are applied together.
const BATCH_LINES: usize = 16 * 1024;
const BATCH_BYTES: usize = 8 << 20;

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
    let mut batch = Batch::default();
    while let Some(chunk) = body.next().await {
        if chunk.is_err() {
            std::mem::take(&mut batch).apply(env, &mut report)?;
        }
        let mut rest: &[u8] = &chunk?;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = rest.split_at(end);
            lines.extend(head);
            lines.end(&mut batch);
            if batch.is_full() {
                std::mem::take(&mut batch).apply(env, &mut report)?;
            }
            rest = tail.get(1..).unwrap_or_default();
        }
        lines.extend(rest);
    }
    lines.end(&mut batch);
    batch.apply(env, &mut report)?;
    Ok(report)
}

/// The line that is being read.
#[derive(Default)]
struct Lines {
    /// How many ended before it.
    before: u64,
    text: Vec<u8>,
    too_long: bool,
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

    fn end(&mut self, batch: &mut Batch) {
        self.before += 1;
        batch.bytes += self.text.len();
        if self.too_long {
            batch.lines.push((self.before, Err(BadLine::TooLong { limit: MAX_LINE })));
        } else if !self.text.trim_ascii().is_empty() {
            batch.lines.push((self.before, Record::parse(&self.text)));
        }
        self.text.clear();
        self.too_long = false;
    }
}

/// Lines that are read and not applied yet. The catalog follows once for all of them.
#[derive(Default)]
struct Batch {
    /// With their numbers, from 1.
    lines: Vec<(u64, Result<Record, BadLine>)>,
    bytes: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.lines.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES
    }

    fn apply(self, env: &Env, report: &mut Report) -> Result<(), Error> {
        // An import may take hours; what a batch writes is as old as the batch.
        let env = &env.later();
        let mut changes = Changes::default();
        self.lines.iter().filter_map(|(_, line)| line.as_ref().ok()).for_each(|record| record.announce(&mut changes));
        let announcement = catalog::change::announce(env, changes)?;
        let mut pending = Pending::default();
        for (number, line) in self.lines {
            let outcome = line.map_err(Unapplied::from).and_then(|record| {
                let kind = record.kind();
                record.apply(env, &mut pending).map(|()| kind)
            });
            match outcome {
                Ok(kind) => *report.imported.entry(kind).or_default() += 1,
                Err(Unapplied::Fault(fault)) => return Err(fault.into()),
                Err(Unapplied::Bad(why)) => report.add(number, &why),
            }
        }
        pending.write(env)?;
        Ok(announcement.settle(env)?)
    }
}

impl Report {
    fn add(&mut self, line: u64, why: &BadLine) {
        self.failed += 1;
        if self.errors.len() < MAX_ERRORS {
            let error = why.to_string().chars().take(MAX_TEXT).collect();
            self.errors.push(LineReport { line, error });
        }
    }
}
