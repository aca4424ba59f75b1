//! `wasi:keyvalue@0.2.0-draft2`: the interfaces `store`, `atomics` and `batch`.

use std::sync::Arc;

use hexad_store::{CasOutcome, Key, MAX_KEY_BYTES, MAX_VALUE_BYTES, StoreError};
use hexad_telemetry::metrics::Operation;
use tokio::task::coop::consume_budget;
use wasmtime::Result;
use wasmtime::component::{Linker, Resource, ResourceTable, ResourceTableError};

use self::wasi::keyvalue::{atomics, batch, store};
use super::grants::LabelAccess;
use super::measured_call::MeasuredCall;
use super::request_writes::RequestWrites;
use super::state::{HasKeyValue, KeyValueView, queued_bytes};

/// Bytes that the compare-and-swap handles of one instance may hold.
const MAX_CAS_BYTES: usize = 64 * 1024 * 1024;

/// Keys on one page of a listing.
const PAGE_KEYS: usize = 1000;

wasmtime::component::bindgen!({
    path: "../../wit/deps/keyvalue@0.2.0-draft2",
    world: "wasi:keyvalue/imports",
    imports: { default: async | trappable },
    with: {
        "wasi:keyvalue/store.bucket": super::wasi_draft2::Bucket,
        "wasi:keyvalue/atomics.cas": super::wasi_draft2::Cas,
    },
    trappable_error_type: { "wasi:keyvalue/store.error" => super::wasi_draft2::KeyValueError },
});

/// Why a call failed.
pub enum KeyValueError {
    Guest(store::Error),
    /// The guest gets the text.
    Store(StoreError),
    /// The guest misused a handle.
    Trap(wasmtime::Error),
}

/// An open store.
pub struct Bucket {
    label: Arc<str>,
}

/// A compare-and-swap in progress.
pub struct Cas {
    key: Key,
    /// The value that the swap must find.
    expected: Option<Vec<u8>>,
    /// Whether the guest has not yet got `expected` from `current`. Later calls read the store again.
    is_unread: bool,
}

impl Cas {
    fn expected_bytes(&self) -> usize {
        self.expected.as_ref().map_or(0, Vec::len)
    }
}

pub fn add_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> KeyValueView<'_>) -> Result<()> {
    store::add_to_linker::<_, HasKeyValue>(linker, view)?;
    atomics::add_to_linker::<_, HasKeyValue>(linker, view)?;
    wasi::keyvalue::batch::add_to_linker::<_, HasKeyValue>(linker, view)
}

impl KeyValueError {
    /// The error for the guest, or a trap.
    pub(super) fn into_guest(self) -> Result<store::Error> {
        match self {
            KeyValueError::Guest(error) => Ok(error),
            KeyValueError::Store(error) => Ok(store::Error::Other(error.to_string())),
            KeyValueError::Trap(error) => Err(error),
        }
    }

    fn trace_reason(&self) -> &'static str {
        match self {
            KeyValueError::Guest(store::Error::NoSuchStore) => "no_such_store",
            KeyValueError::Guest(store::Error::AccessDenied) => "access_denied",
            KeyValueError::Guest(store::Error::Other(_)) | KeyValueError::Store(_) => "failed",
            KeyValueError::Trap(_) => "misused",
        }
    }
}

impl From<StoreError> for KeyValueError {
    fn from(error: StoreError) -> Self {
        KeyValueError::Store(error)
    }
}

impl From<ResourceTableError> for KeyValueError {
    fn from(error: ResourceTableError) -> Self {
        KeyValueError::Trap(error.into())
    }
}

/// Ends a call, and records its error in the trace and in the request's writes.
pub(super) fn finish<T>(
    mut call: MeasuredCall,
    scope: &RequestWrites,
    outcome: Result<T, KeyValueError>,
) -> Result<T, KeyValueError> {
    outcome.inspect_err(|error| {
        call.fail(error.trace_reason());
        if let KeyValueError::Store(error) = error {
            scope.ledger().record_outage(error);
        }
    })
}

