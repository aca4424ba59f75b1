//! The writes of a request, one after the other. The host sends each after the reply to the one before, so that it
//! swaps a root only after all earlier blobs are written.
//!
//! A plain value (`set`) is committed asynchronously: no root names it yet. A write that must be durable (a swap, an
//! increment, a deletion) is committed synchronously, and with it everything before it, because the server's log is
//! sequential.
//!
//! This holds as long as the server is in the same *timeline*. After a crash or a failover, the server may have lost
//! asynchronous commits, and then the request fails. The lost commits may be another request's, which this one has only
//! read. So a request writes only in the timeline in which it began to read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hexad_store::{CasOutcome, Key, Ledger, LedgerEntry, StoreError, StoreProblem};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::STORE_TIMEOUT;
use super::classify::{self, away};
use super::connection_set::ConnectionSet;
use super::late_reply::outcome_of;
use super::shared::SharedStore;
use super::write_queue::{WriteReservation, WriteSize};
use super::writer::{Durability, RootStatements, WriteConnection};

/// How long a write may take, and how long it may wait for a connection while other writes end. A synchronous commit
/// can wait for a slow disk or a slow standby.
const WRITE_DEADLINE: Duration = Duration::from_secs(10);

/// How long written values stay unflushed if no request waits for them.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// Most values, and about the most bytes, that go into one statement.
const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Most writes that stay unflushed. Their entries take memory although they have left the queue.
const MAX_UNFLUSHED: usize = 64 * 1024;

/// Bytes that a queued operation takes in addition to its keys and values: its fields, its place in the queue, its
/// ledger entry and the allocator's overhead. A deletion of a short key has hardly more.
const OPERATION_BYTES: usize = 256;

/// Bytes that a queued key takes in addition to its text.
const KEY_BYTES: usize = 64;

/// Carries out the writes of one request.
pub struct WriteTask {
    shared: Arc<SharedStore>,
    operations: UnboundedReceiver<Queued>,
    /// Taken from the queue, but not part of the last batch.
    next: Option<Queued>,
    /// Writes that were committed asynchronously.
    unflushed: Vec<LedgerEntry>,
    /// The timeline in which the request began.
    timeline: Arc<str>,
}

/// The outcome of a statement that must be durable, and the keys that it may have changed.
struct Durable<T> {
    keys: Vec<Key>,
    outcome: Result<T, StoreError>,
}

impl WriteTask {
    /// For a request that began in this timeline.
    pub fn new(shared: Arc<SharedStore>, operations: UnboundedReceiver<Queued>, timeline: Arc<str>) -> Self {
        Self { shared, operations, next: None, unflushed: Vec::new(), timeline }
    }

    /// Ends when the ledger is dropped.
    pub async fn run(mut self) {
        // Each round gives its reservation back at its end.
        while let Some(Queued { operation, entry, reservation }) = self.take().await {
            if let Err(error) = entry.check() {
                // The request has failed, so it does not wait for the flush of its earlier writes.
                self.unflushed.drain(..).for_each(|entry| entry.fail(error.clone()));
                refuse(operation, entry, error);
                continue;
            }
            match operation {
                PostgresWrite::Set { pairs, permit } => self.set(pairs, (permit, reservation), entry).await,
                PostgresWrite::Delete(keys) => {
                    let deleted = self.delete(keys).await;
                    self.settle(entry, deleted, None);
                }
                PostgresWrite::Increment { durability, key, delta, reply } => {
                    let sum = self.increment(durability, key, delta).await;
                    self.settle(entry, sum, Some(reply));
                }
                PostgresWrite::Swap { durability, key, expected, value, reply } => {
                    let swapped = self.swap(durability, key, expected, value).await;
                    self.settle(entry, swapped, Some(reply));
                }
                PostgresWrite::Flush => {
                    let flushed = self.flush().await;
                    self.settle(entry, flushed, None);
                }
            }
        }
    }

    /// The next operation. It is a flush if many writes are unflushed, or if some are and no operation comes.
    async fn take(&mut self) -> Option<Queued> {
        if let Some(entry) = self.unflushed.get(MAX_UNFLUSHED) {
            return Some(Queued::flush(&entry.ledger()));
        }
        if let Some(next) = self.next.take() {
            return Some(next);
        }
        let Some(ledger) = self.unflushed.last().map(LedgerEntry::ledger) else {
            return self.operations.recv().await;
        };
        match timeout(FLUSH_AFTER, self.operations.recv()).await {
            Ok(operation) => operation,
            Err(_) => Some(Queued::flush(&ledger)),
        }
    }

