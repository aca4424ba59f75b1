//! Copies the write-ahead log into the database, on a thread of its own, so that no commit waits for it.
//!
//! While the writer writes, the log always has a rest that is not copied, and SQLite cannot restart it. So the thread
//! copies the log so far, which is the long part. The writer copies the short rest when it is idle, or between two
//! transactions once the log is long.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use crate::serving_threads::survive;

/// The length of the log, in bytes, from which the thread copies it.
const LOG_BYTES: usize = 16 * 1024 * 1024;

/// The length of the log, in bytes, from which the writer copies the rest without waiting for an idle moment.
const LONG_LOG_BYTES: usize = 64 * 1024 * 1024;

/// The length of the log, in bytes, that it reaches only if a reader keeps SQLite from restarting it.
const ENDLESS_LOG_BYTES: u64 = 4 * LONG_LOG_BYTES as u64;

const NAME: &str = "store-checkpoint";

/// The handle of the thread, which the writer has. Dropping it joins the thread.
pub struct Checkpointer {
    wake: Option<SyncSender<()>>,
    /// Set by the thread once it has copied the log so far.
    has_copied: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// About how many bytes were written to the log since it was last copied.
    log_bytes: usize,
    growth: LogGrowth,
}

/// Whether the log grows without end, which the host reports once.
#[derive(Default)]
struct LogGrowth {
    is_told: bool,
}

/// SQLite's answer to a checkpoint.
#[derive(Debug, PartialEq, Eq)]
struct Checkpoint {
    /// Length of the log since SQLite last restarted it.
    log_bytes: u64,
    /// Bytes of it that are in the database.
    copied_bytes: u64,
}

impl Checkpointer {
    /// `log_bytes` is the length of the log at the start.
    pub fn start(connection: Connection, log_bytes: usize) -> io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let has_copied = Arc::new(AtomicBool::new(false));
        let copied = has_copied.clone();
        let thread = std::thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(move || copy_when_woken(&connection, &woken, &copied))?;
        Ok(Self { wake: Some(wake), has_copied, thread: Some(thread), log_bytes, growth: LogGrowth::default() })
    }

    /// Records a commit that has written this many bytes, after its requests got their results.
    pub fn record_commit(&mut self, bytes: usize, connection: &Connection) {
        self.log_bytes = self.log_bytes.saturating_add(bytes);
        if self.log_bytes < LOG_BYTES {
            return;
        }
        if self.log_bytes >= LONG_LOG_BYTES {
            self.finish(connection);
        }
        if !self.has_copied.load(Ordering::SeqCst)
            && let Some(wake) = &self.wake
        {
            // If the channel is full, the thread is about to copy.
            let _ = wake.try_send(());
        }
    }

    /// Copies the rest on the writer's connection, which writes nothing meanwhile, so that the next transaction
    /// restarts the log. Does nothing before the thread has copied most of the log.
    pub fn finish(&mut self, connection: &Connection) {
        if !self.has_copied.swap(false, Ordering::SeqCst) {
            return;
        }
        // If a reader keeps a rest, a later round copies it.
        self.log_bytes = 0;
        if let Some(Checkpoint { log_bytes, copied_bytes }) = checkpoint(connection)
            && self.growth.is_new(log_bytes)
        {
            tracing::warn!(
                store = connection.path().unwrap_or_default(),
                log_bytes,
                copied_bytes,
                "the write-ahead log cannot begin anew, and grows: another program, or a backup, has been reading the \
                 database for long; end it if it is no backup"
            );
        }
    }
}

impl LogGrowth {
    /// Whether to report a log of this length. After SQLite has restarted the log, the host reports it again.
    fn is_new(&mut self, log_bytes: u64) -> bool {
        let was_told = std::mem::replace(&mut self.is_told, log_bytes > ENDLESS_LOG_BYTES);
        self.is_told && !was_told
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's checkpointer panicked");
        }
    }
}

fn copy_when_woken(connection: &Connection, woken: &Receiver<()>, has_copied: &AtomicBool) {
    while woken.recv().is_ok() {
        survive(NAME, || checkpoint(connection));
        has_copied.store(true, Ordering::SeqCst);
    }
}

/// Copies the part of the log that no reader needs, without waiting. On an error, everything stays in the log, where
/// readers find it.
fn checkpoint(connection: &Connection) -> Option<Checkpoint> {
    let copy = || {
        let page: u64 = connection.query_row("PRAGMA page_size", [], |row| row.get::<_, u32>(0))?.into();
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            // Pages; -1 if another program checkpoints the database now.
            let bytes = |pages: i64| u64::try_from(pages).unwrap_or_default() * page;
            Ok(Checkpoint { log_bytes: bytes(row.get(1)?), copied_bytes: bytes(row.get(2)?) })
        })
    };
    match copy() {
        Ok(checkpoint) => Some(checkpoint),
        Err(error) => {
            tracing::warn!(%error, "the write-ahead log cannot be copied into the database; it grows");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_a_reader_keeps_is_told_once_until_it_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Connection::open(folder.path().join("store.db")).unwrap();
        let (writer, reader) = (open(), open());
        writer.execute_batch("PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (a)").unwrap();
        let write = || writer.execute("INSERT INTO t VALUES (zeroblob(100000))", []).map(drop).unwrap();
        reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        write();
        let kept = checkpoint(&writer).unwrap();
        assert!(kept.copied_bytes < 100_000 && kept.log_bytes > 100_000, "{kept:?}");
        write();
        let longer = checkpoint(&writer).unwrap();
        assert!(longer.log_bytes > kept.log_bytes + 100_000, "{longer:?}");
        reader.execute_batch("COMMIT").unwrap();
        let whole = checkpoint(&writer).unwrap();
        assert_eq!((whole.copied_bytes, whole.log_bytes), (longer.log_bytes, longer.log_bytes));
        write();
        assert!(checkpoint(&writer).unwrap().log_bytes < longer.log_bytes, "it has begun anew");

        let mut growth = LogGrowth::default();
        let told = [ENDLESS_LOG_BYTES, ENDLESS_LOG_BYTES + 1, ENDLESS_LOG_BYTES + 2, 0, ENDLESS_LOG_BYTES + 1];
        assert_eq!(told.map(|bytes| growth.is_new(bytes)), [false, true, false, false, true]);
    }
}
