//! Key-value storage: one trait, and the SQLite engine behind it.
//!
//! # When is a write durable, and who waits for it
//!
//! A write is *applied* inside the engine's open transaction and becomes *durable* when that
//! transaction is committed (one flush to disk). To make a request that writes several keys pay
//! for one flush, and requests at the same moment share it, applying and waiting are separate:
//!
//! 1. [`Backend::set`] and [`Backend::delete`] only queue. [`Backend::increment`] and
//!    [`Backend::cas`] return once applied. Each is an entry in the request's [`Ledger`].
//! 2. The host holds back the head of the response until the ledger is settled
//!    ([`Backend::durable`]), so nothing is acknowledged to a client before it is durable.
//! 3. Writes that a guest makes after its response head wait for durability themselves.
//! 4. If a commit fails, every ledger with an entry in it fails: the request is answered 500, and
//!    what it had queued behind the failed transaction is refused, not applied. Operations that
//!    only *looked* inside the open transaction (a lost swap, say) are entries too, because their
//!    answer may rest on a neighbour's write that was rolled back.
//!
//! Reads see committed data only. A request that reads what it wrote settles its ledger first;
//! `keyvalue` sees to that.

mod change_clock;
mod ledger;
mod lock;
mod near_cache;
pub mod sqlite;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::OwnedSemaphorePermit;

pub use change_clock::{ChangeClock, Slot};
pub use ledger::{Entry, Ledger};
pub use lock::LockError;

/// Longest key, in bytes. Spin's engines have no limit of their own; 1 KiB is far above every
/// key that the areas build and keeps a page of the table's index useful.
pub const MAX_KEY_BYTES: usize = 1024;

/// Largest value, in bytes. The areas cut blobs at 1 MiB; foreign guests get room above that.
pub const MAX_VALUE_BYTES: usize = 32 * 1024 * 1024;

/// A key in a store. The store is the label that the component opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub store: Arc<str>,
    pub key: Arc<str>,
}

/// The outcome of a compare-and-swap. A lost race is an outcome, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    Swapped,
    /// Another value was there: the one given, or none.
    Lost(Option<Vec<u8>>),
}

/// Why an operation failed. It reaches the guest as `error::other`, so it names no path.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
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

/// A storage engine, as one shard of the host sees it.
///
/// Stores share nothing but the engine: the same key in two stores is two keys. Counters are in
/// the engine's own form and are never read with [`get`](Backend::get).
#[async_trait]
pub trait Backend: Send + Sync {
    async fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Error>;

    async fn exists(&self, key: &Key) -> Result<bool, Error>;

    /// Up to `limit` keys that start with `prefix` and sort after `after`, in byte order.
    async fn list(&self, store: &Arc<str>, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, Error>;

    /// One entry for each key asked for, in that order; all of them from one snapshot.
    /// Fails if the values have more than `limit` bytes together.
    async fn get_many(&self, keys: &[Key], limit: usize) -> Result<Vec<Option<Vec<u8>>>, Error>;

    /// `room` is the writer's share of some budget for queued bytes: it is given back once the
    /// value has left the queue.
    async fn set(&self, ledger: &Ledger, key: Key, value: Vec<u8>, room: OwnedSemaphorePermit) -> Result<(), Error>;

    async fn delete(&self, ledger: &Ledger, key: Key) -> Result<(), Error>;

    /// All of the writes become durable together.
    async fn set_many(
        &self,
        ledger: &Ledger,
        pairs: Vec<(Key, Vec<u8>)>,
        room: OwnedSemaphorePermit,
    ) -> Result<(), Error>;

    /// All of the deletions become durable together.
    async fn delete_many(&self, ledger: &Ledger, keys: Vec<Key>) -> Result<(), Error>;

    /// Adds `delta` to the counter, which starts at 0, and returns its new value.
    async fn increment(&self, ledger: &Ledger, key: Key, delta: i64) -> Result<i64, Error>;

    /// Stores `value` if the present value is exactly `expected` (`None`: if there is none).
    async fn cas(&self, ledger: &Ledger, key: Key, expected: Option<Vec<u8>>, value: Vec<u8>) -> Result<Swap, Error>;

    /// The last change of each key; `None` if the engine does not see every change.
    fn change_clock(&self) -> Option<&ChangeClock> {
        None
    }

    /// Returns once every write in `ledger` is durable, or one of them cannot become so.
    async fn durable(&self, ledger: &Ledger) -> Result<(), Error>;
}
