//! The interfaces `store`, `atomics` and `batch`, exactly as the draft words them.

mod many;

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::Result;
use wasmtime::component::{Linker, Resource, ResourceTable, ResourceTableError};

use self::wasi::keyvalue::{atomics, batch, store};
use super::grants::Label;
use super::{Call, HELD_BYTES, HasKeyValue, IN_FLIGHT_BYTES, KeyValueView};
use crate::metrics::Operation;
use crate::store::{Error, Key, MAX_KEY_BYTES, MAX_VALUE_BYTES, Swap};

wasmtime::component::bindgen!({
    path: "../wit/deps/keyvalue@0.2.0-draft2",
    world: "wasi:keyvalue/imports",
    imports: { default: async | trappable },
    with: {
        "wasi:keyvalue/store.bucket": super::interface::Bucket,
        "wasi:keyvalue/atomics.cas": super::interface::Cas,
    },
    trappable_error_type: { "wasi:keyvalue/store.error" => super::interface::Failure },
});

/// Why a call does not give the guest what it asked for.
pub enum Failure {
    Guest(store::Error),
    /// The guest broke the rules of handles.
    Trap(wasmtime::Error),
}

/// Keys on one page of a listing.
const PAGE_KEYS: usize = 1000;

/// An opened store: its label.
pub struct Bucket {
    label: Arc<str>,
}

/// A compare-and-swap in progress.
pub struct Cas {
    key: Key,
    /// The value that must still be there.
    expected: Option<Vec<u8>>,
    /// Whether `current` has yet to hand out `expected`. Once it has, it reads again.
    fresh: bool,
}

impl Cas {
    fn held(&self) -> usize {
        self.expected.as_ref().map_or(0, Vec::len)
    }
}

/// Supplies the interfaces to components.
pub fn add_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> KeyValueView<'_>) -> Result<()> {
    store::add_to_linker::<_, HasKeyValue>(linker, view)?;
    atomics::add_to_linker::<_, HasKeyValue>(linker, view)?;
    batch::add_to_linker::<_, HasKeyValue>(linker, view)
}

impl Failure {
    fn into_guest(self) -> Result<store::Error> {
        match self {
            Failure::Guest(error) => Ok(error),
            Failure::Trap(error) => Err(error),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        refuse(error.to_string())
    }
}

impl From<ResourceTableError> for Failure {
    fn from(error: ResourceTableError) -> Self {
        Failure::Trap(error.into())
    }
}

impl Failure {
    /// What a trace says of it.
    fn reason(&self) -> &'static str {
        match self {
            Failure::Guest(store::Error::NoSuchStore) => "no_such_store",
            Failure::Guest(store::Error::AccessDenied) => "access_denied",
            Failure::Guest(store::Error::Other(_)) => "failed",
            Failure::Trap(_) => "misused",
        }
    }
}

/// Ends a call with its outcome.
pub(super) fn ended<T>(mut call: Call, outcome: Result<T, Failure>) -> Result<T, Failure> {
    outcome.inspect_err(|failure| call.failed(failure.reason()))
}

impl KeyValueView<'_> {
    pub(super) fn begin(&self, operation: Operation, bucket: &Resource<Bucket>) -> Call {
        let trace = self.ctx.trace.as_ref();
        let bucket = trace.and_then(|_| self.table.get(bucket).ok());
        Call::begin(operation, &self.ctx.counters, trace, bucket.map_or("", |bucket| &bucket.label))
    }

    pub(super) fn readable(&self, bucket: &Resource<Bucket>, key: &str) -> Result<Key, Failure> {
        let key = self.key(bucket, key)?;
        match self.ctx.grants.may_read(&key.key) {
            true => {
                self.ctx.record_read(&key);
                Ok(key)
            }
            false => Err(self.deny("read", &key.key)),
        }
    }

    pub(super) fn writable(&self, bucket: &Resource<Bucket>, key: &str) -> Result<Key, Failure> {
        self.ctx.mark_uncacheable();
        let key = self.key(bucket, key)?;
        match self.ctx.grants.may_write(&key.key) {
            true => Ok(key),
            false => Err(self.deny("write", &key.key)),
        }
    }

    fn deny(&self, operation: &'static str, subject: &str) -> Failure {
        self.ctx.mark_uncacheable();
        self.ctx.grants.deny(operation, subject);
        Failure::Guest(store::Error::AccessDenied)
    }

    fn key(&self, bucket: &Resource<Bucket>, key: &str) -> Result<Key, Failure> {
        let store = label(self.table, bucket)?;
        if key.is_empty() || key.len() > MAX_KEY_BYTES || key.contains('\0') {
            let length = key.len();
            return Err(refuse(format!(
                "a key has 1 to {MAX_KEY_BYTES} bytes, none of them zero; this one has {length}"
            )));
        }
        Ok(Key { store, key: Arc::from(key) })
    }

    /// Waits for room in this instance's share of the writer's queue.
    async fn room(&mut self, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
        in_flight(self.ctx.in_flight.clone(), bytes).await
    }

    pub(super) fn open_bucket(&mut self, identifier: String) -> Result<Resource<Bucket>, Failure> {
        match self.ctx.grants.label(&identifier) {
            Label::Granted => Ok(self.table.push(Bucket { label: Arc::from(identifier) })?),
            Label::NotGranted => Err(self.deny("open", &identifier)),
            Label::Unknown => Err(Failure::Guest(store::Error::NoSuchStore)),
        }
    }

    fn push_cas(&mut self, cas: Cas) -> Result<Resource<Cas>, Failure> {
        let held = self.ctx.held.saturating_add(cas.held());
        if held > HELD_BYTES {
            return Err(refuse(format!(
                "open compare-and-swap handles hold at most {HELD_BYTES} bytes; \
                 with this one it would be {held}"
            )));
        }
        let handle = self.table.push(cas)?;
        self.ctx.held = held;
        Ok(handle)
    }

    fn delete_cas(&mut self, handle: Resource<Cas>) -> Result<Cas, ResourceTableError> {
        let cas = self.table.delete(handle)?;
        self.ctx.held = self.ctx.held.saturating_sub(cas.held());
        Ok(cas)
    }
}

