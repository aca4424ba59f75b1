//! Errors of a store.

use std::sync::Arc;

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
    NotDurable(Arc<str>),
    #[error("the store is damaged and takes no more writes: {0}")]
    Damaged(Arc<str>),
    #[error("the storage engine failed: {0}")]
    Engine(Arc<str>),
}
