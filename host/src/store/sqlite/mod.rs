//! SQLite in Spin's own table, so that one file serves this host and Spin.
//!
//! One thread writes ([`writer`]); each shard of the host reads on a connection of its own, on
//! its own thread. The database is in WAL mode, so readers never wait for the writer, and the
//! commit flushes the log (`synchronous=FULL`).
//!
//! Reading blocks the shard for the time of one lookup. That is microseconds when the page is
//! cached, and a hop to another thread would cost more than it hides.

mod backup;
mod integrity_check;
mod open;
mod reader;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::OwnedSemaphorePermit;

pub use backup::{BackupError, backup, check};
use integrity_check::{Damage, IntegrityCheck};
pub use open::OpenError;
use reader::Reader;
use writer::{Operation, Writer};

use super::near_cache::NearCache;
use super::{Backend, ChangeClock, Error, Key, Ledger, Swap};

/// The file's name in the data directory, the one that Spin uses.
pub const FILE_NAME: &str = "sqlite_key_value.db";

/// Bytes of the database and its log.
pub fn size(data: &Path) -> u64 {
    let files = ["", "-wal"].map(|end| std::fs::metadata(data.join(format!("{FILE_NAME}{end}"))));
    files.into_iter().flatten().map(|file| file.len()).sum()
}

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most bytes that the database file may have; none for no limit but the disk.
    pub max_bytes: Option<u64>,
    /// The age at which a transaction is committed for which nobody waits. Nothing is lost by
    /// waiting longer, since nothing in it is acknowledged; it bounds how long a Spin that has
    /// the same file open waits for the lock.
    pub batch_age: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_bytes: None, batch_age: Duration::from_millis(20) }
    }
}

/// An open database. It holds the data directory's lock until the last backend is dropped.
pub struct Sqlite {
    // Before the writer, whose connection is to be the last.
    _integrity_check: Option<IntegrityCheck>,
    writer: Arc<Writer>,
    database: open::Database,
}

impl Sqlite {
    /// Opens the database in `directory`, and makes both if they are not there.
    ///
    /// Refuses a directory that another host has open, and a database that is damaged, empty or
    /// not Spin's: it never starts afresh over something that it cannot read.
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

    /// A view of the database for one thread.
    pub fn backend(&self) -> Result<Arc<dyn Backend>, OpenError> {
        let reader = Reader::new(self.database.connect_reader()?);
        Ok(Arc::new(Shard { reader, near_cache: NearCache::default(), writer: self.writer.clone() }))
    }

    /// How many transactions were committed (that is, flushed) since the database was opened.
    pub fn commits(&self) -> u64 {
        self.writer.commits().load(Ordering::Relaxed)
    }

    /// The same, for somebody who does not keep the database open.
    pub fn commit_counter(&self) -> Arc<AtomicU64> {
        self.writer.commits()
    }
}

struct Shard {
    // Before the writer, so that the last connection to close is the writer's, which then folds
    // the log back into the database.
    reader: Reader,
    near_cache: NearCache,
    writer: Arc<Writer>,
}

#[async_trait]
impl Backend for Shard {
    async fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Error> {
        let (clock, now) = (self.writer.change_clock(), Instant::now());
        if let Some(value) = self.near_cache.get(key, clock, now) {
            return Ok(value);
        }
        let commit = clock.now();
        let value = self.reader.get(key)?;
        self.near_cache.insert(key, value.as_deref(), clock, commit, now);
        Ok(value)
    }

    async fn exists(&self, key: &Key) -> Result<bool, Error> {
        self.reader.exists(key)
    }

    async fn list(&self, store: &Arc<str>, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        self.reader.list(store, prefix, after, limit)
    }

    async fn get_many(&self, keys: &[Key], limit: usize) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.reader.get_many(keys, limit)
    }

    async fn set(&self, ledger: &Ledger, key: Key, value: Vec<u8>, room: OwnedSemaphorePermit) -> Result<(), Error> {
        self.set_many(ledger, vec![(key, value)], room).await
    }

    async fn delete(&self, ledger: &Ledger, key: Key) -> Result<(), Error> {
        self.delete_many(ledger, vec![key]).await
    }

    async fn set_many(
        &self,
        ledger: &Ledger,
        pairs: Vec<(Key, Vec<u8>)>,
        room: OwnedSemaphorePermit,
    ) -> Result<(), Error> {
        let operation = Operation::Set { pairs, room };
        self.writer.queue(ledger, operation).await
    }

    async fn delete_many(&self, ledger: &Ledger, keys: Vec<Key>) -> Result<(), Error> {
        self.writer.queue(ledger, Operation::Delete(keys)).await
    }

    async fn increment(&self, ledger: &Ledger, key: Key, delta: i64) -> Result<i64, Error> {
        self.writer.ask(ledger, |reply| Operation::Increment { key, delta, reply }).await
    }

    async fn cas(&self, ledger: &Ledger, key: Key, expected: Option<Vec<u8>>, value: Vec<u8>) -> Result<Swap, Error> {
        self.writer.ask(ledger, |reply| Operation::Cas { key, expected, value, reply }).await
    }

    fn change_clock(&self) -> Option<&ChangeClock> {
        Some(self.writer.change_clock())
    }

    async fn durable(&self, ledger: &Ledger) -> Result<(), Error> {
        if !ledger.is_settled() {
            self.writer.commit_soon();
        }
        ledger.settled().await
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Error::Engine(Arc::from(error.to_string()))
    }
}

#[cfg(test)]
mod tests;
