//! The trait of storage engines.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::change_clock::ChangeClock;
use super::error::StoreError;
use super::ledger::Ledger;
use super::server_clock::ServerClock;

/// Longest key, in bytes. Spin's engines have no limit. With this one, each page of the table's index holds several
/// keys.
pub const MAX_KEY_BYTES: usize = 1024;

/// Largest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 32 * 1024 * 1024;

/// The outcome of a compare-and-swap. A lost race is an outcome, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CasOutcome {
    Swapped,
    /// The present value differed; `None` if the key is absent.
    Lost(Option<Vec<u8>>),
}

/// Ready once the host knows the changes of the other hosts of its store. Every request has one, so it is not boxed and
/// has no timer: the engine ends each wait in time.
pub struct CatchUp(oneshot::Receiver<Result<(), StoreError>>);

/// Ends the wait of one request.
pub type CaughtUp = oneshot::Sender<Result<(), StoreError>>;

impl CatchUp {
    pub fn new() -> (CaughtUp, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }
}

impl Future for CatchUp {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|outcome| outcome.unwrap_or_else(|_| Err(StoreError::writer_stopped())))
    }
}

/// A storage engine, as one shard of the host sees it.
///
/// Equal keys in two stores are different keys. Counters have the engine's own form and are never read with
/// [`get`](Backend::get).
#[async_trait]
pub trait Backend: Send + Sync {
    async fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError>;

    async fn exists(&self, key: &Key) -> Result<bool, StoreError>;

    /// Up to `limit` keys that start with `prefix` and sort after `after`, in byte order.
    async fn list(&self, store: &Arc<str>, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError>;

    /// One element for each key, in the order of `keys`, all from one snapshot.
    /// Fails if the values have more than `limit` bytes together.
    async fn get_many(&self, keys: &[Key], limit: usize) -> Result<Vec<Option<Vec<u8>>>, StoreError>;

    /// `permit` belongs to the caller's budget for queued bytes. It is released once the value has left the queue.
    async fn set(
        &self,
        ledger: &Ledger,
        key: Key,
        value: Vec<u8>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), StoreError> {
        self.set_many(ledger, vec![(key, value)], permit).await
    }

    async fn delete(&self, ledger: &Ledger, key: Key) -> Result<(), StoreError> {
        self.delete_many(ledger, vec![key]).await
    }

    /// All of the writes become durable together.
    async fn set_many(
        &self,
        ledger: &Ledger,
        pairs: Vec<(Key, Vec<u8>)>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), StoreError>;

    /// All of the deletions become durable together.
    async fn delete_many(&self, ledger: &Ledger, keys: Vec<Key>) -> Result<(), StoreError>;

    /// Adds `delta` to the counter, which starts at 0, and returns its new value.
    async fn increment(&self, ledger: &Ledger, key: Key, delta: i64) -> Result<i64, StoreError>;

    /// Stores `value` if the present value is exactly `expected`; `None` expects an absent key.
    async fn cas(
        &self,
        ledger: &Ledger,
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<CasOutcome, StoreError>;

    /// As [`increment`](Self::increment), for a key that the manifest calls volatile. A crash of the engine may undo
    /// the last changes, if that costs less. If the store cannot keep the change, only this call fails.
    async fn increment_volatile(&self, ledger: &Ledger, key: Key, delta: i64) -> Result<i64, StoreError> {
        self.increment(ledger, key, delta).await
    }

    /// As [`cas`](Self::cas), for a volatile key.
    async fn cas_volatile(
        &self,
        ledger: &Ledger,
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<CasOutcome, StoreError> {
        self.cas(ledger, key, expected, value).await
    }

    /// `None` if the engine does not learn of every change.
    fn change_clock(&self) -> Option<&ChangeClock> {
        None
    }

    /// The time that the hosts of the store share. `None` for a store of one host, which uses its own time.
    fn server_clock(&self) -> Option<&Arc<ServerClock>> {
        None
    }

    /// The wait of a request before it uses a cached value or response of the store. Afterwards, the change clock has
    /// every change that was visible when the request arrived. `None` if the clock always has.
    fn catch_up(&self) -> Option<CatchUp> {
        None
    }

    /// Binds a request's reads to its writes. Called before each read. If the engine later loses values that the
    /// request may have seen, it refuses the request's writes.
    fn bind_reads(&self, _ledger: &Ledger) {}

    /// How often the engine has lost, as far as it knows, values that requests had seen or written. An instance from
    /// before a loss may keep values that are no longer stored, and takes no request after it. When
    /// [`bind_reads`](Self::bind_reads) binds a request after a loss, the loss is counted here.
    fn losses(&self) -> u64 {
        0
    }

    /// Whether reads are so slow that it pays to fetch the values that a request is likely to read.
    fn prefetches(&self) -> bool {
        false
    }

    /// Fetches values that a request is likely to read, in one call. Never fails: the request reads missing values
    /// later.
    async fn prefetch(&self, _keys: &[Key]) {}

    /// Returns once every write in `ledger` is durable, or fails once one of them cannot be.
    async fn durable(&self, ledger: &Ledger) -> Result<(), StoreError>;
}

/// A key in a store. The store is the label that the component opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub store: Arc<str>,
    pub key: Arc<str>,
}
