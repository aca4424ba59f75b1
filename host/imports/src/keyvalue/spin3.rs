//! `spin:key-value@3.0.0`, which guests of the current Spin SDK import: the same stores and grants,
//! in calls that can overlap. No call holds the instance while it waits for the store.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use hexad_limits::anonymous_work::{ClientWork, Work};
use hexad_store::{Backend, Key, StoreError};
use hexad_telemetry::metrics::Operation;
use tokio::sync::oneshot;
use wasmtime::component::{
    Accessor, Destination, FutureReader, Linker, Resource, StreamProducer, StreamReader, StreamResult, VecBuffer,
};
use wasmtime::{Result, StoreContextMut};

use self::spin::key_value::key_value::{self, Error};
use super::grants::Grants;
use super::state::{DurabilityWait, HasKeyValue, KeyValueView, queued_bytes, reserve_queue_bytes};
use super::wasi_draft2::wasi::keyvalue::store;
use super::wasi_draft2::{Bucket, KeyValueError, check_value, finish, guest_error, label};

wasmtime::component::bindgen!({
    path: "../../wit/deps/spin-key-value@3.0.0",
    inline: "package hexad:host; world imports { import spin:key-value/key-value@3.0.0; }",
    world: "hexad:host/imports",
    imports: { default: trappable },
    with: { "spin:key-value/key-value.store": super::wasi_draft2::Bucket },
});

/// Keys on one page of a listing.
const PAGE_KEYS: usize = 1000;

type GuestResult<V> = Result<Result<V, Error>>;

/// The key, the wait before its read, and the backend that reads it.
type PreparedRead = (Key, Option<DurabilityWait>, Arc<dyn Backend>);

type Listing = (StreamReader<String>, FutureReader<Result<(), Error>>);

pub fn add_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> KeyValueView<'_>) -> Result<()> {
    key_value::add_to_linker::<_, HasKeyValue>(linker, view)
}

fn to_guest_result<V>(outcome: Result<V, KeyValueError>) -> GuestResult<V> {
    Ok(match outcome.map_err(KeyValueError::into_guest) {
        Ok(value) => Ok(value),
        Err(error) => Err(match error? {
            store::Error::NoSuchStore => Error::NoSuchStore,
            store::Error::AccessDenied => Error::AccessDenied,
            store::Error::Other(reason) => Error::Other(reason),
        }),
    })
}

/// Waits until a read may begin.
async fn settle<T>(accessor: &Accessor<T, HasKeyValue>, wait: Option<DurabilityWait>) -> Result<(), StoreError> {
    if let Some(wait) = wait {
        wait.wait().await?;
        accessor.with(|mut access| access.get().ctx.finish_wait(&wait));
    }
    Ok(())
}

/// Records a write. If the guest may not go on before that, waits until the write is durable.
async fn record_write<T>(accessor: &Accessor<T, HasKeyValue>, key: Key) -> Result<(), StoreError> {
    let wait = accessor.with(|mut access| {
        let ctx = access.get().ctx;
        ctx.record_writes([key]).then(|| ctx.durability_wait())
    });
    settle(accessor, wait).await
}

impl key_value::Host for KeyValueView<'_> {}

impl key_value::HostStore for KeyValueView<'_> {
    fn drop(&mut self, bucket: Resource<Bucket>) -> Result<()> {
        self.table.delete(bucket)?;
        Ok(())
    }
}

impl<T: Send> key_value::HostStoreWithStore<T> for HasKeyValue {
    async fn open(accessor: &Accessor<T, Self>, identifier: String) -> GuestResult<Resource<Bucket>> {
        accessor.with(|mut access| to_guest_result(access.get().open_bucket(identifier)))
    }

