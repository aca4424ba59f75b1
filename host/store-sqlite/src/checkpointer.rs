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

use hexad_support::serving_threads::survive;
use rusqlite::Connection;

/// The length of the log, in bytes, from which the thread copies it.
const LOG_BYTES: usize = 16 * 1024 * 1024;

/// The length of the log, in bytes, from which the writer copies the rest without waiting for an idle moment.
const LONG_LOG_BYTES: usize = 64 * 1024 * 1024;

const NAME: &str = "store-checkpoint";

/// The handle of the thread, which the writer has. Dropping it joins the thread.
pub struct Checkpointer {
    wake: Option<SyncSender<()>>,
    /// Set by the thread once it has copied the log so far.
    has_copied: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// About how many bytes were written to the log since it was last copied.
    log_bytes: usize,
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
        Ok(Self { wake: Some(wake), has_copied, thread: Some(thread), log_bytes })
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
        checkpoint(connection);
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
fn checkpoint(connection: &Connection) {
    if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
        tracing::warn!(%error, "the write-ahead log cannot be copied into the database; it grows");
    }
}
