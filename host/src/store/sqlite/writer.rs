//! The writer thread, with group commit.
//!
//! The thread applies operations in the order of the queue, inside a transaction that stays open
//! until a request waits for durability, the transaction is large, or it is some milliseconds old.
//! Operations that arrive during a flush go into the next transaction together.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::integrity_check::Damage;
use super::reader;
use crate::log_throttle::LogThrottle;
use crate::store::lock::DataLock;
use crate::store::{ChangeClock, Key, Ledger, LedgerEntry, Slot, StoreError, Swap};

/// Bytes that may be in the queue, of all instances together. Further writes wait.
const MAX_QUEUED_BYTES: u32 = 64 * 1024 * 1024;

/// A transaction of this size is committed even if no request waits for it, so that the log and the
/// page cache stay small during a large upload.
const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;
const MAX_BATCH_OPERATIONS: usize = 4096;

const SET: &str = "INSERT INTO spin_key_value (store, key, value) VALUES (?1, ?2, ?3)
    ON CONFLICT (store, key) DO UPDATE SET value = ?3";
const DELETE: &str = "DELETE FROM spin_key_value WHERE store = ?1 AND key = ?2";

/// A write of a request.
pub enum WriteOperation {
    Set {
        pairs: Vec<(Key, Vec<u8>)>,
        /// Of the caller's budget, released once SQLite has the values.
        permit: OwnedSemaphorePermit,
    },
    Delete(Vec<Key>),
    Increment {
        key: Key,
        delta: i64,
        reply: oneshot::Sender<Result<i64, StoreError>>,
    },
    Cas {
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
        reply: oneshot::Sender<Result<Swap, StoreError>>,
    },
}

impl WriteOperation {
    fn bytes(&self) -> usize {
        // Bytes that a queued key takes beside its text.
        const KEY: usize = 64;
        match self {
            WriteOperation::Set { pairs, .. } => {
                pairs.iter().map(|(key, value)| KEY + key.key.len() + value.len()).sum()
            }
            WriteOperation::Delete(keys) => keys.iter().map(|key| KEY + key.key.len()).sum(),
            WriteOperation::Increment { key, .. } => KEY + key.key.len(),
            WriteOperation::Cas { key, expected, value, .. } => {
                KEY + key.key.len() + value.len() + expected.as_ref().map_or(0, Vec::len)
            }
        }
    }

    fn refuse(self, error: &StoreError) {
        // Sending fails if the request was cancelled.
        match self {
            WriteOperation::Set { .. } | WriteOperation::Delete(_) => {}
            WriteOperation::Increment { reply, .. } => drop(reply.send(Err(error.clone()))),
            WriteOperation::Cas { reply, .. } => drop(reply.send(Err(error.clone()))),
        }
    }
}

enum Message {
    Write(QueuedWrite),
    /// A request waits for the writes before this message.
    Commit,
    Stop,
}

struct QueuedWrite {
    operation: WriteOperation,
    entry: LedgerEntry,
    /// Of the queue's budget.
    queue_permit: OwnedSemaphorePermit,
}

/// The handle of the writer thread. Dropping it finishes the queued writes and joins the thread.
pub struct Writer {
    queue: Sender<Message>,
    queue_bytes: Arc<Semaphore>,
    commits: Arc<AtomicU64>,
    damage: Damage,
    clock: Arc<ChangeClock>,
    thread: Mutex<Option<JoinHandle<()>>>,
    #[cfg(test)]
    pub fail_next_commit: Arc<std::sync::atomic::AtomicBool>,
}

impl Writer {
    /// Starts the thread. It keeps `lock` until its connection is closed.
    /// Once `damage` is found it refuses every operation.
    pub fn start(connection: Connection, batch_age: Duration, lock: DataLock, damage: Damage) -> io::Result<Self> {
        let (queue, messages) = mpsc::channel();
        let commits = Arc::new(AtomicU64::new(0));
        let clock = Arc::new(ChangeClock::default());
        #[cfg(test)]
        let fail_next_commit = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let worker = Worker {
            connection,
            batch_age,
            messages,
            commits: commits.clone(),
            clock: clock.clone(),
            log_throttle: LogThrottle::new(1, 5),
            #[cfg(test)]
            fail_next_commit: fail_next_commit.clone(),
        };
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || {
            worker.run();
            drop(lock);
        })?;
        Ok(Self {
            queue,
            queue_bytes: Arc::new(Semaphore::new(MAX_QUEUED_BYTES as usize)),
            commits,
            damage,
            clock,
            thread: Mutex::new(Some(thread)),
            #[cfg(test)]
            fail_next_commit,
        })
    }

    #[cfg(test)]
    pub fn set_damage(&self, finding: &str) {
        let _ = self.damage.set(Arc::from(finding));
    }

    pub fn commits(&self) -> Arc<AtomicU64> {
        self.commits.clone()
    }

    pub fn change_clock(&self) -> &ChangeClock {
        &self.clock
    }

    /// Queues an operation, and waits only while the queue is full.
    pub async fn queue(&self, ledger: &Ledger, operation: WriteOperation) -> Result<(), StoreError> {
        ledger.check()?;
        if let Some(finding) = self.damage.get() {
            return Err(StoreError::Damaged(finding.clone()));
        }
        let bytes = u32::try_from(operation.bytes()).unwrap_or(MAX_QUEUED_BYTES).min(MAX_QUEUED_BYTES);
        let stopped = || StoreError::Engine(Arc::from("it has stopped"));
        let queue_permit = self.queue_bytes.clone().acquire_many_owned(bytes).await;
        let write =
            QueuedWrite { operation, entry: ledger.enter(), queue_permit: queue_permit.map_err(|_| stopped())? };
        self.queue.send(Message::Write(write)).map_err(|_| stopped())
    }

    /// Queues an operation, waits until it is applied, and returns its result.
    pub async fn apply<T>(
        &self,
        ledger: &Ledger,
        operation: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> WriteOperation,
    ) -> Result<T, StoreError> {
        let (reply, result) = oneshot::channel();
        self.queue(ledger, operation(reply)).await?;
        result.await.unwrap_or_else(|_| Err(StoreError::Engine(Arc::from("it has stopped"))))
    }

    /// Has the queued operations committed as soon as they are applied.
    pub fn commit_soon(&self) {
        // A stopped writer has dropped every entry, which fails the ledgers.
        let _ = self.queue.send(Message::Commit);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.queue.send(Message::Stop);
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the store's writer panicked");
        }
    }
}