    async fn get(accessor: &Accessor<T, Self>, bucket: Resource<Bucket>, key: String) -> GuestResult<Option<Vec<u8>>> {
        let call = accessor.with(|mut access| access.get().begin(Operation::Get, &bucket));
        let outcome = async {
            let (key, wait, backend) = accessor.with(|mut access| access.get().prepare_read(&bucket, &key))?;
            settle(accessor, wait).await?;
            let budget = accessor.with(|mut access| access.get().ctx.read_budget.clone());
            let _permit = budget.acquire_owned().await;
            let value = backend.get(&key).await;
            let value = value.inspect_err(|_| accessor.with(|mut access| access.get().ctx.mark_uncacheable()))?;
            Ok(accessor.with(|mut access| access.get().ctx.charge_value(value)))
        };
        let outcome = outcome.await;
        to_guest_result(accessor.with(|mut access| finish(call, &access.get().ctx.scope, outcome)))
    }

    async fn exists(accessor: &Accessor<T, Self>, bucket: Resource<Bucket>, key: String) -> GuestResult<bool> {
        let call = accessor.with(|mut access| access.get().begin(Operation::Exists, &bucket));
        let outcome = async {
            let (key, wait, backend) = accessor.with(|mut access| access.get().prepare_read(&bucket, &key))?;
            settle(accessor, wait).await?;
            let exists = backend.exists(&key).await;
            Ok(exists.inspect_err(|_| accessor.with(|mut access| access.get().ctx.mark_uncacheable()))?)
        };
        let outcome = outcome.await;
        to_guest_result(accessor.with(|mut access| finish(call, &access.get().ctx.scope, outcome)))
    }

    async fn set(
        accessor: &Accessor<T, Self>,
        bucket: Resource<Bucket>,
        key: String,
        value: Vec<u8>,
    ) -> GuestResult<()> {
        let call = accessor.with(|mut access| access.get().begin(Operation::Set, &bucket));
        let outcome = async {
            check_value(&value)?;
            let (key, held, scope, backend, budget) = accessor.with(|mut access| {
                let view = access.get();
                let key = view.writable(&bucket, &key)?;
                let ctx = view.ctx;
                ctx.charge(value.len());
                let held =
                    ctx.hold_unqueued(queued_bytes(&key, &value)).map_err(|error| guest_error(error.to_string()))?;
                Ok::<_, KeyValueError>((key, held, ctx.scope.clone(), ctx.backend.clone(), ctx.queue_budget.clone()))
            })?;
            let permit = reserve_queue_bytes(budget, queued_bytes(&key, &value)).await?;
            drop(held);
            backend.set(scope.ledger(), key.clone(), value, permit).await?;
            Ok(record_write(accessor, key).await?)
        };
        let outcome = outcome.await;
        to_guest_result(accessor.with(|mut access| finish(call, &access.get().ctx.scope, outcome)))
    }

    async fn delete(accessor: &Accessor<T, Self>, bucket: Resource<Bucket>, key: String) -> GuestResult<()> {
        let call = accessor.with(|mut access| access.get().begin(Operation::Delete, &bucket));
        let outcome = async {
            let (key, scope, backend) = accessor.with(|mut access| {
                let view = access.get();
                let key = view.writable(&bucket, &key)?;
                Ok::<_, KeyValueError>((key, view.ctx.scope.clone(), view.ctx.backend.clone()))
            })?;
            backend.delete(scope.ledger(), key.clone()).await?;
            Ok(record_write(accessor, key).await?)
        };
        let outcome = outcome.await;
        to_guest_result(accessor.with(|mut access| finish(call, &access.get().ctx.scope, outcome)))
    }