impl KeyValueView<'_> {
    pub(super) fn begin(&self, operation: Operation, bucket: &Resource<Bucket>) -> MeasuredCall {
        let trace = self.ctx.trace.as_ref();
        let bucket = trace.and_then(|_| self.table.get(bucket).ok());
        MeasuredCall::begin(operation, &self.ctx.counters, trace, bucket.map_or("", |bucket| &bucket.label))
    }

    pub(super) fn readable(&self, bucket: &Resource<Bucket>, key: &str) -> Result<Key, KeyValueError> {
        let key = self.key(bucket, key)?;
        match self.ctx.grants.may_read(&key.key) {
            true => {
                self.ctx.record_read(&key);
                Ok(key)
            }
            false => Err(self.deny("read", &key.key)),
        }
    }

    pub(super) fn writable(&self, bucket: &Resource<Bucket>, key: &str) -> Result<Key, KeyValueError> {
        self.ctx.mark_uncacheable();
        let key = self.key(bucket, key)?;
        match self.ctx.grants.may_write(&key.key) {
            true => Ok(key),
            false => Err(self.deny("write", &key.key)),
        }
    }

    fn deny(&self, operation: &'static str, subject: &str) -> KeyValueError {
        self.ctx.mark_uncacheable();
        self.ctx.grants.deny(operation, subject);
        KeyValueError::Guest(store::Error::AccessDenied)
    }

    fn key(&self, bucket: &Resource<Bucket>, key: &str) -> Result<Key, KeyValueError> {
        let store = label(self.table, bucket)?;
        if key.is_empty() || key.len() > MAX_KEY_BYTES || key.contains('\0') {
            let length = key.len();
            return Err(guest_error(format!(
                "a key has 1 to {MAX_KEY_BYTES} bytes, none of them zero; this one has {length}"
            )));
        }
        Ok(Key { store, key: Arc::from(key) })
    }

    pub(super) fn open_bucket(&mut self, identifier: String) -> Result<Resource<Bucket>, KeyValueError> {
        match self.ctx.grants.label_access(&identifier) {
            LabelAccess::Granted => Ok(self.table.push(Bucket { label: Arc::from(identifier) })?),
            LabelAccess::NotGranted => Err(self.deny("open", &identifier)),
            LabelAccess::Unknown => Err(KeyValueError::Guest(store::Error::NoSuchStore)),
        }
    }

    fn push_cas(&mut self, cas: Cas) -> Result<Resource<Cas>, KeyValueError> {
        let held = self.ctx.cas_bytes.saturating_add(cas.expected_bytes());
        if held > MAX_CAS_BYTES {
            return Err(too_many_cas_bytes(held));
        }
        let handle = self.table.push(cas)?;
        self.ctx.cas_bytes = held;
        Ok(handle)
    }

    fn delete_cas(&mut self, handle: Resource<Cas>) -> Result<Cas, ResourceTableError> {
        let cas = self.table.delete(handle)?;
        self.ctx.cas_bytes = self.ctx.cas_bytes.saturating_sub(cas.expected_bytes());
        Ok(cas)
    }

    /// If another write came first, returns a handle with the present value.
    async fn compare_and_swap(&mut self, cas: Cas, value: Vec<u8>) -> Result<Option<Resource<Cas>>, KeyValueError> {
        let call = MeasuredCall::begin(Operation::Swap, &self.ctx.counters, self.ctx.trace.as_ref(), &cas.key.store);
        let outcome = async {
            check_value(&value)?;
            let Cas { key, expected, .. } = cas;
            let ctx = &mut *self.ctx;
            ctx.charge(value.len());
            let outcome = ctx.cas(key.clone(), expected, value).await?;
            if matches!(outcome, CasOutcome::Lost(_)) {
                ctx.saw_uncommitted = true;
                ctx.counters.swaps_lost.add(1);
            }
            ctx.settle_after_write([key.clone()]).await?;
            match outcome {
                CasOutcome::Swapped => Ok(None),
                CasOutcome::Lost(latest) => {
                    let expected = self.ctx.charge_value(latest);
                    Ok(Some(self.push_cas(Cas { key, expected, is_unread: true })?))
                }
            }
        };
        let outcome = outcome.await;
        finish(call, &self.ctx.scope, outcome)
    }
}

