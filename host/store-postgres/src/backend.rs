//! The store as one shard uses it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hexad_store::{Backend, CasOutcome, CatchUp, ChangeClock, Key, Ledger, ServerClock, StoreError};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::STORE_TIMEOUT;
use super::shared::SharedStore;
use super::write_queue::WriteQueue;
use super::writer::Durability;
use super::writes::PostgresWrite;

pub struct PostgresShard {
    pub shared: Arc<SharedStore>,
    pub shard: usize,
    /// The greatest age of cached values; zero for exact.
    pub staleness: Duration,
}

#[async_trait]
impl Backend for PostgresShard {
    async fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        self.shared.get(self.shard, key).await
    }

    async fn exists(&self, key: &Key) -> Result<bool, StoreError> {
        let decode = |row: &Row| row.try_get(3);
        let (keys, params): (_, [&(dyn ToSql + Sync); 2]) = (std::slice::from_ref(key), [&&*key.store, &&*key.key]);
        self.shared.read(self.shard, keys, |reader| &reader.exists, &params, decode).await
    }

    async fn list(&self, store: &Arc<str>, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let (end, limit) = (end_of_prefix(prefix), i64::try_from(limit).unwrap_or(i64::MAX));
        let decode = |row: &Row| row.try_get(3);
        let params: [&(dyn ToSql + Sync); 5] = [&&**store, &prefix, &after, &end, &limit];
        self.shared.read(self.shard, &[], |reader| &reader.list, &params, decode).await
    }

    async fn get_many(&self, keys: &[Key], limit: usize) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let stores: Vec<&str> = keys.iter().map(|key| &*key.store).collect();
        let names: Vec<&str> = keys.iter().map(|key| &*key.key).collect();
        let bytes = i64::try_from(limit).unwrap_or(i64::MAX);
        let decode = |row: &Row| row.try_get::<_, Option<Vec<Option<Vec<u8>>>>>(3);
        let values =
            self.shared.read(self.shard, keys, |reader| &reader.get_many, &[&stores, &names, &bytes], decode).await?;
        values.ok_or(StoreError::ResultTooLarge { limit })
    }

    async fn set_many(
        &self,
        ledger: &Ledger,
        pairs: Vec<(Key, Vec<u8>)>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), StoreError> {
        WriteQueue::push(&self.shared, ledger, PostgresWrite::Set { pairs, permit }).await
    }

    async fn delete_many(&self, ledger: &Ledger, keys: Vec<Key>) -> Result<(), StoreError> {
        WriteQueue::push(&self.shared, ledger, PostgresWrite::Delete(keys)).await
    }

    async fn increment(&self, ledger: &Ledger, key: Key, delta: i64) -> Result<i64, StoreError> {
        self.count(ledger, Durability::Flushed, key, delta).await
    }

    async fn cas(
        &self,
        ledger: &Ledger,
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<CasOutcome, StoreError> {
        self.swap(ledger, Durability::Flushed, key, (expected, value)).await
    }

    async fn increment_volatile(&self, ledger: &Ledger, key: Key, delta: i64) -> Result<i64, StoreError> {
        self.count(ledger, Durability::Volatile, key, delta).await
    }

    async fn cas_volatile(
        &self,
        ledger: &Ledger,
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<CasOutcome, StoreError> {
        self.swap(ledger, Durability::Volatile, key, (expected, value)).await
    }

    fn change_clock(&self) -> Option<&ChangeClock> {
        Some(self.shared.supervisor.memory.clock())
    }

    fn server_clock(&self) -> Option<&Arc<ServerClock>> {
        Some(&self.shared.supervisor.clock)
    }

    fn catch_up(&self) -> Option<CatchUp> {
        let supervisor = &self.shared.supervisor;
        let is_due = self.staleness.is_zero() || !supervisor.memory.is_younger_than(self.staleness);
        is_due.then(|| supervisor.barrier(self.shard, STORE_TIMEOUT))
    }

    fn bind_reads(&self, ledger: &Ledger) {
        WriteQueue::bind(&self.shared, ledger);
    }

    fn losses(&self) -> u64 {
        self.shared.supervisor.losses()
    }

    fn prefetches(&self) -> bool {
        true
    }

    async fn durable(&self, ledger: &Ledger) -> Result<(), StoreError> {
        if !ledger.is_settled() {
            WriteQueue::push(&self.shared, ledger, PostgresWrite::Flush).await?;
        }
        ledger.settled().await
    }
}

impl PostgresShard {
    async fn count(&self, ledger: &Ledger, durability: Durability, key: Key, delta: i64) -> Result<i64, StoreError> {
        let (reply, sum) = oneshot::channel();
        WriteQueue::push(&self.shared, ledger, PostgresWrite::Increment { durability, key, delta, reply }).await?;
        sum.await.unwrap_or_else(|_| Err(StoreError::writer_stopped()))
    }

    async fn swap(
        &self,
        ledger: &Ledger,
        durability: Durability,
        key: Key,
        (expected, value): (Option<Vec<u8>>, Vec<u8>),
    ) -> Result<CasOutcome, StoreError> {
        let (reply, swapped) = oneshot::channel();
        let operation = PostgresWrite::Swap { durability, key, expected, value, reply };
        WriteQueue::push(&self.shared, ledger, operation).await?;
        swapped.await.unwrap_or_else(|_| Err(StoreError::writer_stopped()))
    }
}

/// A text that sorts after every key with this prefix, and before all other later keys.
fn end_of_prefix(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // The code points between these two are no characters of a text.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            end.push(next);
            return end;
        }
    }
    // No key is this long.
    char::MAX.to_string().repeat(hexad_store::MAX_KEY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_sorts_after_all_its_keys_and_before_the_others() {
        for prefix in ["a", "a/", "é", "a\u{d7ff}", "a\u{10ffff}", "\u{10ffff}"] {
            let end = end_of_prefix(prefix);
            assert!(format!("{prefix}{}", char::MAX) < end, "{prefix:?}");
        }
        assert_eq!((&*end_of_prefix("a/"), &*end_of_prefix("a\u{10ffff}")), ("a0", "b"));
        assert!(end_of_prefix("") > char::MAX.to_string());
    }
}