    async fn get_keys(accessor: &Accessor<T, Self>, bucket: Resource<Bucket>) -> Result<Listing> {
        accessor.with(|mut access| {
            let (end_sender, end_receiver) = oneshot::channel();
            let view = access.get();
            view.ctx.mark_uncacheable();
            drop(view.begin(Operation::List, &bucket));
            let store = match label(view.table, &bucket) {
                Ok(store) => store,
                Err(error) => return Err(wasmtime::format_err!("{:?}", error.into_guest()?)),
            };
            let keys = KeyListing {
                store,
                wait: view.ctx.wait_before_list(),
                backend: view.ctx.backend.clone(),
                grants: view.ctx.grants.clone(),
                prefix: 0,
                after: String::new(),
                page: None,
                work: view.ctx.work().cloned(),
                end: Some(end_sender),
            };
            let stream = StreamReader::new(&mut access, keys)?;
            let end = FutureReader::new(&mut access, async {
                // If the guest does not read the listing to its end, the sender is dropped.
                wasmtime::error::Ok(end_receiver.await.unwrap_or(Ok(())))
            })?;
            Ok((stream, end))
        })
    }
}

impl KeyValueView<'_> {
    fn prepare_read(&self, bucket: &Resource<Bucket>, key: &str) -> Result<PreparedRead, KeyValueError> {
        let key = self.readable(bucket, key)?;
        let wait = self.ctx.wait_before_read(&key);
        Ok((key, wait, self.ctx.backend.clone()))
    }
}

/// A listing that the guest reads as a stream. It reads a page at a time and holds no transaction
/// between pages.
struct KeyListing {
    store: Arc<str>,
    wait: Option<DurabilityWait>,
    backend: Arc<dyn Backend>,
    grants: Arc<Grants>,
    /// Index of the readable prefix that the listing is at.
    prefix: usize,
    /// The last key of the previous page.
    after: String,
    page: Option<BoxFuture<'static, Result<Vec<String>, StoreError>>>,
    /// The account of the client's anonymous work.
    work: Option<Arc<ClientWork>>,
    end: Option<oneshot::Sender<Result<(), Error>>>,
}

impl KeyListing {
    /// `None` after the last page.
    fn next_page(&mut self) -> Option<BoxFuture<'static, Result<Vec<String>, StoreError>>> {
        let prefix = self.grants.readable().get(self.prefix)?.clone();
        let (store, after) = (self.store.clone(), self.after.clone());
        let (backend, wait) = (self.backend.clone(), self.wait.take());
        Some(Box::pin(async move {
            if let Some(wait) = wait {
                wait.wait().await?;
            }
            backend.list(&store, &prefix, &after, PAGE_KEYS).await
        }))
    }

    fn finish(&mut self, outcome: Result<(), Error>) -> StreamResult {
        if let Some(end) = self.end.take() {
            let _ = end.send(outcome);
        }
        StreamResult::Dropped
    }
}

impl<D> StreamProducer<D> for KeyListing {
    type Item = String;
    type Buffer = VecBuffer<String>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        _: StoreContextMut<'a, D>,
        mut destination: Destination<'a, String, VecBuffer<String>>,
        finish: bool,
    ) -> Poll<Result<StreamResult>> {
        let this = &mut *self;
        loop {
            let page = match &mut this.page {
                Some(page) => page,
                None => match this.next_page() {
                    Some(page) => this.page.insert(page),
                    None => return Poll::Ready(Ok(this.finish(Ok(())))),
                },
            };
            let read = match page.as_mut().poll(cx) {
                Poll::Pending if finish => return Poll::Ready(Ok(StreamResult::Cancelled)),
                polled => ready!(polled),
            };
            this.page = None;
            match read {
                Ok(keys) => {
                    if keys.len() < PAGE_KEYS {
                        this.prefix += 1;
                    }
                    if let Some(work) = &this.work {
                        work.charge(Work::StoreBytes, keys.iter().map(|key| key.len() as u64).sum());
                    }
                    if let Some(last) = keys.last() {
                        last.clone_into(&mut this.after);
                        destination.set_buffer(keys.into());
                        return Poll::Ready(Ok(StreamResult::Completed));
                    }
                }
                Err(error) => return Poll::Ready(Ok(this.finish(Err(Error::Other(error.to_string()))))),
            }
        }
    }
}
