//! `spin:key-value@3.0.0`, which guests of the present Spin SDK import: the same stores and grants,
//! in calls that can overlap. No call holds the instance while it waits for the store.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use tokio::sync::oneshot;
use wasmtime::component::{
    Accessor, Destination, FutureReader, Linker, Resource, StreamProducer, StreamReader, StreamResult, VecBuffer,
};
use wasmtime::{Result, StoreContextMut};

use self::spin::key_value::key_value::{self, Error};
use super::grants::Grants;
use super::interface::wasi::keyvalue::store;
use super::interface::{Bucket, Failure, check_value, ended, in_flight, label};
use super::{HasKeyValue, KeyValueView, Settling};
use crate::metrics::Operation;
use crate::store::{Backend, Error as StoreError, Key};

wasmtime::component::bindgen!({
    path: "../wit/deps/spin-key-value@3.0.0",
    inline: "package hexad:host; world imports { import spin:key-value/key-value@3.0.0; }",
    world: "hexad:host/imports",
    imports: { default: trappable },
    with: { "spin:key-value/key-value.store": super::interface::Bucket },
});

/// Keys that a listing reads at once.
const PAGE_KEYS: usize = 1000;

type Outcome<V> = Result<Result<V, Error>>;

/// The key, what must be waited for, and where it is read.
type Reading = (Key, Option<Settling>, Arc<dyn Backend>);

type Listing = (StreamReader<String>, FutureReader<Result<(), Error>>);

pub fn add_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> KeyValueView<'_>) -> Result<()> {
    key_value::add_to_linker::<_, HasKeyValue>(linker, view)
}

/// The outcome in this interface's words.
fn worded<V>(outcome: Result<V, Failure>) -> Outcome<V> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(Failure::Trap(error)) => Err(error),
        Err(Failure::Guest(store::Error::NoSuchStore)) => Ok(Err(Error::NoSuchStore)),
        Err(Failure::Guest(store::Error::AccessDenied)) => Ok(Err(Error::AccessDenied)),
        Err(Failure::Guest(store::Error::Other(reason))) => Ok(Err(Error::Other(reason))),
    }
}

/// Waits until what a read rests on is durable.
async fn settle<T>(accessor: &Accessor<T, HasKeyValue>, settling: Option<Settling>) -> Result<(), StoreError> {
    if let Some(settling) = settling {
        settling.wait().await?;
        accessor.with(|mut access| access.get().ctx.settled(&settling));
    }
    Ok(())
}

/// Takes note of a write, and waits for it if nobody else will.
async fn wrote<T>(accessor: &Accessor<T, HasKeyValue>, key: Key) -> Result<(), StoreError> {
    let settling = accessor.with(|mut access| {
        let ctx = access.get().ctx;
        ctx.wrote([key]).then(|| ctx.settling())
    });
    settle(accessor, settling).await
}

impl key_value::Host for KeyValueView<'_> {}

impl key_value::HostStore for KeyValueView<'_> {
    fn drop(&mut self, bucket: Resource<Bucket>) -> Result<()> {
        self.table.delete(bucket)?;
        Ok(())
    }
}

impl<T: Send> key_value::HostStoreWithStore<T> for HasKeyValue {
    async fn open(accessor: &Accessor<T, Self>, identifier: String) -> Outcome<Resource<Bucket>> {
        accessor.with(|mut access| worded(access.get().open_bucket(identifier)))
    }

    async fn get(accessor: &Accessor<T, Self>, bucket: Resource<Bucket>, key: String) -> Outcome<Option<Vec<u8>>> {
        let call = accessor.with(|mut access| access.get().begin(Operation::Get, &bucket));
        let outcome = async {
            let (key, settling, backend) = accessor.with(|mut access| access.get().reading(&bucket, &key))?;
            settle(accessor, settling).await?;
            let value = backend.get(&key).await;
            Ok(value.inspect_err(|_| accessor.with(|mut access| access.get().ctx.mark_uncacheable()))?)
        };
        worded(ended(call, outcome.await))
    }

    async fn exists(accessor: &Accessor<T, Self>, bucket: Resource<Bucket>, key: String) -> Outcome<bool> {
        let call = accessor.with(|mut access| access.get().begin(Operation::Exists, &bucket));
        let outcome = async {
            let (key, settling, backend) = accessor.with(|mut access| access.get().reading(&bucket, &key))?;
            settle(accessor, settling).await?;
            let there = backend.exists(&key).await;
            Ok(there.inspect_err(|_| accessor.with(|mut access| access.get().ctx.mark_uncacheable()))?)
        };
        worded(ended(call, outcome.await))
    }

