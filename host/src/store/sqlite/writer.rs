//! The one thread that writes, with group commit.
//!
//! Operations are applied in the order of the queue, inside a transaction that stays open until
//! somebody waits for durability, it is large, or it is some milliseconds old. What arrives
//! during a flush goes into the next transaction together.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::super::{ChangeClock, Entry, Error, Key, Ledger, Slot, Swap};
use super::integrity_check::Damage;
use super::reader;
use crate::log_throttle::LogThrottle;
use crate::store::lock::DataLock;

/// Bytes that may wait in the queue, for all instances together. Whoever comes then, waits.
const QUEUE_BYTES: u32 = 64 * 1024 * 1024;

/// A transaction with this much in it is committed even if nobody waits, so that the log and
/// the page cache stay small while a large upload streams in.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
const BATCH_OPERATIONS: usize = 4096;

const SET: &str = "INSERT INTO spin_key_value (store, key, value) VALUES (?1, ?2, ?3)
    ON CONFLICT (store, key) DO UPDATE SET value = ?3";
const DELETE: &str = "DELETE FROM spin_key_value WHERE store = ?1 AND key = ?2";

/// What a request may ask of the writer.
pub enum Operation {
    Set {
        pairs: Vec<(Key, Vec<u8>)>,
        /// The caller's own budget, given back once the values are SQLite's.
        room: OwnedSemaphorePermit,
    },
    Delete(Vec<Key>),
    Increment {
        key: Key,
        delta: i64,
        reply: oneshot::Sender<Result<i64, Error>>,
    },
    Cas {
        key: Key,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
        reply: oneshot::Sender<Result<Swap, Error>>,
    },
}

impl Operation {
    fn bytes(&self) -> usize {
        // What a queued key costs beside its text.
        const KEY: usize = 64;
        match self {
            Operation::Set { pairs, .. } => pairs.iter().map(|(key, value)| KEY + key.key.len() + value.len()).sum(),
            Operation::Delete(keys) => keys.iter().map(|key| KEY + key.key.len()).sum(),
            Operation::Increment { key, .. } => KEY + key.key.len(),
            Operation::Cas { key, expected, value, .. } => {
                KEY + key.key.len() + value.len() + expected.as_ref().map_or(0, Vec::len)
            }
        }
    }

    fn refuse(self, error: &Error) {
        // A receiver that is gone has given up on the answer.
        match self {
            Operation::Set { .. } | Operation::Delete(_) => {}
            Operation::Increment { reply, .. } => drop(reply.send(Err(error.clone()))),
            Operation::Cas { reply, .. } => drop(reply.send(Err(error.clone()))),
        }
    }
}

enum Message {
    Write(Write),
    /// Somebody waits for what is in front of this.
    Commit,
    Stop,
}

struct Write {
    operation: Operation,
    entry: Entry,
    /// The engine's own budget.
    room: OwnedSemaphorePermit,
}

/// The handle of the writing thread. Dropping it finishes what is queued and joins the thread.
pub struct Writer {
    queue: Sender<Message>,
    room: Arc<Semaphore>,
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
            failures: LogThrottle::new(1, 5),
            #[cfg(test)]
            fail_next_commit: fail_next_commit.clone(),
        };
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || {
            worker.run();
            drop(lock);
        })?;
        Ok(Self {
            queue,
            room: Arc::new(Semaphore::new(QUEUE_BYTES as usize)),
            commits,
            damage,
            clock,
            thread: Mutex::new(Some(thread)),
            #[cfg(test)]
            fail_next_commit,
        })
    }

    #[cfg(test)]
    pub fn find_damage(&self, finding: &str) {
        let _ = self.damage.set(Arc::from(finding));
    }

    pub fn commits(&self) -> Arc<AtomicU64> {
        self.commits.clone()
    }

    pub fn change_clock(&self) -> &ChangeClock {
        &self.clock
    }

    /// Queues an operation behind those that were queued before, waiting only for room.
    pub async fn queue(&self, ledger: &Ledger, operation: Operation) -> Result<(), Error> {
        ledger.check()?;
        if let Some(finding) = self.damage.get() {
            return Err(Error::Damaged(finding.clone()));
        }
        let bytes = u32::try_from(operation.bytes()).unwrap_or(QUEUE_BYTES).min(QUEUE_BYTES);
        let stopped = || Error::Engine(Arc::from("it has stopped"));
        let room = self.room.clone().acquire_many_owned(bytes).await;
        let write = Write { operation, entry: ledger.enter(), room: room.map_err(|_| stopped())? };
        self.queue.send(Message::Write(write)).map_err(|_| stopped())
    }

    /// Queues an operation that has an answer, and waits until it is applied.
    pub async fn ask<T>(
        &self,
        ledger: &Ledger,
        operation: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Operation,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.queue(ledger, operation(reply)).await?;
        answer.await.unwrap_or_else(|_| Err(Error::Engine(Arc::from("it has stopped"))))
    }

    /// Asks for what is queued so far to be committed without further waiting.
    pub fn commit_soon(&self) {
        // A stopped writer has dropped every entry, which settles the ledgers as failed.
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
    /// A full disk fails every transaction.
    failures: LogThrottle,
    #[cfg(test)]
    fail_next_commit: Arc<std::sync::atomic::AtomicBool>,
}

