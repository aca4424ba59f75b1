//! The writes that a request can make.

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::writer::Durability;
use crate::store::{Key, LedgerEntry, StoreError, Swap};

pub enum WriteOperation {
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
        reply: oneshot::Sender<Result<Swap, StoreError>>,
    },
    Flush,
}

pub type Queued = (WriteOperation, LedgerEntry);

/// Ends an operation that is not carried out.
pub fn refuse(operation: WriteOperation, entry: LedgerEntry, error: StoreError) {
    match operation {
        WriteOperation::Increment { reply, .. } => drop(reply.send(Err(error.clone()))),
        WriteOperation::Swap { reply, .. } => drop(reply.send(Err(error.clone()))),
        WriteOperation::Set { .. } | WriteOperation::Delete(_) | WriteOperation::Flush => {}
    }
    entry.fail(error);
}
