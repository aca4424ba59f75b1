//! A check of every page while the database is served.
//!
//! SQLite recovers from a killed process and from a power cut by itself; this check looks for damage
//! by a disk or a file system. To read a large database before serving it would make each start
//! slow, so a thread reads it meanwhile. A read of a damaged page is an error in any case, and the
//! components' checksums detect changed bytes in a sound page, so no damaged value is served. Once
//! the check finds damage the store refuses writes: the rest can still be read, and a restored
//! backup loses nothing that was written after the damage.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use rusqlite::{Connection, InterruptHandle};

use super::open::findings;

/// The damage that was found; the writer refuses every operation from then on.
pub type Damage = Arc<OnceLock<Arc<str>>>;

/// A check under way. Dropping it breaks it off.
pub struct IntegrityCheck {
    interrupt: InterruptHandle,
    thread: Option<JoinHandle<()>>,
}

impl IntegrityCheck {
    /// Reads every page on `connection`. `path` is for the log.
    pub fn start(connection: Connection, path: PathBuf, damage: Damage) -> io::Result<Self> {
        let interrupt = connection.get_interrupt_handle();
        let thread = std::thread::Builder::new().name("store-integrity".to_owned()).spawn(move || {
            use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, OperationInterrupted};
            let finding = match findings(&connection, "quick_check", 1) {
                Ok(mut findings) => findings.pop(),
                Err(error) => match error.sqlite_error_code() {
                    Some(DatabaseCorrupt | NotADatabase) => Some(error.to_string()),
                    Some(OperationInterrupted) => return,
                    _ => {
                        tracing::warn!(%error, "the check of the store could not be finished");
                        return;
                    }
                },
            };
            match finding {
                None => tracing::info!("every page of the store is sound"),
                Some(finding) => {
                    tracing::error!(
                        store = %path.display(), finding,
                        "the store is damaged and takes no more writes; stop the host and restore a backup"
                    );
                    let _ = damage.set(Arc::from(finding));
                }
            }
        })?;
        Ok(Self { interrupt, thread: Some(thread) })
    }
}

impl IntegrityCheck {
    /// Waits for the end of the check.
    #[cfg(test)]
    pub fn finish(mut self) {
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the check of the store panicked");
        }
    }
}

impl Drop for IntegrityCheck {
    fn drop(&mut self) {
        self.interrupt.interrupt();
        self.join();
    }
}
