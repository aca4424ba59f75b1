//! Errors of a store.

use std::sync::Arc;

use super::problem::StoreProblem;

/// Why an operation failed. The guest gets the text as `error::other`, so it names no path.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the value of `{key}` is not a counter: it has {len} bytes, a counter has 8")]
    NotACounter { key: Arc<str>, len: usize },
    #[error("the counter `{key}` cannot hold {value} plus {delta}")]
    CounterOverflow { key: Arc<str>, value: i64, delta: i64 },
    #[error("the result is larger than {limit} bytes")]
    ResultTooLarge { limit: usize },
    #[error("a write of this request could not be made durable: {0}")]
    NotDurable(Arc<StoreError>),
    #[error("the store cannot be used now: {reason}")]
    Unavailable { problem: StoreProblem, reason: Arc<str> },
    #[error("it is not known whether the write took place: {reason}")]
    Unknown { problem: StoreProblem, reason: Arc<str> },
    #[error("the store is damaged and takes no more writes: {0}")]
    Damaged(Arc<str>),
    #[error("the storage engine failed: {0}")]
    Engine(Arc<str>),
}

/// Whether the failed operation may have taken place, and whether it may succeed if the client tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The operation did not take place, and would fail again.
    Fault,
    /// The operation did not take place, and may succeed later.
    Unavailable(StoreProblem),
    /// The outcome of the operation is unknown. It may succeed later.
    Unknown(StoreProblem),
}

impl StoreError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotACounter { .. }
            | Self::CounterOverflow { .. }
            | Self::ResultTooLarge { .. }
            | Self::Damaged(_)
            | Self::Engine(_) => ErrorKind::Fault,
            Self::NotDurable(cause) => cause.kind(),
            Self::Unavailable { problem, .. } => ErrorKind::Unavailable(*problem),
            Self::Unknown { problem, .. } => ErrorKind::Unknown(*problem),
        }
    }

    /// The writer ended before it took the operation.
    pub fn writer_stopped() -> Self {
        Self::Unavailable { problem: StoreProblem::WriterStopped, reason: Arc::from("its writer has stopped") }
    }
}
