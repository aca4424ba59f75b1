//! The state that the shards of a host share: the connections, the reads over them, and the runtime of the connections.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hexad_store::{Key, StoreError};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};

use super::classify::{self, away};
use super::connection_set::ReadConnection;
use super::memory::Observation;
use super::supervisor::ConnectionSupervisor;
use super::write_queue::WriteQueueBudget;
use super::{HALF_TIMEOUT, STORE_TIMEOUT};

/// How long a read may take before its server counts as lost.
const READ_DEADLINE: Duration = Duration::from_secs(5);

pub struct SharedStore {
    pub supervisor: Arc<ConnectionSupervisor>,
    /// Synchronous commits since the start.
    pub commits: Arc<AtomicU64>,
    /// Memory for the waiting writes of all requests.
    pub queue_budget: WriteQueueBudget,
    runtime: Handle,
}

impl SharedStore {
    pub fn new(supervisor: Arc<ConnectionSupervisor>, runtime: Handle) -> Self {
        Self { supervisor, commits: Arc::default(), queue_budget: WriteQueueBudget::of_host(), runtime }
    }

    /// Runs a task on the runtime of the connections.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Waits for a reply of the server, until the deadline and only while the server answers barriers. `None` if no
    /// reply comes. So the host waits for a slow disk or a slow statement, but not for a server that has gone.
    pub async fn reply<T>(&self, deadline: Duration, reply: impl Future<Output = T>) -> Option<T> {
        let end = Instant::now() + deadline;
        let mut reply = pin!(reply);
        loop {
            if let Ok(reply) = timeout(HALF_TIMEOUT, &mut reply).await {
                return Some(reply);
            }
            let supervisor = self.supervisor.clone();
            let responds = self.runtime.spawn(async move { supervisor.responds(HALF_TIMEOUT).await });
            let responds = tokio::select! {
                reply = &mut reply => return Some(reply),
                responds = responds => responds.unwrap_or(false),
            };
            if !responds || Instant::now() >= end {
                return None;
            }
        }
    }

    pub async fn get(&self, shard: usize, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        let params: [&(dyn ToSql + Sync); 2] = [&&*key.store, &&*key.key];
        let value = |row: &Row| Ok(row.try_get::<_, Option<&[u8]>>(3)?.map(<[u8]>::to_vec));
        self.read(shard, std::slice::from_ref(key), |reader| &reader.get, &params, value).await
    }

    /// Sends a statement with the barrier as its first parameter and columns. `keys` are the keys that it reads, if
    /// any. If the connection is lost, the host sends the statement again, as long as a request waits for a server.
    pub async fn read<T>(
        &self,
        shard: usize,
        keys: &[Key],
        statement: impl Fn(&ReadConnection) -> &Statement,
        params: &[&(dyn ToSql + Sync)],
        decode: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        self.supervisor.figures.reads.fetch_add(1, Ordering::Relaxed);
        let read = self.read_within(STORE_TIMEOUT, shard, statement, params, decode).await;
        if let Err(error) = &read {
            self.supervisor.record_failure(error, keys);
        }
        read
    }

    /// As [`read`](Self::read), but waits for a server for at most `patience`. It does not count as a read of a
    /// component.
    pub async fn read_within<T>(
        &self,
        patience: Duration,
        shard: usize,
        statement: impl Fn(&ReadConnection) -> &Statement,
        params: &[&(dyn ToSql + Sync)],
        decode: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let end = Instant::now() + patience;
        loop {
            let link = self.supervisor.link(end).await?;
            let Some(base) = self.supervisor.memory.base(link.number) else {
                // The supervisor is about to publish another connection set.
                tokio::task::yield_now().await;
                continue;
            };
            let text = &*base.text;
            let mut all: Vec<&(dyn ToSql + Sync)> = Vec::with_capacity(params.len() + 1);
            all.push(&text);
            all.extend(params);
            let reader = link.reader(shard);
            let began = Instant::now();
            let row = match self.reply(READ_DEADLINE, reader.client.query_opt(statement(reader), &all)).await {
                Some(Ok(Some(row))) => row,
                // Only a single-row table can lack its row.
                Some(Ok(None)) => return Err(classify::no_row("serving")),
                Some(Err(error)) if classify::ends_connection(&error) => {
                    link.close();
                    if Instant::now() < end {
                        continue;
                    }
                    return Err(classify::of_read(&error));
                }
                Some(Err(error)) => return Err(classify::of_read(&error)),
                None => {
                    // If the server stays silent, the unanswered barrier closes all connections. Here, only one may be
                    // broken.
                    if began.elapsed() >= READ_DEADLINE {
                        link.close();
                    }
                    return Err(away());
                }
            };
            let read = || Ok((Observation::of(&row)?, decode(&row)?));
            let (observed, value) = read().map_err(|error: Error| classify::of_row(&error))?;
            let observed = observed.ok_or_else(|| classify::no_row("horizon"))?;
            if self.supervisor.observe(&link, &base, observed, began) {
                return Ok(value);
            }
        }
    }
}
