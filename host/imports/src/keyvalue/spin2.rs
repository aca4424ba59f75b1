//! `fermyon:spin/key-value@2.0.0`, which guests of older Spin SDKs import: the same stores and
//! grants, with other names.

use wasmtime::Result;
use wasmtime::component::{Linker, Resource};

use self::fermyon::spin::key_value::{self, Error};
use super::state::{HasKeyValue, KeyValueView};
use super::wasi_draft2::wasi::keyvalue::store::{self, HostBucket as _};
use super::wasi_draft2::{Bucket, KeyValueError};

wasmtime::component::bindgen!({
    path: "../../wit/deps/spin@2.0.0",
    inline: "package hexad:host; world imports { import fermyon:spin/key-value@2.0.0; }",
    world: "hexad:host/imports",
    imports: { default: async | trappable },
    with: { "fermyon:spin/key-value.store": super::wasi_draft2::Bucket },
});

/// Bytes of keys in one listing, which this interface returns as a whole.
const MAX_LISTING_BYTES: usize = 32 * 1024 * 1024;

pub fn add_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> KeyValueView<'_>) -> Result<()> {
    key_value::add_to_linker::<_, HasKeyValue>(linker, view)
}

fn to_guest_result<V>(outcome: Result<V, KeyValueError>) -> Result<Result<V, Error>> {
    Ok(match outcome.map_err(KeyValueError::into_guest) {
        Ok(value) => Ok(value),
        Err(error) => Err(match error? {
            store::Error::NoSuchStore => Error::NoSuchStore,
            store::Error::AccessDenied => Error::AccessDenied,
            store::Error::Other(reason) => Error::Other(reason),
        }),
    })
}

impl key_value::Host for KeyValueView<'_> {}

impl key_value::HostStore for KeyValueView<'_> {
    async fn open(&mut self, label: String) -> Result<Result<Resource<Bucket>, Error>> {
        to_guest_result(store::Host::open(self, label).await)
    }

    async fn get(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Result<Option<Vec<u8>>, Error>> {
        to_guest_result(store::HostBucket::get(self, bucket, key).await)
    }

    async fn set(&mut self, bucket: Resource<Bucket>, key: String, value: Vec<u8>) -> Result<Result<(), Error>> {
        to_guest_result(store::HostBucket::set(self, bucket, key, value).await)
    }

    async fn delete(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Result<(), Error>> {
        to_guest_result(store::HostBucket::delete(self, bucket, key).await)
    }

    async fn exists(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Result<bool, Error>> {
        to_guest_result(store::HostBucket::exists(self, bucket, key).await)
    }

    async fn get_keys(&mut self, bucket: Resource<Bucket>) -> Result<Result<Vec<String>, Error>> {
        let (mut keys, mut cursor, mut bytes) = (Vec::new(), None, 0usize);
        loop {
            let borrowed = Resource::new_borrow(bucket.rep());
            let page = match to_guest_result(self.list_keys(borrowed, cursor).await)? {
                Ok(page) => page,
                Err(error) => return Ok(Err(error)),
            };
            bytes = page.keys.iter().fold(bytes, |bytes, key| bytes.saturating_add(key.len()));
            if bytes > MAX_LISTING_BYTES {
                return Ok(Err(Error::Other(format!("the keys have more than {MAX_LISTING_BYTES} bytes together"))));
            }
            keys.extend(page.keys);
            match page.cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(Ok(keys)),
            }
            // Between two pages, the shard serves its other requests.
            tokio::task::yield_now().await;
        }
    }

    async fn drop(&mut self, bucket: Resource<Bucket>) -> Result<()> {
        store::HostBucket::drop(self, bucket).await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use futures::poll;
    use wasmtime::component::ResourceTable;

    use super::*;
    use crate::keyvalue::{Grants, KeyValue};
    use hexad_store::{Key, Ledger};
    use hexad_store_sqlite::{Sqlite, SqliteOptions};

    #[tokio::test]
    async fn a_listing_yields_between_its_pages() {
        let directory = tempfile::tempdir().unwrap();
        let backend = Sqlite::open(directory.path(), &SqliteOptions::default()).unwrap().backend().unwrap();
        let (ledger, budget) = (Ledger::default(), Arc::new(tokio::sync::Semaphore::new(1)));
        let pairs = (0..2500).map(|n| (Key { store: "default".into(), key: format!("k/{n:04}").into() }, Vec::new()));
        backend.set_many(&ledger, pairs.collect(), budget.try_acquire_owned().unwrap()).await.unwrap();
        backend.durable(&ledger).await.unwrap();

        let labels = BTreeSet::from(["default".to_owned()]);
        let grants = Arc::new(Grants::new("probe", Arc::new(labels.clone()), labels, None));
        let mut ctx = KeyValue::new(backend, grants, Arc::default());
        let mut table = ResourceTable::new();
        let mut view = KeyValueView { ctx: &mut ctx, table: &mut table };
        let Ok(bucket) = view.open_bucket("default".to_owned()) else { panic!("not granted") };
        let mut listing = std::pin::pin!(key_value::HostStore::get_keys(&mut view, bucket));
        assert!(poll!(listing.as_mut()).is_pending(), "the shard would wait for the whole listing");
        assert_eq!(listing.await.unwrap().unwrap().len(), 2500);
    }
}