/// What is in the open transaction.
#[derive(Default)]
struct Batch {
    entries: Vec<Entry>,
    bytes: usize,
    changed: Vec<Slot>,
    /// The writer is to stop once this is committed.
    stop: bool,
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
            tracing::warn!(%error, "the store was not closed cleanly; its log is kept");
        }
    }

    /// Opens a transaction for `first`, fills it, commits it. Returns whether to stop.
    fn transaction(&self, first: Write) -> bool {
        let mut batch = Batch::default();
        let outcome = self.fill(first, &mut batch).and_then(|()| self.commit(&batch));
        match outcome {
            Ok(()) => batch.entries.into_iter().for_each(Entry::commit),
            Err(error) => {
                let reason = reader::reason(&error);
                if let Some(suppressed) = self.failures.pass() {
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
        batch.stop
    }

    /// Applies `first` and what follows it, until it is time to commit.
    fn fill(&self, first: Write, batch: &mut Batch) -> rusqlite::Result<()> {
        if let Err(error) = self.execute("BEGIN IMMEDIATE") {
            batch.entries.push(first.entry);
            return Err(error);
        }
        let opened = Instant::now();
        let mut wanted = false;
        self.apply(first, batch)?;
        while batch.has_room() {
            // Once somebody waits, only what is there already may come along.
            let patience = match wanted {
                true => Duration::ZERO,
                false => self.batch_age.saturating_sub(opened.elapsed()),
            };
            match self.messages.recv_timeout(patience) {
                Ok(Message::Write(write)) => self.apply(write, batch)?,
                Ok(Message::Commit) => wanted = true,
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    batch.stop = true;
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
        // Before a writer is told that it is committed.
        self.clock.end_commit(&batch.changed);
        Ok(())
    }

    /// Applies one operation. An error here is the engine's and ends the transaction; an error
    /// of the operation alone is its answer.
    fn apply(&self, write: Write, batch: &mut Batch) -> rusqlite::Result<()> {
        let Write { operation, entry, room } = write;
        // A request that lost a write must not get the later ones: they may refer to it.
        if let Err(error) = entry.check() {
            operation.refuse(&error);
            entry.fail("an earlier write of the request failed");
            return Ok(());
        }
        batch.bytes += operation.bytes();
        batch.entries.push(entry);
        match operation {
            Operation::Set { pairs, room } => {
                for (key, value) in &pairs {
                    self.set(key, value)?;
                    batch.changed.push(self.clock.slot(key));
                }
                drop(room);
            }
            Operation::Delete(keys) => {
                let mut statement = self.connection.prepare_cached(DELETE)?;
                for key in &keys {
                    if statement.execute((&*key.store, &*key.key))? > 0 {
                        batch.changed.push(self.clock.slot(key));
                    }
                }
            }
            Operation::Increment { key, delta, reply } => {
                let answer = self.increment(&key, delta)?;
                batch.changed.extend(answer.is_ok().then(|| self.clock.slot(&key)));
                drop(reply.send(answer));
            }
            Operation::Cas { key, expected, value, reply } => {
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
        drop(room);
        Ok(())
    }

    fn increment(&self, key: &Key, delta: i64) -> rusqlite::Result<Result<i64, Error>> {
        let value = match reader::get(&self.connection, key)? {
            None => 0,
            Some(bytes) => match <[u8; 8]>::try_from(bytes.as_slice()) {
                Ok(bytes) => i64::from_le_bytes(bytes),
                Err(_) => {
                    return Ok(Err(Error::NotACounter { key: key.key.clone(), len: bytes.len() }));
                }
            },
        };
        let Some(sum) = value.checked_add(delta) else {
            return Ok(Err(Error::CounterOverflow { key: key.key.clone(), value, delta }));
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
        self.bytes < BATCH_BYTES && self.entries.len() < BATCH_OPERATIONS
    }
}
