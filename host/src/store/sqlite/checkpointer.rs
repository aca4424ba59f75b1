//! Copies the write-ahead log into the database, on a thread of its own, so that no commit waits for it.
//!
//! While the writer goes on, the log never ends, and SQLite cannot begin it anew. So the thread copies
//! what is there, which is the long part, and the writer copies the short rest when it has nothing else
//! to do, or between two transactions once the log is long.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

/// Bytes in the log after which it is copied.
const LOG_BYTES: usize = 16 * 1024 * 1024;

/// Bytes in the log after which the writer does not wait for an idle moment to copy the rest.
const LONG_LOG_BYTES: usize = 64 * 1024 * 1024;

/// The handle of the thread, which the writer has. Dropping it joins the thread.
pub struct Checkpointer {
    wake: Option<SyncSender<()>>,
    /// Set by the thread once it has copied what was there.
    has_copied: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// About how many bytes the log has.
    log_bytes: usize,
}

impl Checkpointer {
    /// `log_bytes` is the length of the log that was found at the start.
    pub fn start(connection: Connection, log_bytes: usize) -> io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let has_copied = Arc::new(AtomicBool::new(false));
        let copied = has_copied.clone();
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || copy_when_woken(&connection, &woken, &copied))?;
        Ok(Self { wake: Some(wake), has_copied, thread: Some(thread), log_bytes })
    }

    /// Records a commit that has written this many bytes, after its requests were told.
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

    /// Copies the rest on the writer's connection, which writes nothing meanwhile, so that the next
    /// transaction begins the log anew. It does nothing before the thread has copied the most of it.
    pub fn finish(&mut self, connection: &Connection) {
        if !self.has_copied.swap(false, Ordering::SeqCst) {
            return;
        }
        // A rest that a reader keeps is copied with the next part.
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
        checkpoint(connection);
        has_copied.store(true, Ordering::SeqCst);
    }
}

/// Copies what no reader needs any more, without waiting for anyone. On an error everything stays in
/// the log, from which it is read.
fn checkpoint(connection: &Connection) {
    let copied = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    if let Err(error) = copied {
        tracing::warn!(%error, "the write-ahead log cannot be copied into the database; it grows");
    }
}