/// Waits for room in an instance's share of the writer's queue.
pub(super) async fn in_flight(room: Arc<Semaphore>, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
    let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
    let permit = room.acquire_many_owned(permits.clamp(1, IN_FLIGHT_BYTES)).await;
    permit.map_err(|error| refuse(error.to_string()))
}

pub(super) fn label(table: &ResourceTable, bucket: &Resource<Bucket>) -> Result<Arc<str>, Failure> {
    Ok(table.get(bucket)?.label.clone())
}

fn refuse(reason: String) -> Failure {
    Failure::Guest(store::Error::Other(reason))
}

pub(super) fn check_value(value: &[u8]) -> Result<(), Failure> {
    let length = value.len();
    match length > MAX_VALUE_BYTES {
        true => Err(refuse(format!("a value has at most {MAX_VALUE_BYTES} bytes; this one has {length}"))),
        false => Ok(()),
    }
}

impl store::Host for KeyValueView<'_> {
    async fn open(&mut self, identifier: String) -> Result<Resource<Bucket>, Failure> {
        self.open_bucket(identifier)
    }

    fn convert_error(&mut self, error: Failure) -> Result<store::Error> {
        error.into_guest()
    }
}

impl store::HostBucket for KeyValueView<'_> {
    async fn get(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Option<Vec<u8>>, Failure> {
        let call = self.begin(Operation::Get, &bucket);
        let outcome = async {
            let key = self.readable(&bucket, &key)?;
            self.ctx.before_read(&key).await?;
            Ok(self.ctx.backend.get(&key).await.inspect_err(|_| self.ctx.mark_uncacheable())?)
        };
        ended(call, outcome.await)
    }

    async fn set(&mut self, bucket: Resource<Bucket>, key: String, value: Vec<u8>) -> Result<(), Failure> {
        let call = self.begin(Operation::Set, &bucket);
        let outcome = async {
            let key = self.writable(&bucket, &key)?;
            check_value(&value)?;
            let room = self.room(value.len()).await?;
            let ctx = &mut *self.ctx;
            ctx.backend.set(&ctx.scope.ledger, key.clone(), value, room).await?;
            Ok(ctx.after_write([key]).await?)
        };
        ended(call, outcome.await)
    }

    async fn delete(&mut self, bucket: Resource<Bucket>, key: String) -> Result<(), Failure> {
        let call = self.begin(Operation::Delete, &bucket);
        let outcome = async {
            let key = self.writable(&bucket, &key)?;
            let ctx = &mut *self.ctx;
            ctx.backend.delete(&ctx.scope.ledger, key.clone()).await?;
            Ok(ctx.after_write([key]).await?)
        };
        ended(call, outcome.await)
    }

    async fn exists(&mut self, bucket: Resource<Bucket>, key: String) -> Result<bool, Failure> {
        let call = self.begin(Operation::Exists, &bucket);
        let outcome = async {
            let key = self.readable(&bucket, &key)?;
            self.ctx.before_read(&key).await?;
            Ok(self.ctx.backend.exists(&key).await.inspect_err(|_| self.ctx.mark_uncacheable())?)
        };
        ended(call, outcome.await)
    }

    async fn list_keys(
        &mut self,
        bucket: Resource<Bucket>,
        cursor: Option<String>,
    ) -> Result<store::KeyResponse, Failure> {
        let call = self.begin(Operation::List, &bucket);
        let store = label(self.table, &bucket);
        let outcome = async {
            let store = store?;
            self.ctx.mark_uncacheable();
            self.ctx.before_list().await?;
            // The cursor is the last key of the page before. A forged one finds nothing that the
            // component could not list anyway.
            let after = cursor.unwrap_or_default();
            let mut keys = Vec::new();
            for prefix in self.ctx.grants.readable() {
                let limit = PAGE_KEYS - keys.len();
                let found = self.ctx.backend.list(&store, prefix, &after, limit).await?;
                keys.extend(found);
                if keys.len() >= PAGE_KEYS {
                    break;
                }
            }
            let cursor = keys.last().filter(|_| keys.len() >= PAGE_KEYS).cloned();
            Ok(store::KeyResponse { keys, cursor })
        };
        ended(call, outcome.await)
    }

    async fn drop(&mut self, bucket: Resource<Bucket>) -> Result<()> {
        self.table.delete(bucket)?;
        Ok(())
    }
}

