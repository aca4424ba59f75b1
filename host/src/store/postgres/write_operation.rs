//! The writes that a request can make.

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::write_queue_budget::{WriteReservation, WriteSize};
use super::writer::Durability;
use crate::store::{CasOutcome, Key, Ledger, LedgerEntry, StoreError};

/// Bytes that a queued operation takes in addition to its keys and values: its fields, its place in the queue, its
/// ledger entry and the allocator's overhead. A deletion of a short key has hardly more.
const OPERATION_BYTES: usize = 256;

/// Bytes that a queued key takes in addition to its text.
const KEY_BYTES: usize = 64;

pub enum PostgresWrite {
    Set {
        pairs: Vec<(Key, Vec<u8>)>,
        permit: OwnedSemaphorePermit,
    },
    Delete(Vec<Key>),
    Increment {
        durability: Durability,
        key: Key,
        delta: i64,
        reply: oneshot::Sender<Result<i64, StoreError>>,
    },
    Swap {
        durability: Durability,
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
        reply: oneshot::Sender<Result<CasOutcome, StoreError>>,
    },
    Flush,
}

impl PostgresWrite {
    /// About how much memory the operation takes in the queue.
    pub fn bytes(&self) -> usize {
        let payload: usize = match self {
            Self::Set { pairs, .. } => pairs.iter().map(|(key, value)| KEY_BYTES + key.key.len() + value.len()).sum(),
            Self::Delete(keys) => keys.iter().map(|key| KEY_BYTES + key.key.len()).sum(),
            Self::Increment { key, .. } => KEY_BYTES + key.key.len(),
            Self::Swap { key, expected, value, .. } => {
                KEY_BYTES + key.key.len() + value.len() + expected.as_ref().map_or(0, Vec::len)
            }
            Self::Flush => 0,
        };
        OPERATION_BYTES + payload
    }

    /// The bytes that the operation needs in the queue, and their budgets. A flush needs none of the host's budget: it
    /// ends a request, and with it the request's reservations.
    pub fn need(&self) -> WriteSize {
        let of_request = matches!(self, Self::Delete(_) | Self::Flush);
        WriteSize { bytes: self.bytes(), of_request, of_host: !matches!(self, Self::Flush) }
    }
}

/// An operation in the queue of its request.
pub struct Queued {
    pub operation: PostgresWrite,
    pub entry: LedgerEntry,
    pub reservation: WriteReservation,
}

impl Queued {
    /// A flush that the worker itself queues.
    pub fn flush(ledger: &Ledger) -> Self {
        Self { operation: PostgresWrite::Flush, entry: ledger.enter(), reservation: WriteReservation::default() }
    }
}

/// Ends an operation that no worker carries out.
pub fn refuse(operation: PostgresWrite, entry: LedgerEntry, error: StoreError) {
    match operation {
        PostgresWrite::Increment { reply, .. } => drop(reply.send(Err(error.clone()))),
        PostgresWrite::Swap { reply, .. } => drop(reply.send(Err(error.clone()))),
        PostgresWrite::Set { .. } | PostgresWrite::Delete(_) | PostgresWrite::Flush => {}
    }
    entry.fail(error);
}
