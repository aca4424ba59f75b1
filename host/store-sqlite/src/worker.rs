//! The work of the writer thread: transactions, their commits, and the consequences of a failed one.
//!
//! The thread applies operations in the order of the queue, inside an open transaction. It commits once a request waits
//! for durability, the transaction is large, or it is some milliseconds old. Operations that arrive during a flush go
//! into the next transaction together.

use std::mem;
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use hexad_store::{CasOutcome, ChangeClock, Key, LedgerEntry, StoreError, StoreHealth, VersionBucket};
use hexad_support::log_throttle::LogThrottle;
use rusqlite::Connection;

use super::checkpointer::Checkpointer;
use super::classify::{classify, classify_commit};
use super::operation::{Message, QueuedWrite, SqliteWrite};
use super::reader;
use super::write_probe::{self, WriteProbe, record_failed_probe, record_failure};

/// The writer commits a transaction of this size even if no request waits for it. So the log and the page cache stay
/// small during a large upload.
const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;
const MAX_BATCH_OPERATIONS: usize = 4096;

/// How often the writer looks for commits of other programs while no request writes.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

const SET: &str = "INSERT INTO spin_key_value (store, key, value) VALUES (?1, ?2, ?3)
    ON CONFLICT (store, key) DO UPDATE SET value = ?3";
const DELETE: &str = "DELETE FROM spin_key_value WHERE store = ?1 AND key = ?2";

/// Faults of the next transaction, for tests.
#[cfg(test)]
#[derive(Default)]
pub struct Faults {
    pub fail_next_commit: AtomicBool,
    pub panic_at_next_commit: AtomicBool,
}

/// The writer's state, which the thread owns. If it panics, the fields are dropped in this order.
pub struct Worker {
    pub messages: Receiver<Message>,
    /// Dropped before the connection, whose close may remove the log.
    pub end_notice: EndNotice,
    pub checkpointer: Checkpointer,
    pub connection: Connection,
    /// `data_version` at its last read. A commit of this connection does not change it.
    pub data_version: Option<i64>,
    pub batch_age: Duration,
    pub lock_wait: Duration,
    pub commits: Arc<AtomicU64>,
    pub clock: Arc<ChangeClock>,
    pub health: Arc<StoreHealth>,
    /// On a full disk, every transaction fails.
    pub log_throttle: LogThrottle,
    #[cfg(test)]
    pub faults: Arc<Faults>,
}

/// Records the end of the writer, also if it panics.
pub struct EndNotice(pub Arc<StoreHealth>);

impl Drop for EndNotice {
    fn drop(&mut self) {
        self.0.set_writer_stopped();
    }
}

/// The open transaction.
#[derive(Default)]
struct Batch {
    entries: Vec<LedgerEntry>,
    bytes: usize,
    /// About how many bytes it adds to the write-ahead log.
    log_bytes: usize,
    changed: Vec<VersionBucket>,
    /// Whether the writer stops after this transaction.
    is_last: bool,
}

impl Worker {
    /// Writes until the stop message.
    pub fn run(mut self, mut probe: WriteProbe) {
        loop {
            let wait = probe.wait(&self.health).map_or(FOLLOW_EVERY, |wait| wait.min(FOLLOW_EVERY));
            match self.next_message(wait) {
                Ok(Message::Write(write)) => {
                    if self.transaction(write) {
                        break;
                    }
                }
                Ok(Message::Commit) => {}
                Err(RecvTimeoutError::Timeout) => self.follow_idly(),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if probe.take_due() {
                self.probe();
            }
        }
        drop(self.end_notice);
        // Dropped before the last connection, whose end moves the log into the database and removes it.
        drop(self.checkpointer);
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(%error, "the store was not closed cleanly; its write-ahead log remains");
        }
    }

