//! The import. It applies each line separately, and updates the catalog once for each batch of lines.

use crate::line_error::{InvalidLine, LineError};
use crate::record::{PendingChanges, Record};
use directory::catalog::changes::Changes;
use directory::catalog::intent_log::IntentLog;
use directory::feature::Actor;
use directory::reauthorization::AdminRequest;
use kit::ndjson::{ImportReport, LineReader};
use kit::store::StoreError;
use kit::{Body, Env, Error};
use std::collections::BTreeSet;

/// The longest line, in bytes. It bounds the memory of an import of any size.
const MAX_LINE: usize = 1 << 20;

/// The largest batch, in lines and in bytes of lines.
const BATCH_LINES: usize = 16 * 1024;
const BATCH_BYTES: usize = 8 << 20;

/// Applies every line of `body`. An invalid line is reported and changes nothing; other lines are applied. If the body
/// breaks off, earlier lines stay applied. If storage fails, the client repeats the import. If the sender of `request`
/// loses the administrator role, earlier batches stay applied, and the error has their report.
pub async fn run(env: &Env, request: &AdminRequest, body: Body) -> Result<ImportReport, Error> {
    let mut report = ImportReport::default();
    let mut lines = LineReader::new(body, MAX_LINE);
    let mut batch = Batch::default();
    loop {
        let line = match lines.next().await {
            Ok(line) => line,
            Err(error) => {
                batch.apply(env, request, &mut report)?;
                return Err(error.into());
            }
        };
        let Some(line) = line else { break };
        let bytes = line.text.as_ref().map_or(0, |text| text.len());
        let record = line.text.map_err(InvalidLine::from).and_then(|text| Record::parse(&text));
        // Earlier lines must be applied first, because dependents are looked up in the catalog.
        if let Ok(record) = &record
            && batch.has_tree_lines
            && (batch.has_subject_of(record) || may_change_dependents(env, record)?)
        {
            std::mem::take(&mut batch).apply(env, request, &mut report)?;
        }
        batch.add(line.number, bytes, record);
        if batch.is_full() {
            std::mem::take(&mut batch).apply(env, request, &mut report)?;
        }
    }
    batch.apply(env, request, &mut report)?;
    Ok(report)
}

/// Whether applying the record changes its dependents. True if the stored record cannot be read: then earlier lines are
/// applied first, and this line fails.
fn may_change_dependents(env: &Env, record: &Record) -> Result<bool, StoreError> {
    match record.changes_dependents(env) {
        Err(StoreError::Corrupt { .. }) => Ok(true),
        outcome => outcome,
    }
}

/// Lines that are parsed and not applied yet.
#[derive(Default)]
struct Batch {
    /// Each line with its number, from 1.
    lines: Vec<(u64, Result<Record, InvalidLine>)>,
    bytes: usize,
    /// Whether a line changes groups, projects or members.
    has_tree_lines: bool,
    /// The users, groups and projects that the batch creates or changes.
    subjects: BTreeSet<Actor>,
}

impl Batch {
    fn add(&mut self, number: u64, bytes: usize, record: Result<Record, InvalidLine>) {
        self.bytes += bytes;
        self.has_tree_lines |= record.as_ref().is_ok_and(Record::changes_tree);
        self.subjects.extend(record.as_ref().ok().and_then(Record::subject));
        self.lines.push((number, record));
    }

    /// Whether the batch has an earlier line about the record's user, group or project. The record may then move records
    /// that the batch puts below their namespace, and the earlier line must be confirmed first.
    fn has_subject_of(&self, record: &Record) -> bool {
        record.subject().is_some_and(|subject| self.subjects.contains(&subject))
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES
    }

    fn apply(self, env: &Env, request: &AdminRequest, report: &mut ImportReport) -> Result<(), Error> {
        // An import may take hours, and each batch dates the blobs that it writes.
        let env = &env.with_current_time();
        // Earlier lines may have revoked the permissions of the sender. Without further lines no permission is needed.
        if !self.lines.is_empty() {
            request.authorize(env).map_err(|error| report.ended_by(error))?;
        }
        let mut changes = Changes::default();
        self.lines.iter().filter_map(|(_, line)| line.as_ref().ok()).for_each(|record| record.add_to(&mut changes));
        let intent_log = IntentLog::begin(env, changes)?;
        let mut pending = PendingChanges::default();
        for (number, line) in self.lines {
            let outcome = line.map_err(LineError::from).and_then(|record| {
                let (kind, warning) = (record.kind(), record.warning());
                record.apply(env, number, &mut pending).map(|is_written| is_written.then_some((kind, warning)))
            });
            match outcome {
                Ok(None) => {}
                Ok(Some((kind, warning))) => {
                    report.imported(kind);
                    warning.into_iter().for_each(|warning| report.warn(number, warning));
                }
                Err(LineError::Store(error)) => return Err(error.into()),
                Err(LineError::Invalid(invalid)) => report.failed(number, invalid),
            }
        }
        pending.finish(env, report)?;
        Ok(intent_log.commit(env)?)
    }
}
