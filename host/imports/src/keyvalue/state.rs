//! The key-value state of one instance, and the waits before reads.
//!
//! Backends read committed data only. Before a request reads its own write, or a write of another request that it has
//! seen, it waits for the commit.

use std::collections::HashSet;
use std::sync::Arc;

use hexad_http::response_cache::Dependencies;
use hexad_limits::anonymous_work::{ClientWork, Work};
use hexad_store::{Backend, CasOutcome, Key, ServerClock, StoreError};
use hexad_telemetry::metrics::Counters;
use hexad_trace::Trace;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::component::{HasData, ResourceTable};

use super::grants::Grants;
use super::request_writes::RequestWrites;

/// Bytes that the values of one instance may take in the writer's queue. An instance that writes faster than the disk
/// waits for its own writes. The engine bounds the deletions of each request, and the queue of all instances together.
const MAX_QUEUED_BYTES: u32 = 4 * 1024 * 1024;

/// Bytes that a queued value takes in addition to itself and the text of its key. Without them, a guest that writes
/// empty values would never wait.
const QUEUED_VALUE_BYTES: usize = 256;

/// Bytes that the values of one instance may take in begun calls before they are in the queue. wasmtime lifts a value
/// out of the guest's memory when its call begins, so that no other bound counts it.
const MAX_UNQUEUED_BYTES: usize = 64 * 1024 * 1024;

/// Values that one instance may read at the same time; further reads wait. The host holds each value until the guest
/// takes it.
const MAX_CONCURRENT_READS: usize = 16;

/// How many written keys the host remembers until they are durable. An instance with more waits until they are durable.
const MAX_UNSETTLED_KEYS: usize = 4096;

/// The key-value state of one instance.
pub struct KeyValue {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) grants: Arc<Grants>,
    pub(super) counters: Arc<Counters>,
    pub(super) scope: RequestWrites,
    dependencies: Option<Arc<Dependencies>>,
    pub(super) trace: Option<Arc<Trace>>,
    work: Option<Arc<ClientWork>>,
    /// Keys that the current request has written, or lost a swap for, since its ledger last settled. A committed read
    /// of them could be older than the value that the guest knows.
    unsettled_keys: HashSet<Key>,
    /// Whether the guest has seen another request's uncommitted value. Any committed read could be older: keys that
    /// this value names may not exist yet.
    pub(super) saw_uncommitted: bool,
    /// Counts the changes of the two fields above.
    revision: u64,
    pub(super) queue_budget: Arc<Semaphore>,
    unqueued_budget: Arc<Semaphore>,
    pub(super) read_budget: Arc<Semaphore>,
    pub(super) cas_bytes: usize,
}

/// About how many bytes a value takes in the writer's queue.
pub(super) fn queued_bytes(key: &Key, value: &[u8]) -> usize {
    QUEUED_VALUE_BYTES.saturating_add(key.key.len()).saturating_add(value.len())
}

/// Waits until an instance with this budget may queue `bytes` more.
pub(super) async fn reserve_queue_bytes(
    budget: Arc<Semaphore>,
    bytes: usize,
) -> Result<OwnedSemaphorePermit, StoreError> {
    let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
    let permit = budget.acquire_many_owned(permits.clamp(1, MAX_QUEUED_BYTES)).await;
    permit.map_err(|_| StoreError::writer_stopped())
}

/// The unawaited calls of an instance hold too many bytes.
#[derive(Debug, thiserror::Error)]
#[error("calls that have not ended hold at most {MAX_UNQUEUED_BYTES} bytes; await some of them first")]
pub(super) struct TooManyUnqueuedBytes;

impl KeyValue {
    pub fn new(backend: Arc<dyn Backend>, grants: Arc<Grants>, counters: Arc<Counters>) -> Self {
        Self {
            backend,
            grants,
            counters,
            scope: RequestWrites::default(),
            dependencies: None,
            trace: None,
            work: None,
            unsettled_keys: HashSet::new(),
            saw_uncommitted: false,
            revision: 0,
            queue_budget: Arc::new(Semaphore::new(MAX_QUEUED_BYTES as usize)),
            unqueued_budget: Arc::new(Semaphore::new(MAX_UNQUEUED_BYTES)),
            read_budget: Arc::new(Semaphore::new(MAX_CONCURRENT_READS)),
            cas_bytes: 0,
        }
    }

    /// The time that the hosts of the store share.
    pub fn server_clock(&self) -> Option<&Arc<ServerClock>> {
        self.backend.server_clock()
    }

    /// Begins another request. Its writes go to `scope`, and its reads to `dependencies`.
    pub fn enter(
        &mut self,
        scope: RequestWrites,
        dependencies: Option<Arc<Dependencies>>,
        trace: Option<Arc<Trace>>,
        work: Option<Arc<ClientWork>>,
    ) {
        self.scope = scope;
        self.dependencies = dependencies;
        self.trace = trace;
        self.work = work;
        self.unsettled_keys.clear();
        self.saw_uncommitted = false;
        self.revision += 1;
    }

    /// `None` if the client's work is not limited.
    pub(super) fn work(&self) -> Option<&Arc<ClientWork>> {
        self.work.as_ref()
    }

    /// Counts bytes that the request has read from the store, or writes to it.
    pub(super) fn charge(&self, bytes: usize) {
        if let Some(work) = &self.work {
            work.charge(Work::StoreBytes, bytes as u64);
        }
    }

