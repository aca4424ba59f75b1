//! SQLite in Spin's own table, so that one file serves this host and Spin.
//!
//! One thread writes ([`writer`]); each shard of the host reads on a connection and a thread of its
//! own. The database is in WAL mode, so readers never wait for the writer, and a commit flushes the
//! log (`synchronous=FULL`).
//!
//! A read blocks the shard for the time of one lookup: microseconds if the page is cached, which is
//! less than a switch to another thread costs.

mod backup;
mod integrity_check;
mod open;
mod page_check;
mod reader;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::OwnedSemaphorePermit;

pub use backup::{BackupError, backup};
pub use integrity_check::check;
use integrity_check::{Damage, IntegrityCheck};
pub use open::{FILE_NAME, OpenError};
use reader::Reader;
use writer::{WriteOperation, Writer};

use super::near_cache::NearCache;
use crate::store::{Backend, ChangeClock, Key, Ledger, StoreError, Swap};

/// Bytes of the database and its log.
pub fn size(data: &Path) -> u64 {
    let files = ["", "-wal"].map(|end| std::fs::metadata(data.join(format!("{FILE_NAME}{end}"))));
    files.into_iter().flatten().map(|file| file.len()).sum()
}

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most bytes of the database file; `None` for no limit.
    pub max_bytes: Option<u64>,
    /// The age at which a transaction is committed if no request waits for it. Its writes are not
    /// acknowledged yet, so a longer time loses nothing. It bounds how long a Spin with the same file
    /// open waits for the lock.
    pub batch_age: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_bytes: None, batch_age: Duration::from_millis(20) }
    }
}

/// An open database. It holds the data directory's lock until the last backend is dropped.
pub struct Sqlite {
    // Declared before the writer, so that the writer's connection is closed last.
    _integrity_check: Option<IntegrityCheck>,
    writer: Arc<Writer>,
    database: open::Database,
}

impl Sqlite {
    /// Opens the database in `directory`, and creates both if they do not exist.
    ///
    /// Fails if another host has the directory open, or if the database is damaged, empty or not
    /// Spin's. It never replaces a file that it cannot read.
    pub fn open(directory: &Path, options: &Options) -> Result<Self, OpenError> {
        let database = open::Database::open(directory)?;
        let connection = database.connect_writer(options.max_bytes)?;
        let thread = |source| OpenError::Thread { path: database.path().to_owned(), source };
        let damage = Damage::default();
        let integrity_check = match database.is_checked() {
            true => None,
            false => {
                let connection = database.connect_reader()?;
                let path = database.path().to_owned();
                Some(IntegrityCheck::start(connection, path, damage.clone()).map_err(thread)?)
            }
        };
        let writer = Writer::start(connection, options.batch_age, database.lock(), damage).map_err(thread)?;
        Ok(Self { _integrity_check: integrity_check, writer: Arc::new(writer), database })
    }

    /// The database as one shard uses it.
    pub fn backend(&self) -> Result<Arc<dyn Backend>, OpenError> {
        let reader = Reader::new(self.database.connect_reader()?);
        Ok(Arc::new(ShardBackend { reader, near_cache: NearCache::default(), writer: self.writer.clone() }))
    }

    /// Number of committed (flushed) transactions since the database was opened.
    pub fn commits(&self) -> u64 {
        self.writer.commits().load(Ordering::Relaxed)
    }

    /// The counter behind [`commits`](Self::commits), which does not keep the database open.
    pub fn commit_counter(&self) -> Arc<AtomicU64> {
        self.writer.commits()
    }
}

struct ShardBackend {
    // Declared before the writer, so that the writer's connection is closed last. That one moves the
    // log back into the database.
    reader: Reader,
    near_cache: NearCache,
    writer: Arc<Writer>,
}

#[async_trait]
impl Backend for ShardBackend {
    async fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        let (clock, now) = (self.writer.change_clock(), Instant::now());
        if let Some(value) = self.near_cache.get(key, clock, now) {
            return Ok(value);
        }
        let commit = clock.now();
        let value = self.reader.get(key)?;
        self.near_cache.insert(key, value.as_deref(), clock, commit, now);
        Ok(value)
    }

    async fn exists(&self, key: &Key) -> Result<bool, StoreError> {
        self.reader.exists(key)
    }

    async fn list(&self, store: &Arc<str>, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.reader.list(store, prefix, after, limit)
    }

    async fn get_many(&self, keys: &[Key], limit: usize) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.reader.get_many(keys, limit)
    }

    async fn set(
        &self,
        ledger: &Ledger,
        key: Key,
        value: Vec<u8>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), StoreError> {
        self.set_many(ledger, vec![(key, value)], permit).await
    }

    async fn delete(&self, ledger: &Ledger, key: Key) -> Result<(), StoreError> {
        self.delete_many(ledger, vec![key]).await
    }

    async fn set_many(
        &self,
        ledger: &Ledger,
        pairs: Vec<(Key, Vec<u8>)>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), StoreError> {
        let operation = WriteOperation::Set { pairs, permit };
        self.writer.queue(ledger, operation).await
    }

    async fn delete_many(&self, ledger: &Ledger, keys: Vec<Key>) -> Result<(), StoreError> {
        self.writer.queue(ledger, WriteOperation::Delete(keys)).await
    }

    async fn increment(&self, ledger: &Ledger, key: Key, delta: i64) -> Result<i64, StoreError> {
        self.writer.apply(ledger, |reply| WriteOperation::Increment { key, delta, reply }).await
    }

    async fn cas(
        &self,
        ledger: &Ledger,
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<Swap, StoreError> {
        self.writer.apply(ledger, |reply| WriteOperation::Cas { key, expected, value, reply }).await
    }

    fn change_clock(&self) -> Option<&ChangeClock> {
        Some(self.writer.change_clock())
    }

    async fn durable(&self, ledger: &Ledger) -> Result<(), StoreError> {
        if !ledger.is_settled() {
            self.writer.commit_soon();
        }
        ledger.settled().await
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        StoreError::Engine(Arc::from(error.to_string()))
    }
}

#[cfg(test)]
mod tests;
