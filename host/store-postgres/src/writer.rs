//! The connections for writes.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Client, Statement};

use super::STORE_TIMEOUT;
use super::sql;

/// A connection for writes, of one write at a time: a synchronous commit takes as long as the disk.
pub struct WriteConnection {
    pub client: Client,
    /// The number of its process on the server.
    pub process: i32,
    pub set: Statement,
    pub delete: Statement,
    pub flush: Statement,
    flushed: RootStatements,
    volatile: RootStatements,
}

/// How durable the commit of a swap or an increment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It waits for the disk, and for a synchronous standby.
    Flushed,
    /// It waits for nothing: a crash may undo it.
    Volatile,
}

pub struct RootStatements {
    pub create: Statement,
    pub replace: Statement,
    pub increment: Statement,
}

/// The write connections of one connection set.
pub struct WriteConnections(Arc<WritePool>);

struct WritePool {
    idle: Mutex<Vec<WriteConnection>>,
    permits: Arc<Semaphore>,
    /// How often a connection was given back.
    returned: AtomicU64,
}

/// A connection for one write. Its drop gives it back.
pub struct IdleWriter {
    pool: Arc<WritePool>,
    writer: Option<WriteConnection>,
    _permit: OwnedSemaphorePermit,
}

impl WriteConnection {
    pub async fn new(client: Client) -> Result<Self, tokio_postgres::Error> {
        let process = client.query_one("select pg_backend_pid()", &[]).await?.try_get(0)?;
        let set = client.prepare(sql::SET).await?;
        let delete = client.prepare(sql::DELETE).await?;
        let flush = client.prepare(sql::FLUSH).await?;
        let flushed = RootStatements::new(&client, str::to_owned).await?;
        let volatile = RootStatements::new(&client, sql::asynchronous).await?;
        Ok(Self { client, process, set, delete, flush, flushed, volatile })
    }

    pub fn roots(&self, durability: Durability) -> &RootStatements {
        match durability {
            Durability::Flushed => &self.flushed,
            Durability::Volatile => &self.volatile,
        }
    }
}

impl RootStatements {
    async fn new(client: &Client, form: fn(&str) -> String) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            create: client.prepare(&form(sql::CREATE)).await?,
            replace: client.prepare(&form(sql::REPLACE)).await?,
            increment: client.prepare(&form(&sql::INCREMENT)).await?,
        })
    }
}

impl WriteConnections {
    pub fn new(writers: Vec<WriteConnection>) -> Self {
        let permits = Arc::new(Semaphore::new(writers.len()));
        Self(Arc::new(WritePool { idle: Mutex::new(writers), permits, returned: AtomicU64::new(0) }))
    }

    /// Waits for an idle connection.
    pub async fn idle(&self) -> Option<IdleWriter> {
        let permit = self.0.permits.clone().acquire_owned().await.ok()?;
        let writer = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(IdleWriter { pool: self.0.clone(), writer: Some(writer), _permit: permit })
    }

    /// Waits for an idle connection until `end`. Continues, at most until `latest`, as long as writes give at least one
    /// back within each [`STORE_TIMEOUT`]. If none comes back, all of them may wait for a stopped standby.
    pub async fn idle_by(&self, mut end: Instant, latest: Instant) -> Option<IdleWriter> {
        let mut idle = pin!(self.idle());
        loop {
            let before = self.0.returned.load(Ordering::SeqCst);
            if let Ok(idle) = tokio::time::timeout_at(end.min(latest).into(), &mut idle).await {
                return idle;
            }
            if end >= latest || self.0.returned.load(Ordering::SeqCst) == before {
                return None;
            }
            end += STORE_TIMEOUT;
        }
    }
}

impl IdleWriter {
    pub fn get(&self) -> Option<&WriteConnection> {
        self.writer.as_ref()
    }
}

impl Drop for IdleWriter {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(writer);
            self.pool.returned.fetch_add(1, Ordering::SeqCst);
        }
    }
}
