//! Opens the database: creation, checks, connections.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hexad_store::lock::{DataLock, LockError};
use hexad_support::private_files;
use rusqlite::{Connection, OpenFlags, OptionalExtension, ffi};

use super::integrity_check::check_pages;

/// The file's name in the data directory, as Spin uses it.
pub const FILE_NAME: &str = "sqlite_key_value.db";

/// Spin's table, exactly as Spin creates it (its crate `key-value-spin`).
const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS spin_key_value (
    store TEXT NOT NULL,
    key   TEXT NOT NULL,
    value BLOB NOT NULL,

    PRIMARY KEY (store, key)
)";

/// A table that exists during a copy from another store.
pub const MARK_UNFINISHED: &str = "CREATE TABLE hexad_unfinished_copy (mark INTEGER)";
pub const MARK_FINISHED: &str = "DROP TABLE hexad_unfinished_copy";

/// How long a connection waits for a lock, which another one has for a transaction or while it recovers the log.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// As [`BUSY_TIMEOUT`], for a connection that reads on a shard's thread, which serves nothing meanwhile.
const READ_BUSY_TIMEOUT: Duration = Duration::from_millis(50);

/// Why a database could not be opened. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SqliteOpenError {
    #[error("cannot use the data directory {path}: {source}; choose another one with --data")]
    Directory { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(
        "the store {path} is damaged ({finding}); move {path}, {path}-wal and {path}-shm away, and then restore it from \
         a backup, or start with an empty store"
    )]
    Damaged { path: PathBuf, finding: String },
    #[error("the store {path} cannot be used: {reason}; see to its disk, and start again")]
    Failed { path: PathBuf, reason: String },
    #[error(
        "{log} is not of the store {path}, which is a backup or a copy: SQLite would write it over the store; move \
         {log} and its -shm file away, and start again"
    )]
    OtherLog { path: PathBuf, log: PathBuf },
    #[error(
        "the store {path} can only be read; let the host's user write it and its folder, or mount its disk for \
         writing, and start again"
    )]
    ReadOnly { path: PathBuf },
    #[error("{path} is a folder, a pipe or a device and no file of the store; move it away, and start again")]
    Irregular { path: PathBuf },
    #[error("a copy into {directory} was not completed; remove what is in it, and copy again")]
    Unfinished { directory: PathBuf },
    #[error("the store {path} is a link to a file that is away; mount its disk, or remove the link to begin anew")]
    Dangling { path: PathBuf },
    #[error("there is no store in {directory}; give the data folder of a host")]
    NoStore { directory: PathBuf },
    #[error(
        "cannot start a thread of the store {path}: {source}; raise the limit of threads (`ulimit -u`, or `TasksMax` of \
         systemd)"
    )]
    Thread { path: PathBuf, source: io::Error },
    #[error("the disk of {directory} has no room for the store ({source}); make room, and start again")]
    Full { directory: PathBuf, source: rusqlite::Error },
    #[error("cannot open the store {path}: {source}; see to its disk, and start again")]
    Sqlite { path: PathBuf, source: rusqlite::Error },
}

/// A database in a locked data directory.
pub struct Database {
    path: PathBuf,
    lock: DataLock,
    is_checked: bool,
}

impl Database {
    /// Opens the database in `directory`, and makes a missing one if `creates`. Checks all of a database of up to
    /// `checked_at_open` bytes.
    pub fn open(directory: &Path, creates: bool, checked_at_open: u64) -> Result<Self, SqliteOpenError> {
        let path = directory.join(FILE_NAME);
        // Checked before the lock, whose file would otherwise be the only file in the folder.
        if !creates && !path.exists() && !path.is_symlink() {
            return Err(SqliteOpenError::NoStore { directory: directory.to_owned() });
        }
        let lock = DataLock::acquire(directory)?;
        if let Some(path) = irregular_file(&path) {
            return Err(SqliteOpenError::Irregular { path });
        }
        if !path.exists() {
            if path.is_symlink() {
                return Err(SqliteOpenError::Dangling { path });
            }
            create(directory, &path)?;
        }
        // Checked before SQLite opens the file.
        if let Some(log) = log_of_another(&path) {
            return Err(SqliteOpenError::OtherLog { path, log });
        }
        // SQLite gives its log and the log's index the mode of the database.
        for ending in ["", "-wal", "-shm"] {
            let file = directory.join(format!("{FILE_NAME}{ending}"));
            private_files::make_private(&file).map_err(|source| SqliteOpenError::Directory { path: file, source })?;
        }
        let mut database = Self { path, lock, is_checked: false };
        database.check(checked_at_open)?;
        Ok(database)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files that stay in place while a host has the database open: the database, its log and the log's index. The
    /// writer's connection makes the index.
    pub fn files(&self) -> Vec<PathBuf> {
        vec![self.path.clone(), beside(&self.path, "-wal"), beside(&self.path, "-shm")]
    }

    pub fn lock(&self) -> DataLock {
        self.lock.clone()
    }

    pub fn connect_writer(&self, max_bytes: Option<u64>) -> Result<Connection, SqliteOpenError> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        configure_writer(&connection, max_bytes).map_err(|e| self.open_error(e))?;
        Ok(connection)
    }