    async fn set(
        &mut self,
        mut pairs: Vec<(Key, Vec<u8>)>,
        held: (OwnedSemaphorePermit, WriteReservation),
        entry: LedgerEntry,
    ) {
        let (mut permits, mut entries) = (vec![held], vec![entry]);
        let mut bytes: usize = pairs.iter().map(|(_, value)| value.len()).sum();
        while bytes < MAX_BATCH_BYTES && pairs.len() < MAX_BATCH {
            match self.operations.try_recv() {
                Ok(Queued { operation: PostgresWrite::Set { pairs: more, permit }, entry, reservation }) => {
                    bytes += more.iter().map(|(_, value)| value.len()).sum::<usize>();
                    pairs.extend(more);
                    permits.push((permit, reservation));
                    entries.push(entry);
                }
                Ok(other) => {
                    self.next = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        // The last value of a key counts. The map is sorted, so that the statement locks keys in order.
        let pairs: BTreeMap<(Arc<str>, Arc<str>), Vec<u8>> =
            pairs.into_iter().map(|(key, value)| ((key.store, key.key), value)).collect();
        let stores: Vec<&str> = pairs.keys().map(|(store, _)| &**store).collect();
        let keys: Vec<&str> = pairs.keys().map(|(_, key)| &**key).collect();
        let values: Vec<&[u8]> = pairs.values().map(Vec::as_slice).collect();
        let params: [&(dyn ToSql + Sync); 3] = [&stores, &keys, &values];
        let end = Instant::now() + STORE_TIMEOUT;
        let outcome = match self.link(end).await {
            Ok(link) => self.execute(&link, end, |writer| &writer.set, &params).await.and_then(|row| all_written(&row)),
            Err(error) => Err(error),
        };
        drop(permits);
        let changed: Vec<Key> = pairs.into_keys().map(|(store, key)| Key { store, key }).collect();
        self.shared.supervisor.memory.record_own_changes(&changed);
        match outcome {
            Ok(()) => {
                // From now on, other requests see it, even if it cannot be flushed.
                entries.iter().for_each(LedgerEntry::record_stored);
                self.unflushed.extend(entries);
            }
            Err(error) => {
                self.record_refusal(&error, bytes);
                self.shared.supervisor.record_failure(&error, &changed);
                entries.into_iter().for_each(|entry| entry.fail(error.clone()));
            }
        }
    }

    async fn delete(&mut self, mut keys: Vec<Key>) -> Durable<()> {
        keys.sort_by(|a, b| (&a.store, &a.key).cmp(&(&b.store, &b.key)));
        keys.dedup();
        let stores: Vec<&str> = keys.iter().map(|key| &*key.store).collect();
        let names: Vec<&str> = keys.iter().map(|key| &*key.key).collect();
        let outcome = self.execute_durably(|writer| &writer.delete, &[&stores, &names], is_counted).await;
        Durable { outcome: outcome.map(drop), keys }
    }

    async fn increment(&mut self, durability: Durability, key: Key, delta: i64) -> Durable<i64> {
        let params: [&(dyn ToSql + Sync); 3] = [&&*key.store, &&*key.key, &delta];
        let outcome = match self.execute_root(durability, |roots| &roots.increment, &params, is_some).await {
            Ok(row) => match row.try_get::<_, Option<&[u8]>>(0) {
                Ok(Some(bytes)) => counter(&key, bytes),
                // The present value is no counter.
                Ok(None) => match self.shared.get(0, &key).await {
                    Ok(value) => {
                        let len = value.map_or(0, |value| value.len());
                        Err(StoreError::NotACounter { key: key.key.clone(), len })
                    }
                    Err(error) => Err(error),
                },
                Err(error) => Err(classify::of_write(&error)),
            },
            Err(StoreError::CounterOverflow { .. }) => match self.shared.get(0, &key).await {
                Ok(value) => counter(&key, &value.unwrap_or_default())
                    .and_then(|value| Err(StoreError::CounterOverflow { key: key.key.clone(), value, delta })),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        Durable { keys: vec![key], outcome }
    }

    async fn swap(
        &mut self,
        durability: Durability,
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Durable<CasOutcome> {
        let (store, name) = (&*key.store, &*key.key);
        let row = match &expected {
            None => {
                let params: [&(dyn ToSql + Sync); 3] = [&store, &name, &value];
                self.execute_root(durability, |roots| &roots.create, &params, is_true).await
            }
            Some(expected) => {
                let params: [&(dyn ToSql + Sync); 4] = [&store, &name, expected, &value];
                self.execute_root(durability, |roots| &roots.replace, &params, is_true).await
            }
        };
        let swapped = row.and_then(|row| row.try_get::<_, bool>(0).map_err(|error| classify::of_write(&error)));
        let outcome = match swapped {
            Ok(true) => Ok(CasOutcome::Swapped),
            Ok(false) => self.shared.get(0, &key).await.map(CasOutcome::Lost),
            Err(error) => Err(error),
        };
        Durable { keys: vec![key], outcome }
    }

    async fn flush(&mut self) -> Durable<()> {
        let outcome = match self.unflushed.is_empty() {
            true => Ok(()),
            false => self.execute_durably(|writer| &writer.flush, &[], |_| true).await.map(drop),
        };
        // A lost write fails the request.
        if let Err(error) = &outcome {
            self.unflushed.drain(..).for_each(|entry| entry.fail(error.clone()));
        }
        Durable { keys: Vec::new(), outcome }
    }

    /// Ends an operation that must be durable, and replies.
    fn settle<T>(&self, entry: LedgerEntry, done: Durable<T>, reply: Option<oneshot::Sender<Result<T, StoreError>>>) {
        self.shared.supervisor.memory.record_own_changes(&done.keys);
        if let Err(error) = &done.outcome {
            self.shared.supervisor.record_failure(error, &done.keys);
        }
        match (reply, done.outcome) {
            (Some(reply), outcome) => {
                // The guest gets the error and may read the stored value; the ledger does not fail.
                match &outcome {
                    Ok(_) => entry.commit(),
                    Err(error) => entry.close(error),
                }
                let _ = reply.send(outcome);
            }
            (None, Ok(_)) => entry.commit(),
            (None, Err(error)) => entry.fail(error),
        }
    }

    async fn link(&self, end: Instant) -> Result<Arc<ConnectionSet>, StoreError> {
        let link = self.shared.supervisor.link(end).await?;
        if link.timeline == self.timeline {
            return Ok(link);
        }
        let problem = StoreProblem::Unavailable;
        let reason = Arc::from("PostgreSQL was restarted, and may have lost what this request has read or written");
        Err(match self.unflushed.is_empty() {
            true => StoreError::Unavailable { problem, reason },
            false => StoreError::Unknown { problem, reason },
        })
    }

    /// The connection set. If the server may have lost unflushed writes, the request fails.
    async fn link_or_fail(&mut self, end: Instant) -> Result<Arc<ConnectionSet>, StoreError> {
        let link = self.link(end).await;
        if let Err(error @ StoreError::Unknown { .. }) = &link {
            self.unflushed.drain(..).for_each(|entry| entry.fail(error.clone()));
        }
        link
    }

    async fn execute_root(
        &mut self,
        durability: Durability,
        statement: fn(&RootStatements) -> &Statement,
        params: &[&(dyn ToSql + Sync)],
        written: fn(&Row) -> bool,
    ) -> Result<Row, StoreError> {
        if durability == Durability::Flushed {
            return self.execute_durably(|writer| statement(writer.roots(durability)), params, written).await;
        }
        let end = Instant::now() + STORE_TIMEOUT;
        let link = self.link_or_fail(end).await?;
        self.execute(&link, end, |writer| statement(writer.roots(durability)), params).await
    }

    /// Sends a statement that commits synchronously. If it has `written` a row, all writes before it are durable
    /// afterwards. At the end of a transaction without changes, the server does not wait for the disk.
    async fn execute_durably(
        &mut self,
        statement: impl Fn(&WriteConnection) -> &Statement,
        params: &[&(dyn ToSql + Sync)],
        written: impl Fn(&Row) -> bool,
    ) -> Result<Row, StoreError> {
        let end = Instant::now() + STORE_TIMEOUT;
        let link = self.link_or_fail(end).await?;
        let row = self.execute(&link, end, statement, params).await?;
        if written(&row) {
            self.shared.commits.fetch_add(1, Ordering::Relaxed);
            self.unflushed.drain(..).for_each(LedgerEntry::commit);
        }
        Ok(row)
    }

    /// Sends a statement once a connection is idle. If none becomes idle, the caller waits until `end`.
    async fn execute(
        &self,
        link: &Arc<ConnectionSet>,
        end: Instant,
        statement: impl Fn(&WriteConnection) -> &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, StoreError> {
        let idle = link.writers().idle_by(end, Instant::now() + WRITE_DEADLINE).await.ok_or_else(away)?;
        let writer = idle.get().ok_or_else(away)?;
        let replied = self.shared.reply(WRITE_DEADLINE, writer.client.query_one(statement(writer), params)).await;
        outcome_of(link, idle, replied).inspect_err(|error| self.record_refusal(error, 1))
    }

    /// Records that the server had no space for a transaction of at least this size.
    fn record_refusal(&self, error: &StoreError, bytes: usize) {
        if let StoreError::Unavailable { problem: StoreProblem::Full, reason } = error {
            self.shared.supervisor.health.begin_outage(StoreProblem::Full, reason, bytes);
        }
    }
}

fn all_written(row: &Row) -> Result<(), StoreError> {
    match row.try_get(0) {
        Ok(true) => Ok(()),
        Ok(false) => Err(classify::left_out()),
        Err(error) => Err(classify::of_row(&error)),
    }
}

fn is_counted(row: &Row) -> bool {
    row.try_get::<_, i64>(0).is_ok_and(|count| count > 0)
}

fn is_true(row: &Row) -> bool {
    row.try_get(0).unwrap_or(false)
}

fn is_some(row: &Row) -> bool {
    row.try_get::<_, Option<&[u8]>>(0).is_ok_and(|value| value.is_some())
}

fn counter(key: &Key, bytes: &[u8]) -> Result<i64, StoreError> {
    let not_a_counter = |_| StoreError::NotACounter { key: key.key.clone(), len: bytes.len() };
    Ok(i64::from_le_bytes(bytes.try_into().map_err(not_a_counter)?))
}

pub enum PostgresWrite {
    Set {
        pairs: Vec<(Key, Vec<u8>)>,
        permit: OwnedSemaphorePermit,
    },
    Delete(Vec<Key>),
    Increment {
        durability: Durability,
        key: Key,
        delta: i64,
        reply: oneshot::Sender<Result<i64, StoreError>>,
    },
    Swap {
        durability: Durability,
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
        reply: oneshot::Sender<Result<CasOutcome, StoreError>>,
    },
    Flush,
}

impl PostgresWrite {
    /// About how much memory the operation takes in the queue.
    pub fn bytes(&self) -> usize {
        let payload: usize = match self {
            Self::Set { pairs, .. } => pairs.iter().map(|(key, value)| KEY_BYTES + key.key.len() + value.len()).sum(),
            Self::Delete(keys) => keys.iter().map(|key| KEY_BYTES + key.key.len()).sum(),
            Self::Increment { key, .. } => KEY_BYTES + key.key.len(),
            Self::Swap { key, expected, value, .. } => {
                KEY_BYTES + key.key.len() + value.len() + expected.as_ref().map_or(0, Vec::len)
            }
            Self::Flush => 0,
        };
        OPERATION_BYTES + payload
    }

    /// The bytes that the operation needs in the queue, and their budgets. A flush needs none of the host's budget: it
    /// ends a request, and with it the request's reservations.
    pub fn need(&self) -> WriteSize {
        let of_request = matches!(self, Self::Delete(_) | Self::Flush);
        WriteSize { bytes: self.bytes(), of_request, of_host: !matches!(self, Self::Flush) }
    }
}

/// An operation in the queue of its request.
pub struct Queued {
    pub operation: PostgresWrite,
    pub entry: LedgerEntry,
    pub reservation: WriteReservation,
}

impl Queued {
    /// A flush that the worker itself queues.
    pub fn flush(ledger: &Ledger) -> Self {
        Self { operation: PostgresWrite::Flush, entry: ledger.enter(), reservation: WriteReservation::default() }
    }
}

/// Ends an operation that no worker carries out.
pub fn refuse(operation: PostgresWrite, entry: LedgerEntry, error: StoreError) {
    match operation {
        PostgresWrite::Increment { reply, .. } => drop(reply.send(Err(error.clone()))),
        PostgresWrite::Swap { reply, .. } => drop(reply.send(Err(error.clone()))),
        PostgresWrite::Set { .. } | PostgresWrite::Delete(_) | PostgresWrite::Flush => {}
    }
    entry.fail(error);
}
