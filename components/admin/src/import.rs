//! The import: lines out of a stream of chunks, each applied on its own, the catalog following in
//! batches.

use crate::bad_line::{BadLine, Unapplied};
use crate::record::{Pending, Record};
use directory::catalog::intent_log::{Changes, IntentLog};
use kit::ndjson::{ImportReport, Line, LineReader};
use kit::{Body, Env, Error};

/// The longest line, in bytes: what bounds the memory of an import of any size.
const MAX_LINE: usize = 1 << 20;

/// How many lines, and how many bytes of them, are applied together.
const BATCH_LINES: usize = 16 * 1024;
const BATCH_BYTES: usize = 8 << 20;

/// Applies every line of `body`. A bad line changes nothing and the others are applied. If the body
/// breaks off, the lines before stay; if storage fails, what was written stays, and the import is
/// to be repeated.
pub async fn run(env: &Env, body: Body) -> Result<ImportReport, Error> {
    let mut report = ImportReport::default();
    let mut lines = LineReader::new(body, MAX_LINE);
    let mut batch = Batch::default();
    loop {
        let line = match lines.next().await {
            Ok(line) => line,
            Err(broken) => {
                batch.apply(env, &mut report)?;
                return Err(broken.into());
            }
        };
        let Some(line) = line else { break };
        batch.add(line);
        if batch.is_full() {
            std::mem::take(&mut batch).apply(env, &mut report)?;
        }
    }
    batch.apply(env, &mut report)?;
    Ok(report)
}

/// LineReader that are read and not applied yet. The catalog follows once for all of them.
#[derive(Default)]
struct Batch {
    /// With their numbers, from 1.
    lines: Vec<(u64, Result<Record, BadLine>)>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, line: Line) {
        let record = line.text.map_err(BadLine::from).and_then(|text| {
            self.bytes += text.len();
            Record::parse(&text)
        });
        self.lines.push((line.number, record));
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES
    }

    fn apply(self, env: &Env, report: &mut ImportReport) -> Result<(), Error> {
        // An import may take hours; what a batch writes is as old as the batch.
        let env = &env.later();
        let mut changes = Changes::default();
        self.lines.iter().filter_map(|(_, line)| line.as_ref().ok()).for_each(|record| record.announce(&mut changes));
        let intents = IntentLog::begin(env, changes)?;
        let mut pending = Pending::default();
        for (number, line) in self.lines {
            let outcome = line.map_err(Unapplied::from).and_then(|record| {
                let kind = record.kind();
                record.apply(env, &mut pending).map(|()| kind)
            });
            match outcome {
                Ok(kind) => report.imported(kind),
                Err(Unapplied::Store(fault)) => return Err(fault.into()),
                Err(Unapplied::Bad(why)) => report.failed(number, why),
            }
        }
        pending.write(env)?;
        Ok(intents.commit(env)?)
    }
}
