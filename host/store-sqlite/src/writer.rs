//! The handle of the writer thread, and its queue.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use super::checkpointer::Checkpointer;
use super::operation::{Message, QueuedWrite, SqliteWrite};
use hexad_store::lock::DataLock;
use hexad_store::{ChangeClock, Ledger, StoreError, StoreHealth};
use hexad_support::log_throttle::LogThrottle;

#[cfg(test)]
use super::worker::Faults;
use super::worker::{EndNotice, Worker};
use super::write_probe::{WriteProbe, record_failure};

/// Bytes of all instances that may be in the queue. Further writes wait.
const MAX_QUEUED_BYTES: u32 = 64 * 1024 * 1024;

/// Bytes of one request's deletions that may be in the queue. Values have a permit of their instance's budget, and the
/// caller of an increment or a swap waits for its result.
const MAX_DELETION_BYTES: u32 = 1024 * 1024;

/// The budget of one request's queued deletions. It is a part of the request's ledger.
struct DeletionBudget(Arc<Semaphore>);

impl DeletionBudget {
    /// `None` if another engine has the ledger.
    fn of(ledger: &Ledger) -> Option<Arc<Semaphore>> {
        let make = || Self(Arc::new(Semaphore::new(MAX_DELETION_BYTES as usize)));
        ledger.engine_state(make).map(|budget| budget.0.clone())
    }
}

/// The handle of the writer thread. Dropping it finishes the queued writes and joins the thread.
pub struct Writer {
    queue: Sender<Message>,
    queue_bytes: Arc<Semaphore>,
    commits: Arc<AtomicU64>,
    health: Arc<StoreHealth>,
    clock: Arc<ChangeClock>,
    thread: Mutex<Option<JoinHandle<()>>>,
    #[cfg(test)]
    pub faults: Arc<Faults>,
}

/// The parts that a writer starts with.
pub struct WriterParts {
    pub connection: Connection,
    pub checkpointer: Checkpointer,
    pub batch_age: Duration,
    pub lock_wait: Duration,
    pub probe_interval: Duration,
    /// The writer holds the lock until its connection is closed.
    pub lock: DataLock,
    /// Once it has damage, the writer refuses every operation.
    pub health: Arc<StoreHealth>,
}

impl Writer {
    /// Starts the thread, after a probe has shown whether the store takes writes.
    pub fn start(parts: WriterParts) -> io::Result<Self> {
        let WriterParts { connection, checkpointer, batch_age, lock_wait, probe_interval, lock, health } = parts;
        let (queue, messages) = mpsc::channel();
        let commits = Arc::new(AtomicU64::new(0));
        let clock = Arc::new(ChangeClock::default());
        #[cfg(test)]
        let faults = Arc::new(Faults::default());
        let mut worker = Worker {
            messages,
            end_notice: EndNotice(health.clone()),
            checkpointer,
            connection,
            data_version: None,
            batch_age,
            lock_wait,
            commits: commits.clone(),
            clock: clock.clone(),
            health: health.clone(),
            log_throttle: LogThrottle::new(1, 5),
            #[cfg(test)]
            faults: faults.clone(),
        };
        worker.probe();
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || {
            worker.run(WriteProbe::new(probe_interval));
            drop(lock);
        })?;
        Ok(Self {
            queue,
            queue_bytes: Arc::new(Semaphore::new(MAX_QUEUED_BYTES as usize)),
            commits,
            health,
            clock,
            thread: Mutex::new(Some(thread)),
            #[cfg(test)]
            faults,
        })
    }

    pub fn commits(&self) -> Arc<AtomicU64> {
        self.commits.clone()
    }

    pub fn change_clock(&self) -> &ChangeClock {
        &self.clock
    }

    pub fn health(&self) -> &Arc<StoreHealth> {
        &self.health
    }

    /// Queues an operation. Waits only while the queue is full, or has many deletions of the request.
    pub async fn queue(&self, ledger: &Ledger, operation: SqliteWrite) -> Result<(), StoreError> {
        ledger.check()?;
        if let Some(finding) = self.health.damage() {
            let refused = StoreError::Damaged(finding.clone());
            ledger.enter().fail(refused.clone());
            return Err(refused);
        }
        let bytes = u32::try_from(operation.bytes()).unwrap_or(MAX_QUEUED_BYTES).min(MAX_QUEUED_BYTES);
        let stopped = |_| StoreError::writer_stopped();
        // The request's own budget comes first: a request at its own limit takes no bytes from others.
        let of_request = match operation {
            SqliteWrite::Delete(_) => {
                let budget = DeletionBudget::of(ledger).ok_or_else(StoreError::writer_stopped)?;
                Some(budget.acquire_many_owned(bytes.min(MAX_DELETION_BYTES)).await.map_err(stopped)?)
            }
            _ => None,
        };
        let of_all = self.queue_bytes.clone().acquire_many_owned(bytes).await.map_err(stopped)?;
        let write = QueuedWrite { operation, entry: ledger.enter(), queue_permit: (of_all, of_request) };
        self.queue.send(Message::Write(write)).map_err(|_| StoreError::writer_stopped())
    }

    /// Queues an operation, waits until it is applied, and returns its result.
    pub async fn apply<T>(
        &self,
        ledger: &Ledger,
        operation: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> SqliteWrite,
    ) -> Result<T, StoreError> {
        let (reply, result) = oneshot::channel();
        self.queue(ledger, operation(reply)).await?;
        match result.await {
            Ok(result) => result,
            // The transaction has failed, and the entry says why once it is closed.
            Err(_) => Err(ledger.settled().await.err().unwrap_or_else(StoreError::writer_stopped)),
        }
    }

    /// Makes the writer commit the queued operations as soon as they are applied.
    pub fn commit_soon(&self) {
        // A stopped writer has dropped every entry, which fails the ledgers.
        let _ = self.queue.send(Message::Commit);
    }

    /// Records why a read has failed.
    pub fn record_failed_read(&self, error: &StoreError) {
        record_failure(&self.health, error, 0);
        // Wakes the writer, which finds out when the store can be used again.
        self.commit_soon();
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

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::{Sqlite, SqliteOptions};
    use hexad_store_conformance::{key, permit};

    #[tokio::test]
    async fn deletions_of_a_request_wait_for_its_earlier_ones_and_no_others_do() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Sqlite::open(directory.path(), &SqliteOptions::default()).unwrap();
        let writer = &engine.writer;
        let delete = || SqliteWrite::Delete(vec![key("a")]);
        let (greedy, other) = (Ledger::default(), Ledger::default());
        let budget = DeletionBudget::of(&greedy).unwrap();
        let size = u32::try_from(delete().bytes()).unwrap();
        // Permits for as many deletions as fit, the last one apart. The writer takes none of them.
        let earlier = budget.clone().try_acquire_many_owned(MAX_DELETION_BYTES - size).unwrap();
        let held = budget.clone().try_acquire_many_owned(size).unwrap();
        assert!(writer.queue(&greedy, delete()).now_or_never().is_none());
        let set = SqliteWrite::Set { pairs: vec![(key("a"), Vec::new())], permit: permit() };
        writer.queue(&greedy, set).now_or_never().unwrap().unwrap();
        writer.queue(&other, delete()).now_or_never().unwrap().unwrap();
        drop(held);
        writer.queue(&greedy, delete()).now_or_never().unwrap().unwrap();
        drop(earlier);
        writer.commit_soon();
        greedy.settled().await.unwrap();
        // The deletion's permit is given back.
        assert_eq!(budget.available_permits(), MAX_DELETION_BYTES as usize);
    }
}
