//! SQLite in Spin's own table, so that one file serves this host and Spin.
//!
//! One thread writes ([`writer`], [`worker`]); each shard of the host reads on a connection and a thread
//! of its own. The database is in WAL mode, so readers never wait for the writer, and a commit flushes
//! the log (`synchronous=FULL`). Another thread copies the log into the database ([`checkpointer`]).
//!
//! A read blocks the shard for the time of one lookup. If the page is cached, this takes microseconds, less than a
//! switch to another thread. The host notices a commit of another program within a second ([`worker`]).

mod attachments;
mod backup;
mod bulk_reader;
mod checkpointer;
mod classify;
mod integrity_check;
mod open;
mod operation;
mod reader;
mod worker;
mod write_probe;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hexad_store::near_cache::NearCached;
use hexad_store::{Backend, CasOutcome, ChangeClock, Key, Ledger, StoreError, StoreHealth, StoreProblem};
use tokio::sync::OwnedSemaphorePermit;

pub use attachments::Attachment;
pub use backup::{BackupError, backup};
use bulk_reader::BulkReader;
use checkpointer::Checkpointer;
use integrity_check::IntegrityCheck;
pub use integrity_check::check;
pub use open::{FILE_NAME, SqliteOpenError};
use operation::SqliteWrite;
use reader::Reader;
use writer::{Writer, WriterParts};

/// Bytes of the database and its log.
pub fn size(data: &Path) -> u64 {
    size_of_file(data, "") + size_of_file(data, "-wal")
}

/// Bytes of the database, or of the file beside it with this ending.
fn size_of_file(data: &Path, ending: &str) -> u64 {
    std::fs::metadata(data.join(format!("{FILE_NAME}{ending}"))).map_or(0, |file| file.len())
}

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Whether a missing database is made.
    pub creates: bool,
    /// Most bytes of the database file; `None` for no limit.
    pub max_bytes: Option<u64>,
    /// The age at which a transaction is committed if no request waits for it. Its writes are not acknowledged yet, so
    /// a longer time loses nothing.
    pub batch_age: Duration,
    /// The host reads a database up to this size, in bytes, as a whole before it serves it. This takes a fraction of a
    /// second. The host reads a larger one while it serves it (see [`integrity_check`]).
    pub checked_at_open: u64,
    /// How long the writer waits for the lock of another program. Then the store is busy, and the writer refuses the
    /// requests of the transaction.
    pub lock_wait: Duration,
    /// How often the writer tries to write to a store that did not take writes.
    pub probe_interval: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            creates: true,
            max_bytes: None,
            batch_age: Duration::from_millis(20),
            checked_at_open: 256 * 1024 * 1024,
            lock_wait: Duration::from_secs(1),
            probe_interval: Duration::from_secs(1),
        }
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
    /// Opens the database in `directory`, and creates missing ones if the options say so.
    ///
    /// Fails if another host has the directory open, or if the database is damaged, empty or not
    /// Spin's. It never replaces a file that it cannot read.
    pub fn open(directory: &Path, options: &SqliteOptions) -> Result<Self, SqliteOpenError> {
        let database = open::Database::open(directory, options.creates, options.checked_at_open)?;
        let connection = database.connect_writer(options.max_bytes)?;
        let thread = |source| SqliteOpenError::Thread { path: database.path().to_owned(), source };
        // The writer's connection has made the log and its index, and keeps them until it is closed.
        let lock = database.lock();
        let health = StoreHealth::new(database.path().to_owned(), database.files());
        let health = health
            .with_lock(&lock)
            .map_err(|source| SqliteOpenError::Directory { path: directory.to_owned(), source })?;
        let health = Arc::new(health);
        let integrity_check = match database.is_checked() {
            true => None,
            false => Some(IntegrityCheck::start(database.connect_reader()?, health.clone()).map_err(thread)?),
        };
        let log_bytes = usize::try_from(size_of_file(directory, "-wal")).unwrap_or(usize::MAX);
        let checkpointer = Checkpointer::start(database.connect_checkpointer()?, log_bytes).map_err(thread)?;
        let SqliteOptions { batch_age, lock_wait, probe_interval, .. } = *options;
        let parts = WriterParts { connection, checkpointer, batch_age, lock_wait, probe_interval, lock, health };
        let writer = Writer::start(parts).map_err(thread)?;
        Ok(Self { _integrity_check: integrity_check, writer: Arc::new(writer), database })
    }

    /// The database as one shard uses it.
    pub fn backend(&self) -> Result<Arc<dyn Backend>, SqliteOpenError> {
        let reader = Reader::new(self.database.connect_reader()?);
        let bulk_reader = BulkReader::new(Reader::new(self.database.connect_reader()?));
        let engine = SqliteShard { reader, bulk_reader, writer: self.writer.clone() };
        Ok(Arc::new(NearCached::new(engine)))
    }

    /// The stores by label, each with its number of keys.
    pub fn contents(&self) -> Result<Vec<(String, u64)>, SqliteOpenError> {
        let reader = Reader::new(self.database.connect_reader()?);
        reader.contents().map_err(|error| self.database.open_error(error))
    }

    /// The store's health. The handle does not keep the database open.
    pub fn health(&self) -> &Arc<StoreHealth> {
        self.writer.health()
    }

    /// The error of a database that has failed since it was opened.
    pub fn failure(&self) -> Option<SqliteOpenError> {
        let failure = self.health().failure()?;
        let (path, reason) = (self.database.path().to_owned(), failure.reason.to_string());
        Some(match failure.problem {
            StoreProblem::Damaged => SqliteOpenError::Damaged { path, finding: reason },
            _ => SqliteOpenError::Failed { path, reason },
        })
    }

    /// Takes the attachments out of a database that was restored from a backup. `restore` gets them; after its success,
    /// they are removed.
    pub fn restore_attachments<E>(
        &self,
        restore: impl FnOnce(Vec<Attachment>) -> Result<(), E>,
    ) -> Result<Result<(), E>, SqliteOpenError> {
        let taken = self.database.connect_checkpointer().map(|connection| attachments::take(&connection, restore))?;
        taken.map_err(|error| self.database.open_error(error))
    }

    /// Marks that a copy into the database has begun, or that it is complete. A marked database cannot be opened.
    pub fn mark_unfinished(&self, is_unfinished: bool) -> Result<(), SqliteOpenError> {
        let statement = if is_unfinished { open::MARK_UNFINISHED } else { open::MARK_FINISHED };
        let marked = self.database.connect_checkpointer()?.execute_batch(statement);
        marked.map_err(|error| self.database.open_error(error))
    }

    /// Number of committed (flushed) transactions since the database was opened.
    pub fn commits(&self) -> u64 {
        self.writer.commits().load(Ordering::Relaxed)
    }

    /// The counter behind [`commits`](Self::commits). It does not keep the database open.
    pub fn commit_counter(&self) -> Arc<AtomicU64> {
        self.writer.commits()
    }
}