fn too_many_cas_bytes(held: usize) -> KeyValueError {
    guest_error(format!(
        "open compare-and-swap handles hold at most {MAX_CAS_BYTES} bytes; with this one it would be {held}"
    ))
}

pub(super) fn label(table: &ResourceTable, bucket: &Resource<Bucket>) -> Result<Arc<str>, KeyValueError> {
    Ok(table.get(bucket)?.label.clone())
}

pub(super) fn guest_error(reason: String) -> KeyValueError {
    KeyValueError::Guest(store::Error::Other(reason))
}

pub(super) fn check_value(value: &[u8]) -> Result<(), KeyValueError> {
    let length = value.len();
    match length > MAX_VALUE_BYTES {
        true => Err(guest_error(format!("a value has at most {MAX_VALUE_BYTES} bytes; this one has {length}"))),
        false => Ok(()),
    }
}

impl store::Host for KeyValueView<'_> {
    async fn open(&mut self, identifier: String) -> Result<Resource<Bucket>, KeyValueError> {
        self.open_bucket(identifier)
    }

    fn convert_error(&mut self, error: KeyValueError) -> Result<store::Error> {
        error.into_guest()
    }
}

impl store::HostBucket for KeyValueView<'_> {
    async fn get(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Option<Vec<u8>>, KeyValueError> {
        let call = self.begin(Operation::Get, &bucket);
        let outcome = async {
            let key = self.readable(&bucket, &key)?;
            self.ctx.settle_before_read(&key).await?;
            let value = self.ctx.backend.get(&key).await.inspect_err(|_| self.ctx.mark_uncacheable())?;
            Ok(self.ctx.charge_value(value))
        };
        let outcome = outcome.await;
        finish(call, &self.ctx.scope, outcome)
    }

    async fn set(&mut self, bucket: Resource<Bucket>, key: String, value: Vec<u8>) -> Result<(), KeyValueError> {
        let call = self.begin(Operation::Set, &bucket);
        let outcome = async {
            let key = self.writable(&bucket, &key)?;
            check_value(&value)?;
            let permit = self.reserve(queued_bytes(&key, &value)).await?;
            let ctx = &mut *self.ctx;
            ctx.charge(value.len());
            ctx.backend.set(ctx.scope.ledger(), key.clone(), value, permit).await?;
            Ok(ctx.settle_after_write([key]).await?)
        };
        let outcome = outcome.await;
        finish(call, &self.ctx.scope, outcome)
    }

    async fn delete(&mut self, bucket: Resource<Bucket>, key: String) -> Result<(), KeyValueError> {
        let call = self.begin(Operation::Delete, &bucket);
        let outcome = async {
            let key = self.writable(&bucket, &key)?;
            let ctx = &mut *self.ctx;
            ctx.backend.delete(ctx.scope.ledger(), key.clone()).await?;
            Ok(ctx.settle_after_write([key]).await?)
        };
        let outcome = outcome.await;
        finish(call, &self.ctx.scope, outcome)
    }

    async fn exists(&mut self, bucket: Resource<Bucket>, key: String) -> Result<bool, KeyValueError> {
        let call = self.begin(Operation::Exists, &bucket);
        let outcome = async {
            let key = self.readable(&bucket, &key)?;
            self.ctx.settle_before_read(&key).await?;
            Ok(self.ctx.backend.exists(&key).await.inspect_err(|_| self.ctx.mark_uncacheable())?)
        };
        let outcome = outcome.await;
        finish(call, &self.ctx.scope, outcome)
    }

    async fn list_keys(
        &mut self,
        bucket: Resource<Bucket>,
        cursor: Option<String>,
    ) -> Result<store::KeyResponse, KeyValueError> {
        let call = self.begin(Operation::List, &bucket);
        let store = label(self.table, &bucket);
        let outcome = async {
            let store = store?;
            self.ctx.mark_uncacheable();
            self.ctx.settle_before_list().await?;
            // The cursor is the last key of the previous page. With a forged cursor, the component gets only keys that
            // it may list.
            let after = cursor.unwrap_or_default();
            let mut keys = Vec::new();
            for prefix in self.ctx.grants.readable() {
                let limit = PAGE_KEYS - keys.len();
                let page = self.ctx.backend.list(&store, prefix, &after, limit).await?;
                keys.extend(page);
                if keys.len() >= PAGE_KEYS {
                    break;
                }
                tokio::task::coop::consume_budget().await;
            }
            self.ctx.charge(keys.iter().map(String::len).sum());
            let cursor = keys.last().filter(|_| keys.len() >= PAGE_KEYS).cloned();
            Ok(store::KeyResponse { keys, cursor })
        };
        let outcome = outcome.await;
        finish(call, &self.ctx.scope, outcome)
    }

    async fn drop(&mut self, bucket: Resource<Bucket>) -> Result<()> {
        self.table.delete(bucket)?;
        Ok(())
    }
}