    /// A connection that writes only pages that the log has already, or values that no request waits for.
    pub fn connect_checkpointer(&self) -> Result<Connection, SqliteOpenError> {
        self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    pub fn connect_reader(&self) -> Result<Connection, SqliteOpenError> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(READ_BUSY_TIMEOUT).map_err(|e| self.open_error(e))?;
        Ok(connection)
    }

    fn connect(&self, mode: OpenFlags) -> Result<Connection, SqliteOpenError> {
        let open = || {
            let connection = open_file(&self.path, mode)?;
            if mode.contains(OpenFlags::SQLITE_OPEN_READ_WRITE) {
                refuse_read_only(&connection)?;
            }
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update(None, "cell_size_check", true)?;
            connection.pragma_update(None, "trusted_schema", false)?;
            Ok(connection)
        };
        open().map_err(|e| self.open_error(e))
    }

    /// Whether every page was checked when the database was opened.
    pub fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// Checks the header, the length and the table, and every page of a small database. So the start finds damage, not
    /// the first request that reads the damaged page.
    fn check(&mut self, checked_at_open: u64) -> Result<(), SqliteOpenError> {
        let damaged = |finding: &str| SqliteOpenError::Damaged { path: self.path.clone(), finding: finding.to_owned() };
        let length = fs::metadata(&self.path)
            .map_err(|source| SqliteOpenError::Directory { path: self.path.clone(), source })?
            .len();
        if length == 0 {
            return Err(damaged("the file is empty"));
        }
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // SQLite's first read compares the number of pages in the header with the length of the file,
        // and recovers the log that a killed host has left.
        if length <= checked_at_open {
            if let Some(finding) = check_pages(&connection, "quick_check", 1).map_err(|e| self.open_error(e))?.pop() {
                return Err(damaged(&finding));
            }
            self.is_checked = true;
        }
        let has_table = |name: &str| {
            let found =
                connection
                    .query_row("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1", [name], |_| Ok(()));
            found.optional().map(|found| found.is_some()).map_err(|e| self.open_error(e))
        };
        if !has_table("spin_key_value")? {
            return Err(damaged("it has no table `spin_key_value`"));
        }
        if has_table("hexad_unfinished_copy")? {
            let directory = self.path.parent().unwrap_or(&self.path).to_owned();
            return Err(SqliteOpenError::Unfinished { directory });
        }
        let columns = connection.prepare("SELECT store, key, value FROM spin_key_value");
        columns.map(drop).map_err(|error| match error {
            rusqlite::Error::SqlInputError { .. } => damaged("its table `spin_key_value` is not Spin's"),
            error => self.open_error(error),
        })
    }

    pub fn open_error(&self, source: rusqlite::Error) -> SqliteOpenError {
        open_error(&self.path, source, is_full)
    }
}

/// The error of a database that cannot be opened. SQLite reports a full disk if a write has failed for it. Otherwise it
/// reports only a disk failure, for example without space for the log's index.
fn open_error(path: &Path, source: rusqlite::Error, is_full: impl Fn(&Path) -> bool) -> SqliteOpenError {
    use rusqlite::ErrorCode::{CannotOpen, DatabaseCorrupt, DiskFull, NotADatabase, ReadOnly, SystemIoFailure};
    // SQLite puts its files beside the target of a symbolic link.
    let (path, real) = (path.to_owned(), fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
    let directory = real.parent().unwrap_or(&real).to_owned();
    match source.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => SqliteOpenError::Damaged { path, finding: source.to_string() },
        Some(ReadOnly) => SqliteOpenError::ReadOnly { path },
        Some(DiskFull) => SqliteOpenError::Full { directory, source },
        Some(SystemIoFailure | CannotOpen) if is_full(&directory) => SqliteOpenError::Full { directory, source },
        _ => SqliteOpenError::Sqlite { path, source },
    }
}

