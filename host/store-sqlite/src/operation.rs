//! The writes of requests, in the writer's queue.

use hexad_store::{CasOutcome, Key, LedgerEntry, StoreError};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// A write of a request.
pub enum SqliteWrite {
    Set {
        pairs: Vec<(Key, Vec<u8>)>,
        /// A permit of the caller's budget, released once SQLite has the values.
        permit: OwnedSemaphorePermit,
    },
    Delete(Vec<Key>),
    Increment {
        key: Key,
        delta: i64,
        reply: oneshot::Sender<Result<i64, StoreError>>,
    },
    Cas {
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
        reply: oneshot::Sender<Result<CasOutcome, StoreError>>,
    },
}

impl SqliteWrite {
    /// The memory that the write takes in the queue.
    pub fn bytes(&self) -> usize {
        // Bytes that a queued key takes in addition to its text.
        const KEY: usize = 64;
        match self {
            SqliteWrite::Set { pairs, .. } => pairs.iter().map(|(key, value)| KEY + key.key.len() + value.len()).sum(),
            SqliteWrite::Delete(keys) => keys.iter().map(|key| KEY + key.key.len()).sum(),
            SqliteWrite::Increment { key, .. } => KEY + key.key.len(),
            SqliteWrite::Cas { key, expected, value, .. } => {
                KEY + key.key.len() + value.len() + expected.as_ref().map_or(0, Vec::len)
            }
        }
    }

    /// About how many bytes the write adds to the write-ahead log: its values, and for each key a page of the table and
    /// a page of the index.
    pub fn log_bytes(&self) -> usize {
        const PAGES: usize = 2 * 4096;
        match self {
            SqliteWrite::Set { pairs, .. } => pairs.iter().map(|(_, value)| PAGES + value.len()).sum(),
            SqliteWrite::Delete(keys) => PAGES * keys.len(),
            SqliteWrite::Increment { .. } => PAGES,
            SqliteWrite::Cas { value, .. } => PAGES + value.len(),
        }
    }

    pub fn refuse(self, error: &StoreError) {
        // If the request was cancelled, sending fails.
        match self {
            SqliteWrite::Set { .. } | SqliteWrite::Delete(_) => {}
            SqliteWrite::Increment { reply, .. } => drop(reply.send(Err(error.clone()))),
            SqliteWrite::Cas { reply, .. } => drop(reply.send(Err(error.clone()))),
        }
    }
}

/// A message to the writer.
pub enum Message {
    Write(QueuedWrite),
    /// A request waits for the writes before this message.
    Commit,
    Stop,
}

pub struct QueuedWrite {
    pub operation: SqliteWrite,
    pub entry: LedgerEntry,
    /// A permit of the queue's budget and, for a deletion, one of its request's budget.
    pub queue_permit: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}
