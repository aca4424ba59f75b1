//! `wasi:keyvalue@0.2.0-draft2`: what a component may open, read and write, over any
//! [`Backend`](crate::store::Backend); and the same under the names that other guests know.

mod call;
mod draft;
mod grants;
mod interface;
mod spin2;
mod spin3;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;
use wasmtime::component::{HasData, Linker, ResourceTable};

pub use call::Call;
pub use grants::Grants;

use crate::metrics::Counters;
use crate::response_cache::ReadSet;
use crate::store::{Backend, Error, Key, Ledger};
use crate::trace::Trace;

/// Bytes that one instance may have in the writer's queue. An instance that writes faster than
/// the disk waits here; the bound for all of them together is the engine's.
const IN_FLIGHT_BYTES: u32 = 4 * 1024 * 1024;

/// Bytes that the compare-and-swap handles of one instance may hold.
const HELD_BYTES: usize = 64 * 1024 * 1024;

/// The keys remembered as written and not yet durable. Beyond that, the instance settles first.
const REMEMBERED_KEYS: usize = 4096;

/// The writes of one request, shared by the guest that makes them and the host that holds the
/// response head back until they are durable.
#[derive(Clone, Debug, Default)]
pub struct WriteScope {
    ledger: Ledger,
    write_through: Arc<AtomicBool>,
}

impl WriteScope {
    /// From now on a write waits until it is durable before the guest goes on: nobody else will
    /// wait for it. Set before the last settling, so that no write slips between the two.
    pub fn write_through(&self) {
        self.write_through.store(true, Ordering::SeqCst);
    }

    /// Whether everything that was written so far is durable.
    pub fn is_settled(&self) -> bool {
        self.ledger.is_settled()
    }

    /// Waits until what was written so far is durable.
    pub async fn durable(&self, backend: &dyn Backend) -> Result<(), Error> {
        backend.durable(&self.ledger).await
    }
}

/// The key-value state of one instance.
pub struct KeyValue {
    backend: Arc<dyn Backend>,
    grants: Arc<Grants>,
    counters: Arc<Counters>,
    scope: WriteScope,
    read_set: Option<Arc<ReadSet>>,
    trace: Option<Arc<Trace>>,
    /// Keys that the current request has written (or lost a swap for) since it last settled:
    /// a committed read of them could be older than what the guest knows.
    unsettled: HashSet<Key>,
    /// An answer rested on what others wrote and have not committed. Any committed read could be
    /// older than that: the keys that a root names may not be there yet.
    behind: bool,
    /// How often the two above have grown.
    grown: u64,
    in_flight: Arc<Semaphore>,
    held: usize,
}

impl KeyValue {
    /// `counters` are where its operations are counted.
    pub fn new(backend: Arc<dyn Backend>, grants: Arc<Grants>, counters: Arc<Counters>) -> Self {
        Self {
            backend,
            grants,
            counters,
            scope: WriteScope::default(),
            read_set: None,
            trace: None,
            unsettled: HashSet::new(),
            behind: false,
            grown: 0,
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT_BYTES as usize)),
            held: 0,
        }
    }

    /// Everything written and read from now on belongs to another request.
    pub fn enter(&mut self, scope: WriteScope, read_set: Option<Arc<ReadSet>>, trace: Option<Arc<Trace>>) {
        self.scope = scope;
        self.read_set = read_set;
        self.trace = trace;
        self.unsettled.clear();
        self.behind = false;
        self.grown += 1;
    }

    /// Records that the request reads the committed value of a key.
    fn record_read(&self, key: &Key) {
        if let Some(read_set) = &self.read_set {
            read_set.record(self.backend.change_clock(), key);
        }
    }

    /// Records that the request does more than to read keys.
    fn mark_uncacheable(&self) {
        if let Some(read_set) = &self.read_set {
            read_set.mark_uncacheable();
        }
    }

    async fn settle(&mut self) -> Result<(), Error> {
        self.scope.durable(&*self.backend).await?;
        self.unsettled.clear();
        self.behind = false;
        Ok(())
    }

    /// Makes a committed read of `key` see what this request has done, and what it has seen.
    async fn before_read(&mut self, key: &Key) -> Result<(), Error> {
        match self.behind || self.unsettled.contains(key) {
            true => self.settle().await,
            false => Ok(()),
        }
    }

    async fn before_list(&mut self) -> Result<(), Error> {
        match self.behind || !self.unsettled.is_empty() {
            true => self.settle().await,
            false => Ok(()),
        }
    }

    async fn after_write(&mut self, keys: impl IntoIterator<Item = Key>) -> Result<(), Error> {
        match self.wrote(keys) {
            true => self.settle().await,
            false => Ok(()),
        }
    }

    /// Takes note of writes. True if they must be settled before the guest goes on.
    fn wrote(&mut self, keys: impl IntoIterator<Item = Key>) -> bool {
        self.grown += 1;
        self.unsettled.extend(keys);
        self.scope.write_through.load(Ordering::SeqCst) || self.unsettled.len() > REMEMBERED_KEYS
    }

    /// What a committed read of `key` must wait for, for calls that do not hold the instance.
    fn before_reading(&self, key: &Key) -> Option<Settling> {
        (self.behind || self.unsettled.contains(key)).then(|| self.settling())
    }

    fn before_listing(&self) -> Option<Settling> {
        (self.behind || !self.unsettled.is_empty()).then(|| self.settling())
    }

    fn settling(&self) -> Settling {
        Settling { scope: self.scope.clone(), backend: self.backend.clone(), grown: self.grown }
    }

    /// A wait is over.
    fn settled(&mut self, settling: &Settling) {
        // Unless more was written meanwhile.
        if self.grown == settling.grown {
            self.unsettled.clear();
            self.behind = false;
        }
    }
}

/// The wait until everything is durable that was written up to some moment.
struct Settling {
    scope: WriteScope,
    backend: Arc<dyn Backend>,
    grown: u64,
}

impl Settling {
    async fn wait(&self) -> Result<(), Error> {
        self.scope.durable(&*self.backend).await
    }
}

/// The state and the table of its handles, as the interface needs them.
pub struct KeyValueView<'a> {
    pub ctx: &'a mut KeyValue,
    pub table: &'a mut ResourceTable,
}

/// Supplies all of the interfaces to components.
pub fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> KeyValueView<'_>,
) -> wasmtime::Result<()> {
    interface::add_to_linker(linker, view)?;
    draft::add_to_linker(linker, view)?;
    spin2::add_to_linker(linker, view)?;
    spin3::add_to_linker(linker, view)
}

/// Names the view to the linker.
pub struct HasKeyValue;

impl HasData for HasKeyValue {
    type Data<'a> = KeyValueView<'a>;
}
