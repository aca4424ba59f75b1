//! PostgreSQL, which several hosts can use at once.
//!
//! | module | what |
//! |---|---|
//! | [`url`], [`password`], [`tls`], [`open_error`] | which servers, as whom, and why one cannot be used |
//! | [`schema`], [`sql`] | tables and statements |
//! | [`writer`], [`connection_set`] | connections for writes; all connections to one server |
//! | [`connection_state`], [`supervisor`] | the present connections, or why there are none; reconnects, barriers, health |
//! | [`barrier_queue`] | requests that wait for a barrier |
//! | [`memory`] | which cached values are still valid |
//! | [`fleet`] | the hosts of the store, and the components that they serve |
//! | [`monitor`] | facts about the server for the operator |
//! | [`shared`], [`backend`] | reads; the store as a shard uses it |
//! | [`write_queue`], [`writes`] | the writes of a request, their queue and its memory, their execution |
//! | [`late_reply`], [`classify`] | writes without a reply in time; the store errors of PostgreSQL's errors |
//! | [`probe`] | whether the tables can be used again |
//!
//! Connections have a thread and a runtime of their own, to which the shards send statements.

mod backend;
mod barrier_queue;
mod classify;
mod connection_set;
mod connection_state;
mod fleet;
mod late_reply;
mod memory;
mod monitor;
mod open_error;
mod password;
mod probe;
mod schema;
mod shared;
mod sql;
mod supervisor;
mod tls;
mod url;
mod write_queue;
mod writer;
mod writes;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use hexad_store::lock::DataLock;
use hexad_store::near_cache::NearCached;
use hexad_store::{Backend, StoreHealth};
use hexad_support::serving_threads::survive;
use tokio::runtime;
use tokio_postgres::Row;
use tokio_util::sync::CancellationToken;

use backend::PostgresShard;
use connection_set::{ConnectionSet, PostgresConnector};
pub use fleet::{FleetStore, HostRow, ServingRow};
pub use monitor::ServerStatus;
pub use open_error::PostgresOpenError;
pub use password::Passwords;
use shared::SharedStore;
pub use supervisor::ConnectionSupervisor;
pub use url::StoreUrl;

/// How a store on PostgreSQL is opened.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    pub url: StoreUrl,
    /// Connections for writes. Each carries one write at a time.
    pub writers: usize,
    /// The greatest age of cached values; zero for never older than a request.
    pub staleness: Duration,
    /// Whether missing tables are made.
    pub creates: bool,
}

impl PostgresOptions {
    pub fn new(url: StoreUrl, writers: usize, staleness: Duration) -> Self {
        Self { url, writers, staleness, creates: true }
    }
}

const NAME: &str = "postgres";

/// How long a request waits for a server, for a barrier, and for a connection that another write gives back. After this
/// time, the host tells the client to try again.
const STORE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a reply may take before the host asks whether the server responds at all, and how long this check may take.
const HALF_TIMEOUT: Duration = Duration::from_millis(500);

/// An open store. It holds the data directory's lock, and its connections, until it is dropped.
pub struct Postgres {
    shared: Arc<SharedStore>,
    staleness: Duration,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
    _lock: DataLock,
}

impl Postgres {
    /// Connects, and makes missing tables if the options say so. Blocks. `readers` is a number of connections, and
    /// `data` the host's own directory.
    pub fn open(data: &Path, readers: usize, options: &PostgresOptions) -> Result<Self, PostgresOpenError> {
        let lock = DataLock::acquire(data)?;
        let PostgresOptions { url, writers, creates, .. } = options.clone();
        let connector = PostgresConnector::new(url, readers, writers, creates)?;
        let health = Arc::new(StoreHealth::new(PathBuf::from(connector.name()), Vec::new()));
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(PostgresOpenError::Thread)?;
        let handle = runtime.handle().clone();
        let (sender, opened) = std::sync::mpsc::channel();
        let ended = health.clone();
        let keep = move || {
            runtime.block_on(async {
                match ConnectionSupervisor::open(connector, health).await {
                    Ok(supervisor) => {
                        let _ = sender.send(Ok(supervisor.clone()));
                        tokio::select! {
                            () = supervisor.run() => {}
                            () = stopped.cancelled() => {}
                        }
                    }
                    Err(error) => drop(sender.send(Err(error))),
                }
            });
        };
        let thread = std::thread::Builder::new().name(NAME.to_owned()).spawn(move || {
            survive(NAME, keep);
            ended.set_writer_stopped();
        });
        let thread = thread.map_err(PostgresOpenError::Thread)?;
        let supervisor = opened.recv().map_err(|error| PostgresOpenError::Thread(std::io::Error::other(error)))??;
        let shared = Arc::new(SharedStore::new(supervisor, handle));
        Ok(Self { shared, staleness: options.staleness, stop, thread: Some(thread), _lock: lock })
    }

    /// The store as one shard uses it.
    pub fn backend(&self, shard: usize) -> Arc<dyn Backend> {
        Arc::new(NearCached::new(PostgresShard { shared: self.shared.clone(), shard, staleness: self.staleness }))
    }

    /// The stores by label, each with its number of keys.
    pub async fn contents(&self) -> Result<Vec<(String, u64)>, PostgresOpenError> {
        let link = self.present_link()?;
        let rows = link.barrier().client.query(sql::SELECT_VALUES, &[]).await?;
        let pair = |row: &Row| Ok((row.try_get(0)?, row.try_get::<_, i64>(1)?.unsigned_abs()));
        rows.iter().map(pair).collect()
    }

    /// Whether other hosts have connections to the database.
    pub async fn has_other_hosts(&self) -> Result<bool, PostgresOpenError> {
        let link = self.present_link()?;
        let row = link.barrier().client.query_one(sql::CONNECTIONS, &[]).await?;
        let connections: i64 = row.try_get(0)?;
        Ok(usize::try_from(connections).unwrap_or(usize::MAX) > link.connections)
    }

    /// Marks that a copy into the database has begun, or that it is complete. No host connects to a marked database.
    pub async fn mark_unfinished(&self, is_unfinished: bool) -> Result<(), PostgresOpenError> {
        schema::mark_unfinished(&self.present_link()?.barrier().client, is_unfinished).await
    }

    fn present_link(&self) -> Result<Arc<ConnectionSet>, PostgresOpenError> {
        let lost = || PostgresOpenError::Unreachable("the connections are lost".to_owned());
        self.shared.supervisor.present_link().ok_or_else(lost)
    }

    pub fn health(&self) -> &Arc<StoreHealth> {
        &self.shared.supervisor.health
    }

    /// The counter of synchronous commits.
    pub fn commit_counter(&self) -> Arc<AtomicU64> {
        self.shared.commits.clone()
    }

    /// The tables of the hosts that share the store. They keep its connections until the store is dropped.
    pub fn fleet(&self) -> FleetStore {
        FleetStore::new(self.shared.clone())
    }

    /// The connections, which do not keep the store open.
    pub fn supervisor(&self) -> &Arc<ConnectionSupervisor> {
        &self.shared.supervisor
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the store panicked");
        }
    }
}

#[cfg(test)]
pub mod tests;
#[cfg(test)]
mod torture;
