//! `wasi:keyvalue@0.2.0-draft`, the draft before `draft2`: the same stores and grants. It has no compare-and-swap; its
//! counters have no sign, and its cursors are numbers.

use wasmtime::Result;
use wasmtime::component::{Linker, Resource};

use self::wasi::keyvalue::{atomics, batch, store};
use super::state::{DraftListing, HasKeyValue, KeyValueView};
use super::wasi_draft2::wasi::keyvalue as current;
use super::wasi_draft2::{Bucket, KeyValueError, label};

wasmtime::component::bindgen!({
    path: "../wit/deps/keyvalue@0.2.0-draft",
    world: "wasi:keyvalue/imports",
    imports: { default: async | trappable },
    with: { "wasi:keyvalue/store.bucket": super::wasi_draft2::Bucket },
});

pub fn add_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> KeyValueView<'_>) -> Result<()> {
    store::add_to_linker::<_, HasKeyValue>(linker, view)?;
    atomics::add_to_linker::<_, HasKeyValue>(linker, view)?;
    batch::add_to_linker::<_, HasKeyValue>(linker, view)
}

fn to_guest_result<V>(outcome: Result<V, KeyValueError>) -> Result<Result<V, store::Error>> {
    use current::store::Error;
    Ok(match outcome.map_err(KeyValueError::into_guest) {
        Ok(value) => Ok(value),
        Err(error) => Err(match error? {
            Error::NoSuchStore => store::Error::NoSuchStore,
            Error::AccessDenied => store::Error::AccessDenied,
            Error::Other(reason) => store::Error::Other(reason),
        }),
    })
}

impl store::Host for KeyValueView<'_> {
    async fn open(&mut self, identifier: String) -> Result<Result<Resource<Bucket>, store::Error>> {
        to_guest_result(current::store::Host::open(self, identifier).await)
    }
}

impl store::HostBucket for KeyValueView<'_> {
    async fn get(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Result<Option<Vec<u8>>, store::Error>> {
        to_guest_result(current::store::HostBucket::get(self, bucket, key).await)
    }

    async fn set(&mut self, bucket: Resource<Bucket>, key: String, value: Vec<u8>) -> Result<Result<(), store::Error>> {
        to_guest_result(current::store::HostBucket::set(self, bucket, key, value).await)
    }

    async fn delete(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Result<(), store::Error>> {
        to_guest_result(current::store::HostBucket::delete(self, bucket, key).await)
    }

    async fn exists(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Result<bool, store::Error>> {
        to_guest_result(current::store::HostBucket::exists(self, bucket, key).await)
    }

    /// The cursor is the number of keys listed so far. The host remembers where the last page ended. A page with
    /// another cursor costs as much as all pages before it.
    async fn list_keys(
        &mut self,
        bucket: Resource<Bucket>,
        cursor: Option<u64>,
    ) -> Result<Result<store::KeyResponse, store::Error>> {
        let listed = cursor.unwrap_or(0);
        let store = match to_guest_result(label(self.table, &bucket))? {
            Ok(store) => store,
            Err(error) => return Ok(Err(error)),
        };
        let (mut seen, mut after) = match self.ctx.draft_listing.take() {
            Some(last) if last.store == store && last.listed == listed => (listed, Some(last.last)),
            _ => (0, None),
        };
        loop {
            let borrowed = Resource::new_borrow(bucket.rep());
            let page = match to_guest_result(current::store::HostBucket::list_keys(self, borrowed, after).await)? {
                Ok(page) => page,
                Err(error) => return Ok(Err(error)),
            };
            let before = seen;
            seen = seen.saturating_add(page.keys.len() as u64);
            if seen > listed || page.cursor.is_none() {
                if let Some(last) = &page.cursor {
                    self.ctx.draft_listing = Some(DraftListing { store, listed: seen, last: last.clone() });
                }
                let skip = usize::try_from(listed.saturating_sub(before)).unwrap_or(usize::MAX);
                let keys = page.keys.into_iter().skip(skip).collect();
                return Ok(Ok(store::KeyResponse { keys, cursor: page.cursor.map(|_| seen) }));
            }
            after = page.cursor;
            // Between two pages, the shard serves its other requests.
            tokio::task::yield_now().await;
        }
    }

    async fn drop(&mut self, bucket: Resource<Bucket>) -> Result<()> {
        current::store::HostBucket::drop(self, bucket).await
    }
}

impl atomics::Host for KeyValueView<'_> {
    async fn increment(
        &mut self,
        bucket: Resource<Bucket>,
        key: String,
        delta: u64,
    ) -> Result<Result<u64, store::Error>> {
        let Ok(delta) = i64::try_from(delta) else {
            return Ok(Err(store::Error::Other(format!("a counter cannot be raised by {delta}"))));
        };
        let sum = to_guest_result(current::atomics::Host::increment(self, bucket, key, delta).await)?;
        Ok(sum.and_then(|sum| {
            u64::try_from(sum).map_err(|_| store::Error::Other(format!("the counter is {sum}, which has a sign")))
        }))
    }
}

impl batch::Host for KeyValueView<'_> {
    async fn get_many(
        &mut self,
        bucket: Resource<Bucket>,
        keys: Vec<String>,
    ) -> Result<Result<Vec<Option<(String, Vec<u8>)>>, store::Error>> {
        let pairs = to_guest_result(current::batch::Host::get_many(self, bucket, keys).await)?;
        Ok(pairs.map(|pairs| pairs.into_iter().map(|(key, value)| Some((key, value?))).collect()))
    }

    async fn set_many(
        &mut self,
        bucket: Resource<Bucket>,
        key_values: Vec<(String, Vec<u8>)>,
    ) -> Result<Result<(), store::Error>> {
        to_guest_result(current::batch::Host::set_many(self, bucket, key_values).await)
    }

    async fn delete_many(&mut self, bucket: Resource<Bucket>, keys: Vec<String>) -> Result<Result<(), store::Error>> {
        to_guest_result(current::batch::Host::delete_many(self, bucket, keys).await)
    }
}

/// How many keys a page has, and its cursor.
#[cfg(test)]
pub async fn list_keys(
    view: &mut KeyValueView<'_>,
    bucket: Resource<Bucket>,
    cursor: Option<u64>,
) -> Result<(usize, Option<u64>)> {
    let page = store::HostBucket::list_keys(view, bucket, cursor).await?;
    page.map(|page| (page.keys.len(), page.cursor)).map_err(|error| wasmtime::format_err!("{error:?}"))
}