struct SqliteShard {
    // Declared before the writer, so that the writer's connection is closed last: it moves the log back into the
    // database.
    reader: Reader,
    bulk_reader: BulkReader,
    writer: Arc<Writer>,
}

impl SqliteShard {
    /// Records why a read has failed, if it has.
    fn observe<T>(&self, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
        outcome.inspect_err(|error| self.writer.record_failed_read(error))
    }
}

#[async_trait]
impl Backend for SqliteShard {
    async fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        self.observe(self.reader.get(key))
    }

    async fn exists(&self, key: &Key) -> Result<bool, StoreError> {
        self.observe(self.reader.exists(key))
    }

    async fn list(&self, store: &Arc<str>, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.observe(self.reader.list(store, prefix, after, limit))
    }

    async fn get_many(&self, keys: &[Key], limit: usize) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.observe(match keys.len() <= bulk_reader::MIN_KEYS {
            true => self.reader.get_many(keys, limit),
            false => self.bulk_reader.get_many(keys, limit).await,
        })
    }

    async fn set_many(
        &self,
        ledger: &Ledger,
        pairs: Vec<(Key, Vec<u8>)>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), StoreError> {
        let operation = SqliteWrite::Set { pairs, permit };
        self.writer.queue(ledger, operation).await
    }

    async fn delete_many(&self, ledger: &Ledger, keys: Vec<Key>) -> Result<(), StoreError> {
        self.writer.queue(ledger, SqliteWrite::Delete(keys)).await
    }

    async fn increment(&self, ledger: &Ledger, key: Key, delta: i64) -> Result<i64, StoreError> {
        self.writer.apply(ledger, |reply| SqliteWrite::Increment { key, delta, reply }).await
    }

    async fn cas(
        &self,
        ledger: &Ledger,
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<CasOutcome, StoreError> {
        self.writer.apply(ledger, |reply| SqliteWrite::Cas { key, expected, value, reply }).await
    }

    async fn increment_volatile(&self, ledger: &Ledger, key: Key, delta: i64) -> Result<i64, StoreError> {
        self.increment(ledger.of_volatile(), key, delta).await
    }

    async fn cas_volatile(
        &self,
        ledger: &Ledger,
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<CasOutcome, StoreError> {
        self.cas(ledger.of_volatile(), key, expected, value).await
    }

    fn change_clock(&self) -> Option<&ChangeClock> {
        Some(self.writer.change_clock())
    }

    async fn durable(&self, ledger: &Ledger) -> Result<(), StoreError> {
        let has_open_volatile = ledger.has_open_volatile();
        if has_open_volatile || !ledger.is_settled() {
            self.writer.commit_soon();
        }
        if has_open_volatile {
            // The store may lose a change of a volatile key. The request reads the change only if it is kept.
            let _ = ledger.of_volatile().settled().await;
        }
        ledger.settled().await
    }
}

#[cfg(test)]
mod tests;