    /// Waits for a message, for at most `timeout`.
    fn next_message(&mut self, timeout: Duration) -> Result<Message, RecvTimeoutError> {
        match self.messages.try_recv() {
            Ok(message) => return Ok(message),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            // No request waits for the writer.
            Err(TryRecvError::Empty) => self.checkpointer.finish(&self.connection),
        }
        self.messages.recv_timeout(timeout)
    }

    /// Looks for commits of other programs while no request writes.
    fn follow_idly(&mut self) {
        if let Err(error) = self.follow() {
            // The next transaction finds out the cause.
            self.clock.invalidate_all();
            tracing::debug!(%error, "it is not known whether another program has changed the store");
        }
    }

    /// Invalidates all cached values and responses if another program has committed.
    fn follow(&mut self) -> rusqlite::Result<()> {
        let version = self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.data_version.replace(version) != Some(version) {
            self.clock.invalidate_all();
        }
        Ok(())
    }

    /// Opens a transaction for `first`, fills it, commits it. Returns whether to stop.
    fn transaction(&mut self, first: QueuedWrite) -> bool {
        let mut batch = Batch::default();
        let filled = self.fill(first, &mut batch);
        match filled.and_then(|()| self.commit(&batch).map_err(|error| classify_commit(&error))) {
            Ok(()) => {
                // Recorded before the requests get their results, because their next writes read it. A transaction
                // without a change does not show that the store takes writes.
                if !batch.changed.is_empty() {
                    self.health.record_commit(batch.bytes);
                }
                mem::take(&mut batch.entries).into_iter().for_each(LedgerEntry::commit);
                self.checkpointer.record_commit(batch.log_bytes, &self.connection);
            }
            Err(error) => self.fail(&mut batch, &error),
        }
        batch.is_last
    }

    /// Undoes the transaction, and gives its requests the error.
    fn fail(&self, batch: &mut Batch, error: &StoreError) {
        self.health.count_failed_transaction();
        record_failure(&self.health, error, batch.bytes);
        if let Some(suppressed) = self.log_throttle.pass() {
            tracing::error!(
                %error,
                operations = batch.entries.len(),
                suppressed,
                "a transaction failed; the requests in it are answered with an error"
            );
        }
        self.roll_back();
        for entry in mem::take(&mut batch.entries) {
            entry.fail(error.clone());
        }
    }

