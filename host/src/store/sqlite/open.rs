//! Opening the database: first creation, checks, connections.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::FILE_NAME;
use crate::store::lock::{DataLock, LockError};

/// Spin's table, exactly as Spin creates it (its crate `key-value-spin`).
const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS spin_key_value (
    store TEXT NOT NULL,
    key   TEXT NOT NULL,
    value BLOB NOT NULL,

    PRIMARY KEY (store, key)
)";

/// A database up to this size, in bytes, is read as a whole before it is served: a fraction of a
/// second. A larger one is read while it is served (see [`super::integrity_check`]).
const CHECKED_AT_ONCE: u64 = 256 << 20;

/// A Spin that has the same file open may hold the lock for the time of one transaction.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a database could not be opened. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot use the data directory {path}: {source}; choose another one with --data")]
    Directory { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(
        "the store {path} is damaged ({finding}); restore it from a backup, or move it away to \
         start with an empty store"
    )]
    Damaged { path: PathBuf, finding: String },
    #[error("there is no store in {directory}; give the folder of a host with --data")]
    NoStore { directory: PathBuf },
    #[error("cannot start a thread of the store {path}: {source}")]
    Thread { path: PathBuf, source: io::Error },
    #[error("cannot open the store {path}: {source}")]
    Sqlite { path: PathBuf, source: rusqlite::Error },
}

/// A locked data directory with a checked database in it.
pub struct Database {
    path: PathBuf,
    lock: DataLock,
    is_checked: bool,
}

impl Database {
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        let lock = DataLock::acquire(directory)?;
        let path = directory.join(FILE_NAME);
        if !path.exists() {
            create(directory, &path)?;
        }
        let mut database = Self { path, lock, is_checked: false };
        database.check()?;
        Ok(database)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn lock(&self) -> DataLock {
        self.lock.clone()
    }

    pub fn connect_writer(&self, max_bytes: Option<u64>) -> Result<Connection, OpenError> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        configure_writer(&connection, max_bytes).map_err(|e| self.refuse(e))?;
        Ok(connection)
    }

    pub fn connect_reader(&self) -> Result<Connection, OpenError> {
        self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    fn connect(&self, mode: OpenFlags) -> Result<Connection, OpenError> {
        // Without OPEN_CREATE: a database that vanished is an error, not an empty store.
        let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let connection = Connection::open_with_flags(&self.path, flags)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update(None, "cell_size_check", true)?;
            connection.pragma_update(None, "trusted_schema", false)?;
            Ok(connection)
        };
        open().map_err(|e| self.refuse(e))
    }

    /// Whether the whole database was read when it was opened.
    pub fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// Looks at the header, the length that it tells, and the table; and, if that is quick, at every
    /// page: damage is found at start, by name, and not by the request that happens to need it.
    fn check(&mut self) -> Result<(), OpenError> {
        let damaged = |finding: &str| OpenError::Damaged { path: self.path.clone(), finding: finding.to_owned() };
        let length =
            fs::metadata(&self.path).map_err(|source| OpenError::Directory { path: self.path.clone(), source })?.len();
        if length == 0 {
            return Err(damaged("the file is empty"));
        }
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // The first read compares the header's number of pages with the length of the file, and takes
        // over what a host that was killed had committed to the log.
        if length <= CHECKED_AT_ONCE {
            if let Some(finding) = findings(&connection, "quick_check", 1).map_err(|e| self.refuse(e))?.pop() {
                return Err(damaged(&finding));
            }
            self.is_checked = true;
        }
        let table: Option<String> = connection
            .query_row("SELECT name FROM sqlite_schema WHERE type = 'table' AND name = 'spin_key_value'", [], |row| {
                row.get(0)
            })
            .optional()
            .map_err(|e| self.refuse(e))?;
        if table.is_none() {
            return Err(damaged("it has no table `spin_key_value`"));
        }
        Ok(())
    }

    pub fn refuse(&self, source: rusqlite::Error) -> OpenError {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        let path = self.path.clone();
        match source.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => OpenError::Damaged { path, finding: source.to_string() },
            _ => OpenError::Sqlite { path, source },
        }
    }
}

/// What a check of every page finds (`quick_check`, or `integrity_check`, which compares the index
/// with the table as well): at most `limit` sentences, none if all is well.
pub fn findings(connection: &Connection, check: &str, limit: usize) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA {check}({limit})"))?;
    let rows: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    // A row may have a heading and many lines.
    let lines = rows.iter().flat_map(|row| row.lines()).filter(|line| *line != "ok" && !line.starts_with("***"));
    Ok(lines.take(limit).map(str::to_owned).collect())
}

/// Makes the database under another name and renames it when it is whole, so that a file of the
/// right name is never half a database.
fn create(directory: &Path, path: &Path) -> Result<(), OpenError> {
    let refuse = |source| OpenError::Directory { path: directory.to_owned(), source };
    if directory.join(format!("{FILE_NAME}-wal")).exists() {
        return Err(OpenError::Damaged {
            path: path.to_owned(),
            finding: "the database is gone but its write-ahead log is there".to_owned(),
        });
    }
    let unfinished = directory.join(format!("{FILE_NAME}.new"));
    for name in ["", "-wal", "-shm", "-journal"] {
        let mut leftover = unfinished.clone().into_os_string();
        leftover.push(name);
        match fs::remove_file(leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refuse(error)),
            _ => {}
        }
    }
    let fill = || {
        let connection = Connection::open(&unfinished)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.execute(CREATE_TABLE, [])?;
        connection.close().map_err(|(_, error)| error)
    };
    fill().map_err(|source| OpenError::Sqlite { path: path.to_owned(), source })?;
    File::open(&unfinished)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&unfinished, path))
        .and_then(|()| File::open(directory)?.sync_all())
        .map_err(refuse)
}

fn configure_writer(connection: &Connection, max_bytes: Option<u64>) -> rusqlite::Result<()> {
    // A database that Spin made is in rollback mode until here; the mode stays in the file.
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    // After a burst the log is cut back to this; in pages, the checkpoint starts at 16 MiB, so
    // that a large blob does not pay for a checkpoint by itself.
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    connection.pragma_update(None, "wal_autocheckpoint", 4096)?;
    if let Some(bytes) = max_bytes {
        let page: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page.max(1);
        connection.pragma_update(None, "max_page_count", pages.max(1))?;
    }
    Ok(())
}
