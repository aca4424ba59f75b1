//! The interface `batch`: many keys in one call, each of them checked as it would be alone.

use wasmtime::component::Resource;

use super::wasi::keyvalue::batch;
use super::{Bucket, Failure, KeyValueView, check_value, ended};
use crate::metrics::Operation;
use crate::store::{Key, MAX_VALUE_BYTES};

impl batch::Host for KeyValueView<'_> {
    async fn get_many(
        &mut self,
        bucket: Resource<Bucket>,
        keys: Vec<String>,
    ) -> Result<Vec<(String, Option<Vec<u8>>)>, Failure> {
        let call = self.begin(Operation::Batch, &bucket);
        let outcome = async {
            let mut wanted = Vec::with_capacity(keys.len());
            for key in &keys {
                let key = self.readable(&bucket, key)?;
                self.ctx.before_read(&key).await?;
                wanted.push(key);
            }
            let values = self
                .ctx
                .backend
                .get_many(&wanted, MAX_VALUE_BYTES)
                .await
                .inspect_err(|_| self.ctx.mark_uncacheable())?;
            Ok(keys.into_iter().zip(values).collect())
        };
        ended(call, outcome.await)
    }

    async fn set_many(&mut self, bucket: Resource<Bucket>, key_values: Vec<(String, Vec<u8>)>) -> Result<(), Failure> {
        let call = self.begin(Operation::Batch, &bucket);
        let outcome = async {
            let mut pairs = Vec::with_capacity(key_values.len());
            let mut bytes = 0usize;
            for (key, value) in key_values {
                let key = self.writable(&bucket, &key)?;
                check_value(&value)?;
                bytes = bytes.saturating_add(value.len());
                pairs.push((key, value));
            }
            let keys: Vec<Key> = pairs.iter().map(|(key, _)| key.clone()).collect();
            let room = self.room(bytes).await?;
            let ctx = &mut *self.ctx;
            ctx.backend.set_many(&ctx.scope.ledger, pairs, room).await?;
            Ok(ctx.after_write(keys).await?)
        };
        ended(call, outcome.await)
    }

    async fn delete_many(&mut self, bucket: Resource<Bucket>, keys: Vec<String>) -> Result<(), Failure> {
        let call = self.begin(Operation::Batch, &bucket);
        let outcome = async {
            let mut wanted = Vec::with_capacity(keys.len());
            for key in &keys {
                wanted.push(self.writable(&bucket, key)?);
            }
            let ctx = &mut *self.ctx;
            ctx.backend.delete_many(&ctx.scope.ledger, wanted.clone()).await?;
            Ok(ctx.after_write(wanted).await?)
        };
        ended(call, outcome.await)
    }
}
