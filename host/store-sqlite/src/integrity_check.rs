//! Checks every record of a database while it is served, or every page while no host has it open.
//!
//! SQLite itself recovers from a killed process and from a power cut. This check looks for damage by a disk or a file
//! system. Reading a large database before serving it would slow each start, so a thread reads it while the host
//! serves. The host serves no damaged value. A read of a damaged page is always an error, and the components' checksums
//! detect changed bytes in a sound page. Once damage is found, the store refuses writes. Undamaged values can still be
//! read, and a restored backup loses nothing that was written after the damage.
//!
//! The thread reads the table, and then its index, in chunks, each in a transaction of its own. One transaction for the
//! whole check would keep SQLite from restarting the write-ahead log. Only [`check`] reads pages without records: free
//! pages, and pages that no other page leads to.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use hexad_store::StoreHealth;
use hexad_support::serving_threads::survive;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row};

use super::classify::is_damage;
use super::open::{Database, SqliteOpenError};

/// How many findings [`check`] reports.
const MAX_FINDINGS: usize = 100;

/// The bytes and the rows that one transaction reads, in milliseconds.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;
const CHUNK_ROWS: usize = 10_000;

const TABLE: &str = "SELECT rowid, store, key, value FROM spin_key_value NOT INDEXED WHERE rowid > ?1 ORDER BY rowid";
const INDEX: &str = "SELECT store, key, rowid FROM spin_key_value INDEXED BY sqlite_autoindex_spin_key_value_1
    WHERE (store, key) > (?1, ?2) ORDER BY store, key";

const NAME: &str = "store-integrity";

/// A check that runs on a thread of its own. Dropping it interrupts the check.
pub struct IntegrityCheck {
    interrupted: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl IntegrityCheck {
    /// Reads every record on `connection`.
    pub fn start(connection: Connection, health: Arc<StoreHealth>) -> io::Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let interrupt = interrupted.clone();
        let check = move || match read_records(&connection, &interrupt) {
            Ok(true) => tracing::info!("every record of the store can be read"),
            Ok(false) => {}
            Err(error) if is_damage(&error) => health.set_damaged(&error.to_string()),
            Err(error) => tracing::warn!(%error, "the check of the store could not be finished"),
        };
        // A panic is logged now, not only when the host stops.
        let check = || {
            let _ = survive(NAME, check);
        };
        let thread = std::thread::Builder::new().name(NAME.to_owned()).spawn(check)?;
        Ok(Self { interrupted, thread: Some(thread) })
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
        self.interrupted.store(true, Ordering::SeqCst);
        self.join();
    }
}

/// Returns whether every record was read; `false` if the check was interrupted.
fn read_records(connection: &Connection, interrupted: &AtomicBool) -> rusqlite::Result<bool> {
    let mut last_row = i64::MIN;
    let mut last_key = (String::new(), String::new());
    let mut is_finished = (false, false);
    while !interrupted.load(Ordering::SeqCst) {
        match is_finished {
            (false, _) => {
                is_finished.0 = read_chunk(connection, TABLE, [last_row], |row| {
                    last_row = row.get(0)?;
                    Ok(())
                })?;
            }
            (true, false) => {
                let after = last_key.clone();
                is_finished.1 = read_chunk(connection, INDEX, (&after.0, &after.1), |row| {
                    last_key = (row.get(0)?, row.get(1)?);
                    Ok(())
                })?;
            }
            (true, true) => return Ok(true),
        }
    }
    Ok(false)
}

/// Reads rows of `query` until a chunk is full. `visit` records where the next chunk begins. Returns whether the last
/// row was read.
fn read_chunk(
    connection: &Connection,
    query: &str,
    after: impl Params,
    mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(query)?;
    let columns = statement.column_count();
    let mut rows = statement.query(after)?;
    let (mut bytes, mut count) = (0usize, 0usize);
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            // Reading a value reads all of its pages.
            if let ValueRef::Text(value) | ValueRef::Blob(value) = row.get_ref(column)? {
                bytes = bytes.saturating_add(value.len());
            }
        }
        count += 1;
        visit(row)?;
        if bytes >= CHUNK_BYTES || count >= CHUNK_ROWS {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Checks every page and the index of the database in `directory`, which no host may have open.
/// Returns SQLite's findings, none if the database is sound.
pub fn check(directory: &Path) -> Result<Vec<String>, SqliteOpenError> {
    // Everything is checked below.
    let database = match Database::open(directory, false, 0) {
        Ok(database) => database,
        Err(SqliteOpenError::Damaged { finding, .. }) => return Ok(vec![finding]),
        Err(error) => return Err(error),
    };
    let connection = database.connect_reader()?;
    match check_pages(&connection, "integrity_check", MAX_FINDINGS) {
        Ok(findings) => Ok(findings),
        Err(error) => match database.open_error(error) {
            SqliteOpenError::Damaged { finding, .. } => Ok(vec![finding]),
            error => Err(error),
        },
    }
}

/// Reads every page and returns at most `limit` findings, none if the database is sound. `check` is
/// `quick_check`, or `integrity_check`, which also compares the index with the table.
pub fn check_pages(connection: &Connection, check: &str, limit: usize) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA {check}({limit})"))?;
    let rows: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    // A row may have a heading and several lines.
    let lines = rows.iter().flat_map(|row| row.lines()).filter(|line| *line != "ok" && !line.starts_with("***"));
    Ok(lines.take(limit).map(str::to_owned).collect())
}