struct Worker {
    connection: Connection,
    batch_age: Duration,
    messages: Receiver<Message>,
    commits: Arc<AtomicU64>,
    clock: Arc<ChangeClock>,
    /// On a full disk every transaction fails.
    log_throttle: LogThrottle,
    #[cfg(test)]
    fail_next_commit: Arc<std::sync::atomic::AtomicBool>,
}

/// The open transaction.
#[derive(Default)]
struct Batch {
    entries: Vec<LedgerEntry>,
    bytes: usize,
    changed: Vec<Slot>,
    /// Whether the writer stops after this transaction.
    is_last: bool,
}

impl Worker {
    fn run(self) {
        loop {
            match self.messages.recv() {
                Ok(Message::Write(write)) => {
                    if self.transaction(write) {
                        break;
                    }
                }
                Ok(Message::Commit) => {}
                Ok(Message::Stop) | Err(_) => break,
            }
        }
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(%error, "the store was not closed cleanly; its write-ahead log remains");
        }
    }

    /// Opens a transaction for `first`, fills it, commits it. Returns whether to stop.
    fn transaction(&self, first: QueuedWrite) -> bool {
        let mut batch = Batch::default();
        let outcome = self.fill(first, &mut batch).and_then(|()| self.commit(&batch));
        match outcome {
            Ok(()) => batch.entries.into_iter().for_each(LedgerEntry::commit),
            Err(error) => {
                let reason = reader::reason(&error);
                if let Some(suppressed) = self.log_throttle.pass() {
                    tracing::error!(
                        error = %reason,
                        operations = batch.entries.len(),
                        suppressed,
                        "a transaction failed; the requests in it are answered with an error"
                    );
                }
                // After some errors SQLite has rolled back by itself.
                if !self.connection.is_autocommit()
                    && let Err(error) = self.execute("ROLLBACK")
                {
                    tracing::error!(%error, "cannot roll back the failed transaction");
                }
                for entry in batch.entries {
                    entry.fail(&reason);
                }
            }
        }
        batch.is_last
    }

    /// Applies `first` and the operations after it, until it is time to commit.
    fn fill(&self, first: QueuedWrite, batch: &mut Batch) -> rusqlite::Result<()> {
        if let Err(error) = self.execute("BEGIN IMMEDIATE") {
            batch.entries.push(first.entry);
            return Err(error);
        }
        let opened = Instant::now();
        let mut commit_requested = false;
        self.apply(first, batch)?;
        while batch.has_room() {
            // Once a request waits, only operations that are already queued join the transaction.
            let timeout = match commit_requested {
                true => Duration::ZERO,
                false => self.batch_age.saturating_sub(opened.elapsed()),
            };
            match self.messages.recv_timeout(timeout) {
                Ok(Message::Write(write)) => self.apply(write, batch)?,
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
        if self.fail_next_commit.swap(false, Ordering::SeqCst) {
            return Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC),
                None,
            ));
        }
        self.clock.begin_commit(&batch.changed);
        self.execute("COMMIT")?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        // Before the ledgers learn of the commit.
        self.clock.end_commit(&batch.changed);
        Ok(())
    }

    /// Applies one operation. An error of the engine is returned and ends the transaction; an error of
    /// the operation is sent to its request.
    fn apply(&self, write: QueuedWrite, batch: &mut Batch) -> rusqlite::Result<()> {
        let QueuedWrite { operation, entry, queue_permit } = write;
        // After a failed write of a request its later ones are refused: they may refer to it.
        if let Err(error) = entry.check() {
            operation.refuse(&error);
            entry.fail("an earlier write of the request failed");
            return Ok(());
        }
        batch.bytes += operation.bytes();
        batch.entries.push(entry);
        match operation {
            WriteOperation::Set { pairs, permit } => {
                for (key, value) in &pairs {
                    self.set(key, value)?;
                    batch.changed.push(self.clock.slot(key));
                }
                drop(permit);
            }
            WriteOperation::Delete(keys) => {
                let mut statement = self.connection.prepare_cached(DELETE)?;
                for key in &keys {
                    if statement.execute((&*key.store, &*key.key))? > 0 {
                        batch.changed.push(self.clock.slot(key));
                    }
                }
            }
            WriteOperation::Increment { key, delta, reply } => {
                let sum = self.increment(&key, delta)?;
                batch.changed.extend(sum.is_ok().then(|| self.clock.slot(&key)));
                drop(reply.send(sum));
            }
            WriteOperation::Cas { key, expected, value, reply } => {
                let current = reader::get(&self.connection, &key)?;
                let outcome = if current == expected {
                    self.set(&key, &value)?;
                    batch.changed.push(self.clock.slot(&key));
                    Swap::Swapped
                } else {
                    Swap::Lost(current)
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
