//! Checks every page of a database, while it is served or while no host has it open.
//!
//! SQLite recovers from a killed process and from a power cut by itself; this check looks for damage
//! by a disk or a file system. Reading a large database before serving it would make each start
//! slow, so a thread reads it while the host serves. A read of a damaged page is an error in any
//! case, and the components' checksums detect changed bytes in a sound page, so no damaged value is
//! served. Once the check finds damage the store refuses writes: undamaged values can still be read,
//! and a restored backup loses nothing that was written after the damage.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use rusqlite::{Connection, InterruptHandle};

use super::open::{Database, FILE_NAME, OpenError};
use super::page_check::check_pages;

/// How many findings [`check`] reports.
const MAX_FINDINGS: usize = 100;

/// The damage that was found. Once it is set, the writer refuses every operation.
pub type Damage = Arc<OnceLock<Arc<str>>>;

/// A check that runs on a thread of its own. Dropping it interrupts the check.
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
            let finding = match check_pages(&connection, "quick_check", 1) {
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

/// Checks every page and the index of the database in `directory`, which no host may have open.
/// Returns SQLite's findings, none if the database is sound.
pub fn check(directory: &Path) -> Result<Vec<String>, OpenError> {
    if !directory.join(FILE_NAME).is_file() {
        return Err(OpenError::NoStore { directory: directory.to_owned() });
    }
    let database = match Database::open(directory) {
        Ok(database) => database,
        Err(OpenError::Damaged { finding, .. }) => return Ok(vec![finding]),
        Err(error) => return Err(error),
    };
    let connection = database.connect_reader()?;
    match check_pages(&connection, "integrity_check", MAX_FINDINGS) {
        Ok(findings) => Ok(findings),
        Err(error) => match database.open_error(error) {
            OpenError::Damaged { finding, .. } => Ok(vec![finding]),
            error => Err(error),
        },
    }
}