impl atomics::Host for KeyValueView<'_> {
    async fn increment(&mut self, bucket: Resource<Bucket>, key: String, delta: i64) -> Result<i64, KeyValueError> {
        let call = self.begin(Operation::Increment, &bucket);
        let outcome = async {
            let key = self.writable(&bucket, &key)?;
            let ctx = &mut *self.ctx;
            let sum = ctx.increment(key.clone(), delta).await?;
            // A sum that differs from `delta` shows an earlier value, which may not be committed yet.
            ctx.saw_uncommitted |= sum != delta;
            ctx.settle_after_write([key]).await?;
            Ok(sum)
        };
        let outcome = outcome.await;
        finish(call, &self.ctx.scope, outcome)
    }

    async fn swap(&mut self, cas: Resource<Cas>, value: Vec<u8>) -> Result<Result<(), atomics::CasError>> {
        let cas = self.delete_cas(cas)?;
        match self.compare_and_swap(cas, value).await {
            Ok(None) => Ok(Ok(())),
            Ok(Some(retry)) => Ok(Err(atomics::CasError::CasFailed(retry))),
            Err(error) => Ok(Err(atomics::CasError::StoreError(error.into_guest()?))),
        }
    }
}

impl atomics::HostCas for KeyValueView<'_> {
    async fn new(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Resource<Cas>, KeyValueError> {
        let call = self.begin(Operation::Get, &bucket);
        let outcome = async {
            let key = self.writable(&bucket, &key)?;
            self.ctx.settle_before_read(&key).await?;
            let expected = self.ctx.charge_value(self.ctx.backend.get(&key).await?);
            self.push_cas(Cas { key, expected, is_unread: true })
        };
        let outcome = outcome.await;
        finish(call, &self.ctx.scope, outcome)
    }

    async fn current(&mut self, handle: Resource<Cas>) -> Result<Option<Vec<u8>>, KeyValueError> {
        let cas = self.table.get_mut(&handle)?;
        if cas.is_unread {
            cas.is_unread = false;
            return Ok(cas.expected.clone());
        }
        let key = cas.key.clone();
        self.ctx.settle_before_read(&key).await?;
        let latest = self.ctx.charge_value(self.ctx.backend.get(&key).await?);
        let cas = self.table.get_mut(&handle)?;
        let before = self.ctx.cas_bytes.saturating_sub(cas.expected_bytes());
        let held = before.saturating_add(latest.as_ref().map_or(0, Vec::len));
        if held > MAX_CAS_BYTES {
            return Err(too_many_cas_bytes(held));
        }
        cas.expected = latest.clone();
        self.ctx.cas_bytes = before.saturating_add(cas.expected_bytes());
        Ok(latest)
    }

    async fn drop(&mut self, handle: Resource<Cas>) -> Result<()> {
        self.delete_cas(handle)?;
        Ok(())
    }
}

