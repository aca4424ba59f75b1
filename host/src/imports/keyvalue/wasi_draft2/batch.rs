//! The interface `batch`: several keys in one call. The host checks each key as in a single call. Between keys, the
//! shard serves its other requests.

use tokio::task::coop::consume_budget;
use wasmtime::component::Resource;

use super::wasi::keyvalue::batch;
use super::{Bucket, KeyValueError, check_value, finish};
use crate::imports::keyvalue::state::{KeyValueView, queued_bytes};
use crate::metrics::Operation;
use crate::store::{Key, MAX_VALUE_BYTES};

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

    use super::super::wasi::keyvalue::store::HostBucket;
    use super::*;
    use crate::imports::keyvalue::{Grants, KeyValue};
    use crate::store::sqlite::{Sqlite, SqliteOptions};

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
