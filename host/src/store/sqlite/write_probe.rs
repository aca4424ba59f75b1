//! Finds out whether a database that could not be written can be written again.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::classify::classify_commit;
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

    /// Probes the database if it is time. The connection must have no open transaction.
    pub fn run(&mut self, connection: &Connection, health: &StoreHealth) {
        if self.due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        self.due = None;
        let Some(bytes) = health.probe_bytes() else { return };
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        // Each of the two is a transaction of its own, so that the value does take up its room.
        let written = connection.execute(PUT, [bytes]).and_then(|_| connection.execute(REMOVE, []));
        match written.map_err(|error| classify_commit(&error)) {
            Ok(_) => health.record_commit(usize::MAX),
            Err(error) => record_failure(health, &error, 0),
        }
    }
}

/// Records why a transaction of this size, or a read, has failed.
pub fn record_failure(health: &StoreHealth, error: &StoreError, bytes: usize) {
    match (error, error.kind()) {
        (StoreError::Damaged(finding), _) => health.set_damaged(finding),
        // It lasts: no probe can end it.
        (StoreError::Unavailable { problem: StoreProblem::Removed, .. }, _) => {}
        (StoreError::Unavailable { reason, .. } | StoreError::Unknown { reason, .. }, kind) => {
            if let ErrorKind::Unavailable(problem) | ErrorKind::Unknown(problem) = kind {
                health.begin_outage(problem, reason, bytes);
            }
        }
        _ => {}
    }
}