impl atomics::Host for KeyValueView<'_> {
    async fn increment(&mut self, bucket: Resource<Bucket>, key: String, delta: i64) -> Result<i64, Failure> {
        let call = self.begin(Operation::Increment, &bucket);
        let outcome = async {
            let key = self.writable(&bucket, &key)?;
            let ctx = &mut *self.ctx;
            let sum = ctx.backend.increment(&ctx.scope.ledger, key.clone(), delta).await?;
            // Only a counter that starts here tells nothing about others.
            ctx.behind |= sum != delta;
            ctx.after_write([key]).await?;
            Ok(sum)
        };
        ended(call, outcome.await)
    }

    async fn swap(&mut self, cas: Resource<Cas>, value: Vec<u8>) -> Result<Result<(), atomics::CasError>> {
        let cas = self.delete_cas(cas)?;
        match self.compare_and_swap(cas, value).await {
            Ok(None) => Ok(Ok(())),
            Ok(Some(retry)) => Ok(Err(atomics::CasError::CasFailed(retry))),
            Err(failure) => Ok(Err(atomics::CasError::StoreError(failure.into_guest()?))),
        }
    }
}

impl KeyValueView<'_> {
    /// Returns a handle with the latest value if the race is lost.
    async fn compare_and_swap(&mut self, cas: Cas, value: Vec<u8>) -> Result<Option<Resource<Cas>>, Failure> {
        let call = Call::begin(Operation::Swap, &self.ctx.counters, self.ctx.trace.as_ref(), &cas.key.store);
        let outcome = async {
            check_value(&value)?;
            let Cas { key, expected, .. } = cas;
            let ctx = &mut *self.ctx;
            let outcome = ctx.backend.cas(&ctx.scope.ledger, key.clone(), expected, value).await?;
            if matches!(outcome, Swap::Lost(_)) {
                ctx.behind = true;
                ctx.counters.swaps_lost.add(1);
            }
            ctx.after_write([key.clone()]).await?;
            match outcome {
                Swap::Swapped => Ok(None),
                Swap::Lost(latest) => Ok(Some(self.push_cas(Cas { key, expected: latest, fresh: true })?)),
            }
        };
        ended(call, outcome.await)
    }
}

impl atomics::HostCas for KeyValueView<'_> {
    async fn new(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Resource<Cas>, Failure> {
        let call = self.begin(Operation::Get, &bucket);
        let outcome = async {
            let key = self.writable(&bucket, &key)?;
            self.ctx.before_read(&key).await?;
            let expected = self.ctx.backend.get(&key).await?;
            self.push_cas(Cas { key, expected, fresh: true })
        };
        ended(call, outcome.await)
    }

    async fn current(&mut self, handle: Resource<Cas>) -> Result<Option<Vec<u8>>, Failure> {
        let cas = self.table.get_mut(&handle)?;
        if cas.fresh {
            cas.fresh = false;
            return Ok(cas.expected.clone());
        }
        let key = cas.key.clone();
        self.ctx.before_read(&key).await?;
        let latest = self.ctx.backend.get(&key).await?;
        let cas = self.table.get_mut(&handle)?;
        self.ctx.held = self.ctx.held.saturating_sub(cas.held());
        cas.expected = latest.clone();
        self.ctx.held = self.ctx.held.saturating_add(cas.held());
        Ok(latest)
    }

    async fn drop(&mut self, handle: Resource<Cas>) -> Result<()> {
        self.delete_cas(handle)?;
        Ok(())
    }
}