    fn roll_back(&self) {
        // After some errors, SQLite itself has rolled back.
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::error!(%error, "cannot roll back the failed transaction");
        }
    }

    /// Checks whether a newly opened store, or a failed one, can be used.
    pub fn probe(&mut self) {
        // The host writes nothing to a damaged database.
        let Some(bytes) = self.health.probe_bytes().filter(|_| self.health.damage().is_none()) else { return };
        match self.begin().and_then(|()| write_probe::run(&self.connection, bytes)) {
            Ok(()) => self.health.record_probe(),
            Err(error) => {
                record_failed_probe(&self.health, error);
                self.roll_back();
            }
        }
    }

    /// Opens a transaction, unless its writes would be lost.
    fn begin(&mut self) -> Result<(), StoreError> {
        // After one wait for the lock in vain, no request waits for it again: each would keep its instance from reads.
        let wait = if self.health.is_busy() { Duration::ZERO } else { self.lock_wait };
        self.connection.busy_timeout(wait).map_err(classify)?;
        self.execute("BEGIN IMMEDIATE").map_err(classify)?;
        self.follow().map_err(classify)?;
        self.health.check_files()
    }

    /// Applies `first` and the operations after it, until it is time to commit.
    fn fill(&mut self, first: QueuedWrite, batch: &mut Batch) -> Result<(), StoreError> {
        if let Err(error) = self.begin() {
            batch.entries.push(first.entry);
            return Err(error);
        }
        let opened = Instant::now();
        let mut commit_requested = false;
        self.apply(first, batch).map_err(classify)?;
        while batch.has_room() {
            // Once a request waits, only operations that are already queued join the transaction.
            let timeout = match commit_requested {
                true => Duration::ZERO,
                false => self.batch_age.saturating_sub(opened.elapsed()),
            };
            match self.messages.recv_timeout(timeout) {
                Ok(Message::Write(write)) => self.apply(write, batch).map_err(classify)?,
                Ok(Message::Commit) => commit_requested = true,
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    batch.is_last = true;
                    break;
                }
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        Ok(())
    }

    fn commit(&self, batch: &Batch) -> rusqlite::Result<()> {
        if batch.changed.is_empty() {
            return self.execute("ROLLBACK");
        }
        #[cfg(test)]
        assert!(!self.faults.panic_at_next_commit.load(Ordering::SeqCst), "on purpose");
        #[cfg(test)]
        if self.faults.fail_next_commit.swap(false, Ordering::SeqCst) {
            return Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC),
                None,
            ));
        }
        self.clock.begin_commit(&batch.changed);
        let committed = self.execute("COMMIT");
        // Before the ledgers learn of the commit.
        self.clock.end_commit();
        committed?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Applies one operation. An error of the engine is returned and ends the transaction. An error of the operation
    /// goes to its request.
    fn apply(&self, write: QueuedWrite, batch: &mut Batch) -> rusqlite::Result<()> {
        let QueuedWrite { operation, entry, queue_permit } = write;
        // After a failed write of a request, its later writes are refused: they may refer to it.
        if let Err(error) = entry.check() {
            operation.refuse(&error);
            entry.fail(error);
            return Ok(());
        }
        batch.bytes += operation.bytes();
        batch.log_bytes += operation.log_bytes();
        batch.entries.push(entry);
        match operation {
            SqliteWrite::Set { pairs, permit } => {
                for (key, value) in &pairs {
                    self.set(key, value)?;
                    batch.changed.push(self.clock.bucket(key));
                }
                drop(permit);
            }
            SqliteWrite::Delete(keys) => {
                let mut statement = self.connection.prepare_cached(DELETE)?;
                for key in &keys {
                    if statement.execute((&*key.store, &*key.key))? > 0 {
                        batch.changed.push(self.clock.bucket(key));
                    }
                }
            }
            SqliteWrite::Increment { key, delta, reply } => {
                let sum = self.increment(&key, delta)?;
                batch.changed.extend(sum.is_ok().then(|| self.clock.bucket(&key)));
                drop(reply.send(sum));
            }
            SqliteWrite::Cas { key, expected, value, reply } => {
                let current = reader::get(&self.connection, &key)?;
                let outcome = if current == expected {
                    self.set(&key, &value)?;
                    batch.changed.push(self.clock.bucket(&key));
                    CasOutcome::Swapped
                } else {
                    CasOutcome::Lost(current)
                };
                drop(reply.send(Ok(outcome)));
            }
        }
        drop(queue_permit);
        Ok(())
    }

    fn increment(&self, key: &Key, delta: i64) -> rusqlite::Result<Result<i64, StoreError>> {
        let value = match reader::get(&self.connection, key)? {
            None => 0,
            Some(bytes) => match <[u8; 8]>::try_from(bytes.as_slice()) {
                Ok(bytes) => i64::from_le_bytes(bytes),
                Err(_) => {
                    return Ok(Err(StoreError::NotACounter { key: key.key.clone(), len: bytes.len() }));
                }
            },
        };
        let Some(sum) = value.checked_add(delta) else {
            return Ok(Err(StoreError::CounterOverflow { key: key.key.clone(), value, delta }));
        };
        self.set(key, &sum.to_le_bytes())?;
        Ok(Ok(sum))
    }

    fn set(&self, key: &Key, value: &[u8]) -> rusqlite::Result<()> {
        self.connection.prepare_cached(SET)?.execute((&*key.store, &*key.key, value)).map(drop)
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.execute_batch(sql)
    }
}

impl Batch {
    fn has_room(&self) -> bool {
        self.bytes < MAX_BATCH_BYTES && self.entries.len() < MAX_BATCH_OPERATIONS
    }
}
