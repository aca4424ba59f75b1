//! Checks whether a database can be used, or can be used again: a probe uses a value of its own as requests do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hexad_store::{ErrorKind, StoreError, StoreHealth, StoreProblem};
use rusqlite::{Connection, OptionalExtension};

use super::classify::{classify, classify_commit};

/// No component can open a store with this label: labels in the manifest have no leading dot.
const PUT: &str = "INSERT INTO spin_key_value (store, key, value) VALUES ('.hexad', 'write-probe', zeroblob(?1))
    ON CONFLICT (store, key) DO UPDATE SET value = zeroblob(?1)";
const GET: &str = "SELECT length(value) FROM spin_key_value WHERE store = '.hexad' AND key = 'write-probe'";
const REMOVE: &str = "DELETE FROM spin_key_value WHERE store = '.hexad' AND key = 'write-probe'";

/// When the next probe is due.
pub struct WriteProbe {
    interval: Duration,
    due: Option<Instant>,
}

impl WriteProbe {
    pub fn new(interval: Duration) -> Self {
        Self { interval, due: None }
    }

    /// How long to wait for the next probe; `None` if none is needed.
    pub fn wait(&mut self, health: &StoreHealth) -> Option<Duration> {
        self.due = health.probe_bytes().map(|_| self.due.unwrap_or_else(|| Instant::now() + self.interval));
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Whether a probe is due. Returns true once for each.
    pub fn take_due(&mut self) -> bool {
        self.due.take_if(|due| *due <= Instant::now()).is_some()
    }
}

/// Writes a value of this size in the open transaction, commits it, reads it, and removes it.
pub fn run(connection: &Connection, bytes: usize) -> Result<(), StoreError> {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    let of_commit = |error| classify_commit(&error);
    connection.execute(PUT, [bytes]).map_err(of_commit)?;
    // A separate transaction removes the value, so that the value needs disk space.
    connection.execute_batch("COMMIT").map_err(of_commit)?;
    let found = connection.query_row(GET, [], |row| row.get::<_, i64>(0)).optional().map_err(classify)?;
    connection.execute(REMOVE, []).map_err(of_commit)?;
    match found == Some(bytes) {
        true => Ok(()),
        false => Err(StoreError::Engine(Arc::from("a value that was written is not there"))),
    }
}

/// Records why a transaction of this size, or a read, has failed.
pub fn record_failure(health: &StoreHealth, error: &StoreError, bytes: usize) {
    match (error, error.kind()) {
        (StoreError::Damaged(finding), _) => health.set_damaged(finding),
        // The problem is permanent: no probe can end it.
        (StoreError::Unavailable { problem: StoreProblem::Removed | StoreProblem::Unlocked, .. }, _) => {}
        (StoreError::Unavailable { reason, .. } | StoreError::Unknown { reason, .. }, kind) => {
            if let ErrorKind::Unavailable(problem) | ErrorKind::Unknown(problem) = kind {
                health.begin_outage(problem, reason, bytes);
            }
        }
        // A trigger or a constraint of another program, or an odd request: a probe finds out.
        (StoreError::Engine(_), _) => health.suspect(),
        _ => {}
    }
}

/// Records why a probe has failed. Its own value cannot be the cause.
pub fn record_failed_probe(health: &StoreHealth, error: StoreError) {
    let error = match error {
        StoreError::Engine(reason) => StoreError::Unavailable { problem: StoreProblem::Unusable, reason },
        error => error,
    };
    record_failure(health, &error, 0);
}
