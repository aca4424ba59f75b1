//! Finds out whether a database that could not be written can be written again.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::store::{ErrorKind, StoreError, StoreHealth, StoreProblem};

/// No component can open a store with this label: labels of the manifest have no dot in front.
const PUT: &str = "INSERT INTO spin_key_value (store, key, value) VALUES ('.hexad', 'write-probe', zeroblob(?1))
    ON CONFLICT (store, key) DO UPDATE SET value = zeroblob(?1)";
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
        self.due = health.outage_bytes().map(|_| self.due.unwrap_or_else(|| Instant::now() + self.interval));
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Whether it is time for a probe. It returns that once.
    pub fn take_due(&mut self) -> bool {
        self.due.take_if(|due| *due <= Instant::now()).is_some()
    }
}

/// Writes a value of this size in the open transaction, commits it, and removes it.
pub fn write(connection: &Connection, bytes: usize) -> rusqlite::Result<()> {
    connection.execute(PUT, [i64::try_from(bytes).unwrap_or(i64::MAX)])?;
    // The value is removed in a transaction of its own, so that it does take up its room.
    connection.execute_batch("COMMIT")?;
    connection.execute(REMOVE, []).map(drop)
}

/// Records why a transaction of this size, or a read, has failed.
pub fn record_failure(health: &StoreHealth, error: &StoreError, bytes: usize) {
    match (error, error.kind()) {
        (StoreError::Damaged(finding), _) => health.set_damaged(finding),
        // It lasts: no probe can end it.
        (StoreError::Unavailable { problem: StoreProblem::Removed | StoreProblem::Unlocked, .. }, _) => {}
        (StoreError::Unavailable { reason, .. } | StoreError::Unknown { reason, .. }, kind) => {
            if let ErrorKind::Unavailable(problem) | ErrorKind::Unknown(problem) = kind {
                health.begin_outage(problem, reason, bytes);
            }
        }
        _ => {}
    }
}
