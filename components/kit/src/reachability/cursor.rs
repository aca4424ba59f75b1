//! The position of a run: the cursor of an answer, which the client sends for the next step.

use crate::clock::Timestamp;
use crate::env::Env;
use crate::id;
use crate::store::StoreError;
use std::fmt;

/// The longest time that a run may take, in milliseconds. Its mark log becomes garbage some time later.
pub const LONGEST_RUN: i64 = 24 * 60 * 60 * 1000;

/// The position of a run between two steps.
pub struct Cursor {
    /// The run's id, which contains the time at which it began.
    pub run: String,
    pub phase: Phase,
    /// The last key that a step has handled.
    pub after: String,
}

/// The phases of a run, in order. `written` counts the blobs of the mark log.
pub enum Phase {
    /// `position` is where the removal of the root after `after` was suspended, if it takes more than a step.
    Roots { written: u64, position: Option<String> },
    /// `visited` counts the visited marks in the log blob after `after`.
    Blobs { written: u64, visited: usize },
    /// After everything is marked; only in garbage collection. `read` counts the log blobs that are sorted. `last` is
    /// the last batch of sorted marks.
    Sort { read: u64, last: Option<String> },
    /// After everything is sorted.
    Sweep { last: Option<String> },
    /// After the sweep, the run removes its own blobs.
    CleanUp,
}

impl Cursor {
    /// Parses a cursor; without text, begins a new run. [`StepError::Cursor`] if the run is older than [`LONGEST_RUN`].
    pub fn resume(env: &Env, text: Option<&str>) -> Result<Self, StepError> {
        let cursor = match text {
            None => Cursor { run: env.id(), phase: Phase::Roots { written: 0, position: None }, after: String::new() },
            Some(text) => Cursor::parse(text).ok_or(StepError::Cursor)?,
        };
        let age = env.now.millis() - cursor.began()?.millis();
        if age.abs() > LONGEST_RUN { Err(StepError::Cursor) } else { Ok(cursor) }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(3, ':');
        let (run, phase, after) = (fields.next()?, fields.next()?, fields.next()?);
        let phase = match phase.split_at_checked(1)? {
            ("r", reached) => {
                let (written, position) = match reached.split_once('.') {
                    Some((written, position)) => (written, Some(position.to_owned())),
                    None => (reached, None),
                };
                Phase::Roots { written: written.parse().ok()?, position }
            }
            ("b", places) => {
                let (written, visited) = places.split_once('.')?;
                Phase::Blobs { written: written.parse().ok()?, visited: visited.parse().ok()? }
            }
            ("s", sorted) => {
                let (read, last) = sorted.split_once('.')?;
                Phase::Sort { read: read.parse().ok()?, last: parse_batch(last)? }
            }
            ("w", last) => Phase::Sweep { last: parse_batch(last)? },
            ("c", "") => Phase::CleanUp,
            _ => return None,
        };
        Some(Cursor { run: run.to_owned(), phase, after: after.to_owned() })
    }

    /// The time at which the run began.
    pub fn began(&self) -> Result<Timestamp, StepError> {
        id::number(&self.run).map(id::made_at).ok_or(StepError::Cursor)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Cursor { run, phase, after } = self;
        match phase {
            Phase::Roots { written, position: None } => write!(f, "{run}:r{written}:{after}"),
            Phase::Roots { written, position: Some(position) } => write!(f, "{run}:r{written}.{position}:{after}"),
            Phase::Blobs { written, visited } => write!(f, "{run}:b{written}.{visited}:{after}"),
            Phase::Sort { read, last } => write!(f, "{run}:s{read}.{}:{after}", last.as_deref().unwrap_or_default()),
            Phase::Sweep { last } => write!(f, "{run}:w{}:{after}", last.as_deref().unwrap_or_default()),
            Phase::CleanUp => write!(f, "{run}:c:{after}"),
        }
    }
}

/// Parses the id of a batch of sorted marks. Empty text means that there is no batch.
fn parse_batch(text: &str) -> Option<Option<String>> {
    if text.is_empty() { Some(None) } else { id::number(text).map(|_| Some(text.to_owned())) }
}

/// The reason why a step was not done.
#[derive(Debug, PartialEq, Eq)]
pub enum StepError {
    /// The cursor is malformed, or its run has ended or expired.
    Cursor,
    Store(StoreError),
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        StepError::Store(error)
    }
}