/// Whether the disk is full, or the user may not use more of it.
fn is_full(directory: &Path) -> bool {
    /// Further bytes that an empty store needs.
    const ROOM: usize = 64 * 1024;
    let written = tempfile::tempfile_in(directory).and_then(|mut file| file.write_all(&[0; ROOM]));
    written.is_err_and(|error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
}

/// SQLite opens a read-only file, and reports it only at the first write.
fn refuse_read_only(connection: &Connection) -> rusqlite::Result<()> {
    match connection.is_readonly("main")? {
        true => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY), None)),
        false => Ok(()),
    }
}

/// The file beside the database with this ending. SQLite puts it beside the target of a symbolic link.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).into_os_string();
    path.push(ending);
    path.into()
}

/// The first of the database's existing files that is no regular file. SQLite opens the files by their names, and would
/// wait for a program at the other end of a pipe.
pub fn irregular_file(path: &Path) -> Option<PathBuf> {
    let mut files = ["", "-wal", "-shm", "-journal"].into_iter().map(|ending| beside(path, ending));
    files.find(|file| fs::metadata(file).is_ok_and(|metadata| !metadata.is_file()))
}

/// The write-ahead log beside the database at `path`, if it belongs to another database that was there before.
///
/// SQLite replays any log that it finds. A database without a log in its header, such as a backup, has never had one.
/// SQLite marks the header, on disk, before it makes the log. A host does so at its start.
pub fn log_of_another(path: &Path) -> Option<PathBuf> {
    /// Two bytes of the header, each 1 without a write-ahead log and 2 with one.
    const FORMATS: (u64, [u8; 2]) = (18, [1; 2]);
    let log = beside(path, "-wal");
    let mut formats = [0; 2];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut formats, FORMATS.0));
    (read.is_ok() && formats == FORMATS.1 && fs::metadata(&log).is_ok_and(|log| log.len() > 0)).then_some(log)
}

/// Opens an existing database: without SQLITE_OPEN_CREATE, a missing file is an error and not an empty store.
pub fn open_file(path: &Path, mode: OpenFlags) -> rusqlite::Result<Connection> {
    // SQLite reads a name that begins with `file:` as a URI. An absolute path does not begin so.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// Creates the database under another name and renames it when it is complete, so that a file with
/// the database's name is always complete.
fn create(directory: &Path, path: &Path) -> Result<(), SqliteOpenError> {
    let directory_error = |source| SqliteOpenError::Directory { path: directory.to_owned(), source };
    if directory.join(format!("{FILE_NAME}-wal")).exists() {
        return Err(SqliteOpenError::Damaged {
            path: path.to_owned(),
            finding: "the database is gone but its write-ahead log is there".to_owned(),
        });
    }
    let unfinished = directory.join(format!("{FILE_NAME}.new"));
    for name in ["", "-wal", "-shm", "-journal"] {
        let mut leftover = unfinished.clone().into_os_string();
        leftover.push(name);
        private_files::remove(Path::new(&leftover)).map_err(directory_error)?;
    }
    // SQLite fills an empty file. If SQLite made the file, other users could read it.
    private_files::create(&unfinished).map_err(directory_error)?;
    let fill = || {
        let connection = open_file(&unfinished, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.execute(CREATE_TABLE, [])?;
        connection.close().map_err(|(_, error)| error)
    };
    fill().map_err(|source| open_error(path, source, is_full))?;
    private_files::rename_durably(&unfinished, path).map_err(directory_error)
}

fn configure_writer(connection: &Connection, max_bytes: Option<u64>) -> rusqlite::Result<()> {
    // A database that Spin created is in rollback mode. The mode is kept in the file.
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    // The log is cut back to 64 MiB after a burst.
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    // No commit copies the log into the database; the checkpointer does.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    if let Some(bytes) = max_bytes {
        let page: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page.max(1);
        connection.pragma_update(None, "max_page_count", pages.max(1))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_sqlite_opened_for_reading_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute(CREATE_TABLE, []).unwrap();
        refuse_read_only(&connection).unwrap();
        let error = refuse_read_only(&open_file(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()).unwrap_err();
        let text = open_error(Path::new("data/store.db"), error, |_| false).to_string();
        assert!(text.starts_with("the store data/store.db can only be read; let"), "{text}");
    }

    #[test]
    fn a_full_disk_is_named() {
        let text = |code: i32, is_full: bool| {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            open_error(Path::new("data/store.db"), error, |_| is_full).to_string()
        };
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_CANTOPEN] {
            let named = text(code, true);
            assert!(named.starts_with("the disk of data has no room") && named.contains("make room"), "{named}");
        }
        for code in [ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_PERM] {
            assert!(text(code, false).starts_with("cannot open the store data/store.db: "));
        }
        assert!(!is_full(tempfile::tempdir().unwrap().path()));
    }
}
