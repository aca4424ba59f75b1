//! Copies a database while it is in use.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};

use hexad_store::health::file_id;
use rusqlite::OpenFlags;
use tempfile::NamedTempFile;

use super::attachments::{self, Attachment};
use super::classify::is_damage;
use super::integrity_check::check_pages;
use super::open::{BUSY_TIMEOUT, FILE_NAME, irregular_file, log_of_another, open_file};

/// Why a backup could not be made. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(
        "there is no store in {directory}; give the folder of a host with --data. PostgreSQL's own tools, pg_dump and \
         pg_basebackup, copy a store that is there"
    )]
    NoStore { directory: PathBuf },
    #[error(
        "the host on {directory} keeps its store on PostgreSQL ({url}); copy it with PostgreSQL's own tools, pg_dump or \
         pg_basebackup"
    )]
    OnPostgres { directory: PathBuf, url: String },
    #[error("{path} is there already; choose another name, or remove it")]
    Exists { path: PathBuf },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("the store {path} is damaged ({finding}); an earlier backup may be the last good one")]
    Damaged { path: PathBuf, finding: String },
    #[error("{path} is a folder, a pipe or a device and no file of the store; move it away first")]
    Irregular { path: PathBuf },
    #[error("{log} is not of the store {path}, which is a backup or a copy; move it and its -shm file away first")]
    OtherLog { path: PathBuf, log: PathBuf },
    #[error("cannot copy the store {path}: {source}")]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    #[error(
        "the store {path} is not the one that the host writes to: its files were removed or replaced; the host's log \
         says from where they can be copied"
    )]
    Removed { path: PathBuf },
    #[error("the store {path} was removed or replaced while it was copied; make the backup again")]
    Replaced { path: PathBuf },
    #[error("cannot copy what was swapped in: {0}")]
    Attachments(io::Error),
}

/// Copies the database in `directory` to `target` and returns its size in bytes. The copy includes the files that
/// `attach` returns; the host that opens the copy extracts them.
///
/// The copy is a snapshot: it has every write that was durable when the copy began, and no later one. It is a compact
/// database like the original, except that its header has no write-ahead log ([`log_of_another`]). To restore it, put
/// it under the original's name into an empty folder. `target` appears when the copy is complete and on disk. During
/// the check and the copy, the write-ahead log grows with every write. An error of `attach` fails the backup.
pub fn backup(
    directory: &Path,
    target: &Path,
    attach: impl FnOnce() -> Result<Vec<Attachment>, BackupError>,
) -> Result<u64, BackupError> {
    let path = directory.join(FILE_NAME);
    if let Some(path) = irregular_file(&path) {
        return Err(BackupError::Irregular { path });
    }
    let Ok(original) = file_id(&path) else {
        return Err(BackupError::NoStore { directory: directory.to_owned() });
    };
    if target.symlink_metadata().is_ok() {
        return Err(BackupError::Exists { path: target.to_owned() });
    }
    if let Some(log) = log_of_another(&path) {
        return Err(BackupError::OtherLog { path, log });
    }
    let write_error = |source| BackupError::Write { path: target.to_owned(), source };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Only the owner can read the empty file that SQLite fills. Another backup to the same name makes another file. An
    // incomplete copy is useless and removed.
    let mut unfinished = tempfile::Builder::new();
    let copied = unfinished.prefix("hexad-backup-").suffix(".unfinished").tempfile_in(folder).map_err(write_error)?;
    copy(&path, copied.path())?;
    let attached = attach()?;
    // SQLite opens the database and its log by their names. Of two stores, the copy would be a mixture.
    if file_id(&path).ok() != Some(original) {
        return Err(BackupError::Replaced { path });
    }
    put_attachments(copied.path(), &attached).map_err(|source| BackupError::Sqlite { path, source })?;
    copied.as_file().sync_all().map_err(write_error)?;
    let file = persist(copied, target)?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(write_error)?;
    Ok(file.metadata().map_err(write_error)?.len())
}

/// Copies the database at `path` into the empty file `target`, unless it is damaged.
fn copy(path: &Path, target: &Path) -> Result<(), BackupError> {
    let target = path::absolute(target).map_err(|source| BackupError::Write { path: target.to_owned(), source })?;
    let copy = || {
        let connection = open_file(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        if let Some(finding) = check_pages(&connection, "quick_check", 1)?.pop() {
            return Ok(Some(finding));
        }
        if !connection.table_exists(None, "spin_key_value")? {
            return Ok(Some("it has no table `spin_key_value`".to_owned()));
        }
        // A name that is not UTF-8 is valid too.
        connection.execute("VACUUM INTO CAST(?1 AS TEXT)", [target.as_os_str().as_bytes()])?;
        connection.close().map_err(|(_, error)| error)?;
        Ok(None)
    };
    let path = path.to_owned();
    match copy() {
        Ok(None) => Ok(()),
        Ok(Some(finding)) => Err(BackupError::Damaged { path, finding }),
        Err(error) if is_damage(&error) => Err(BackupError::Damaged { path, finding: error.to_string() }),
        Err(source) => Err(BackupError::Sqlite { path, source }),
    }
}

fn put_attachments(target: &Path, attached: &[Attachment]) -> rusqlite::Result<()> {
    if attached.is_empty() {
        return Ok(());
    }
    let mut connection = open_file(target, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // No process reads the copy before it is complete, so it needs no journal.
    connection.pragma_update(None, "journal_mode", "off")?;
    attachments::put(&mut connection, attached)?;
    connection.close().map_err(|(_, error)| error)
}

/// Gives a complete copy its name, unless another file has taken the name meanwhile.
fn persist(copied: NamedTempFile, target: &Path) -> Result<File, BackupError> {
    copied.persist_noclobber(target).map_err(|failed| match failed.error.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists { path: target.to_owned() },
        _ => BackupError::Write { path: target.to_owned(), source: failed.error },
    })
}