/// Several keys in one call. The host checks each key as in a single call. Between keys, the shard serves its other
/// requests.
impl batch::Host for KeyValueView<'_> {
    async fn get_many(
        &mut self,
        bucket: Resource<Bucket>,
        keys: Vec<String>,
    ) -> Result<Vec<(String, Option<Vec<u8>>)>, KeyValueError> {
        let call = self.begin(Operation::Batch, &bucket);
        let outcome = async {
            let mut checked_keys = Vec::with_capacity(keys.len());
            for key in &keys {
                let key = self.readable(&bucket, key)?;
                self.ctx.settle_before_read(&key).await?;
                checked_keys.push(key);
                consume_budget().await;
            }
            let values = self
                .ctx
                .backend
                .get_many(&checked_keys, MAX_VALUE_BYTES)
                .await
                .inspect_err(|_| self.ctx.mark_uncacheable())?;
            self.ctx.charge(values.iter().flatten().map(Vec::len).sum());
            Ok(keys.into_iter().zip(values).collect())
        };
        let outcome = outcome.await;
        finish(call, &self.ctx.scope, outcome)
    }

    async fn set_many(
        &mut self,
        bucket: Resource<Bucket>,
        key_values: Vec<(String, Vec<u8>)>,
    ) -> Result<(), KeyValueError> {
        let call = self.begin(Operation::Batch, &bucket);
        let outcome = async {
            let mut pairs = Vec::with_capacity(key_values.len());
            let mut bytes = 0usize;
            for (key, value) in key_values {
                let key = self.writable(&bucket, &key)?;
                check_value(&value)?;
                bytes = bytes.saturating_add(queued_bytes(&key, &value));
                pairs.push((key, value));
                consume_budget().await;
            }
            let keys: Vec<Key> = pairs.iter().map(|(key, _)| key.clone()).collect();
            let permit = self.reserve(bytes).await?;
            let ctx = &mut *self.ctx;
            ctx.charge(pairs.iter().map(|(_, value)| value.len()).sum());
            ctx.backend.set_many(ctx.scope.ledger(), pairs, permit).await?;
            Ok(ctx.settle_after_write(keys).await?)
        };
        let outcome = outcome.await;
        finish(call, &self.ctx.scope, outcome)
    }

    async fn delete_many(&mut self, bucket: Resource<Bucket>, keys: Vec<String>) -> Result<(), KeyValueError> {
        let call = self.begin(Operation::Batch, &bucket);
        let outcome = async {
            let mut checked_keys = Vec::with_capacity(keys.len());
            for key in &keys {
                checked_keys.push(self.writable(&bucket, key)?);
                consume_budget().await;
            }
            let ctx = &mut *self.ctx;
            ctx.backend.delete_many(ctx.scope.ledger(), checked_keys.clone()).await?;
            Ok(ctx.settle_after_write(checked_keys).await?)
        };
        let outcome = outcome.await;
        finish(call, &self.ctx.scope, outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::pin::pin;
    use std::sync::Arc;

    use futures::FutureExt;
    use wasmtime::component::ResourceTable;

    use super::store::HostBucket;
    use super::*;
    use crate::keyvalue::{Grants, KeyValue};
    use hexad_store_sqlite::{Sqlite, SqliteOptions};

    #[tokio::test]
    async fn empty_values_wait_for_the_queue_as_well_because_of_their_keys() {
        let directory = tempfile::tempdir().unwrap();
        let backend = Sqlite::open(directory.path(), &SqliteOptions::default()).unwrap().backend().unwrap();
        let labels = BTreeSet::from(["default".to_owned()]);
        let grants = Arc::new(Grants::new("probe", Arc::new(labels.clone()), labels, None));
        let mut ctx = KeyValue::new(backend, grants, Arc::default());
        let budget = ctx.queue_budget.clone();
        let mut table = ResourceTable::new();
        let mut view = KeyValueView { ctx: &mut ctx, table: &mut table };
        let Ok(bucket) = view.open_bucket("default".to_owned()) else { panic!("not granted") };
        let borrowed = || Resource::new_borrow(bucket.rep());
        let name = "k".repeat(1000);
        let key = Key { store: "default".into(), key: name.as_str().into() };
        // The free bytes are one less than an empty value of this key takes.
        let held = u32::try_from(budget.available_permits() - queued_bytes(&key, &[]) + 1).unwrap();
        let held = budget.try_acquire_many_owned(held).unwrap();
        assert!(HostBucket::set(&mut view, borrowed(), name.clone(), Vec::new()).now_or_never().is_none());
        let pairs = vec![(name, Vec::new())];
        let mut set = pin!(batch::Host::set_many(&mut view, borrowed(), pairs));
        assert!(set.as_mut().now_or_never().is_none());
        drop(held);
        assert!(set.await.is_ok());
    }
}