    async fn set(accessor: &Accessor<T, Self>, bucket: Resource<Bucket>, key: String, value: Vec<u8>) -> Outcome<()> {
        let call = accessor.with(|mut access| access.get().begin(Operation::Set, &bucket));
        let outcome = async {
            check_value(&value)?;
            let (key, scope, backend, room) = accessor.with(|mut access| {
                let view = access.get();
                let key = view.writable(&bucket, &key)?;
                let ctx = view.ctx;
                Ok::<_, Failure>((key, ctx.scope.clone(), ctx.backend.clone(), ctx.in_flight.clone()))
            })?;
            let room = in_flight(room, value.len()).await?;
            backend.set(&scope.ledger, key.clone(), value, room).await?;
            Ok(wrote(accessor, key).await?)
        };
        worded(ended(call, outcome.await))
    }

    async fn delete(accessor: &Accessor<T, Self>, bucket: Resource<Bucket>, key: String) -> Outcome<()> {
        let call = accessor.with(|mut access| access.get().begin(Operation::Delete, &bucket));
        let outcome = async {
            let (key, scope, backend) = accessor.with(|mut access| {
                let view = access.get();
                let key = view.writable(&bucket, &key)?;
                Ok::<_, Failure>((key, view.ctx.scope.clone(), view.ctx.backend.clone()))
            })?;
            backend.delete(&scope.ledger, key.clone()).await?;
            Ok(wrote(accessor, key).await?)
        };
        worded(ended(call, outcome.await))
    }

    async fn get_keys(accessor: &Accessor<T, Self>, bucket: Resource<Bucket>) -> Result<Listing> {
        accessor.with(|mut access| {
            let (tell, told) = oneshot::channel();
            let view = access.get();
            view.ctx.mark_uncacheable();
            drop(view.begin(Operation::List, &bucket));
            let store = match label(view.table, &bucket) {
                Ok(store) => store,
                Err(Failure::Trap(error)) => return Err(error),
                Err(Failure::Guest(error)) => return Err(wasmtime::format_err!("{error:?}")),
            };
            let keys = Keys {
                store,
                settling: view.ctx.before_listing(),
                backend: view.ctx.backend.clone(),
                grants: view.ctx.grants.clone(),
                prefix: 0,
                after: String::new(),
                page: None,
                end: Some(tell),
            };
            let stream = StreamReader::new(&mut access, keys)?;
            let end = FutureReader::new(&mut access, async {
                // Nobody tells of a listing that the guest did not read to its end.
                wasmtime::error::Ok(told.await.unwrap_or(Ok(())))
            })?;
            Ok((stream, end))
        })
    }
}

impl KeyValueView<'_> {
    /// What a read of one key needs.
    fn reading(&self, bucket: &Resource<Bucket>, key: &str) -> Result<Reading, Failure> {
        let key = self.readable(bucket, key)?;
        let settling = self.ctx.before_reading(&key);
        Ok((key, settling, self.ctx.backend.clone()))
    }
}

/// A listing on its way to the guest, a page at a time. Between pages it holds nothing of the
/// store's.
struct Keys {
    store: Arc<str>,
    settling: Option<Settling>,
    backend: Arc<dyn Backend>,
    grants: Arc<Grants>,
    /// Which of the readable prefixes is read.
    prefix: usize,
    /// The last key that was read.
    after: String,
    page: Option<BoxFuture<'static, Result<Vec<String>, StoreError>>>,
    end: Option<oneshot::Sender<Result<(), Error>>>,
}

impl Keys {
    /// Reads on. `None` at the end.
    fn next_page(&mut self) -> Option<BoxFuture<'static, Result<Vec<String>, StoreError>>> {
        let prefix = self.grants.readable().get(self.prefix)?.clone();
        let (store, after) = (self.store.clone(), self.after.clone());
        let (backend, settling) = (self.backend.clone(), self.settling.take());
        Some(Box::pin(async move {
            if let Some(settling) = settling {
                settling.wait().await?;
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

impl<D> StreamProducer<D> for Keys {
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