    /// Counts the bytes of a value that was read.
    pub(super) fn charge_value(&self, value: Option<Vec<u8>>) -> Option<Vec<u8>> {
        self.charge(value.as_ref().map_or(0, Vec::len));
        value
    }

    /// Records that the request reads the committed value of a key.
    pub(super) fn record_read(&self, key: &Key) {
        if let Some(dependencies) = &self.dependencies {
            dependencies.record(&*self.backend, key);
        }
    }

    /// Counts the bytes of a value whose call waits for the queue. An error if earlier calls hold too many.
    pub(super) fn hold_unqueued(&self, bytes: usize) -> Result<OwnedSemaphorePermit, TooManyUnqueuedBytes> {
        let permits = u32::try_from(bytes).map_err(|_| TooManyUnqueuedBytes)?;
        self.unqueued_budget.clone().try_acquire_many_owned(permits).map_err(|_| TooManyUnqueuedBytes)
    }

    fn bind_reads(&self) {
        self.backend.bind_reads(self.scope.ledger());
    }

    pub(super) async fn increment(&self, key: Key, delta: i64) -> Result<i64, StoreError> {
        match self.grants.is_volatile(&key.key) {
            true => self.backend.increment_volatile(self.scope.ledger(), key, delta).await,
            false => self.backend.increment(self.scope.ledger(), key, delta).await,
        }
    }

    pub(super) async fn cas(
        &self,
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<CasOutcome, StoreError> {
        match self.grants.is_volatile(&key.key) {
            true => self.backend.cas_volatile(self.scope.ledger(), key, expected, value).await,
            false => self.backend.cas(self.scope.ledger(), key, expected, value).await,
        }
    }

    /// Records that the request does more than read keys.
    pub(super) fn mark_uncacheable(&self) {
        if let Some(dependencies) = &self.dependencies {
            dependencies.mark_uncacheable();
        }
    }

    pub(super) async fn settle(&mut self) -> Result<(), StoreError> {
        self.scope.durable(&*self.backend).await?;
        self.unsettled_keys.clear();
        self.saw_uncommitted = false;
        Ok(())
    }

    /// Makes the next committed read of `key` at least as new as the values that the request has written and seen.
    pub(super) async fn settle_before_read(&mut self, key: &Key) -> Result<(), StoreError> {
        self.bind_reads();
        match self.saw_uncommitted || self.unsettled_keys.contains(key) {
            true => self.settle().await,
            false => Ok(()),
        }
    }

    pub(super) async fn settle_before_list(&mut self) -> Result<(), StoreError> {
        self.bind_reads();
        match self.saw_uncommitted || !self.unsettled_keys.is_empty() {
            true => self.settle().await,
            false => Ok(()),
        }
    }

    pub(super) async fn settle_after_write(&mut self, keys: impl IntoIterator<Item = Key>) -> Result<(), StoreError> {
        match self.record_writes(keys) {
            true => self.settle().await,
            false => Ok(()),
        }
    }

    /// Records writes. True if they must be durable before the guest continues.
    pub(super) fn record_writes(&mut self, keys: impl IntoIterator<Item = Key>) -> bool {
        self.revision += 1;
        self.unsettled_keys.extend(keys);
        self.scope.is_write_through() || self.unsettled_keys.len() > MAX_UNSETTLED_KEYS
    }

    /// The wait before a committed read of `key`, for calls that do not hold the instance.
    pub(super) fn wait_before_read(&self, key: &Key) -> Option<DurabilityWait> {
        self.bind_reads();
        (self.saw_uncommitted || self.unsettled_keys.contains(key)).then(|| self.durability_wait())
    }

    pub(super) fn wait_before_list(&self) -> Option<DurabilityWait> {
        self.bind_reads();
        (self.saw_uncommitted || !self.unsettled_keys.is_empty()).then(|| self.durability_wait())
    }

    pub(super) fn durability_wait(&self) -> DurabilityWait {
        DurabilityWait { scope: self.scope.clone(), backend: self.backend.clone(), revision: self.revision }
    }

    /// Records that a wait is over.
    pub(super) fn finish_wait(&mut self, wait: &DurabilityWait) {
        // The wait does not settle writes that were made during it.
        if self.revision == wait.revision {
            self.unsettled_keys.clear();
            self.saw_uncommitted = false;
        }
    }
}

/// A wait until every earlier write of the request is durable.
pub(super) struct DurabilityWait {
    scope: RequestWrites,
    backend: Arc<dyn Backend>,
    revision: u64,
}

impl DurabilityWait {
    pub(super) async fn wait(&self) -> Result<(), StoreError> {
        self.scope.durable(&*self.backend).await
    }
}

/// An instance's key-value state and its handles.
pub struct KeyValueView<'a> {
    pub ctx: &'a mut KeyValue,
    pub table: &'a mut ResourceTable,
}

impl KeyValueView<'_> {
    /// Waits until this instance may queue `bytes` more.
    pub(super) async fn reserve(&mut self, bytes: usize) -> Result<OwnedSemaphorePermit, StoreError> {
        reserve_queue_bytes(self.ctx.queue_budget.clone(), bytes).await
    }
}

/// Names [`KeyValueView`] to the linker.
pub struct HasKeyValue;

impl HasData for HasKeyValue {
    type Data<'a> = KeyValueView<'a>;
}
