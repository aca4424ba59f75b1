//! Copies a database while it is in use.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::attachments::{self, Attachment};
use super::open::{BUSY_TIMEOUT, FILE_NAME};
use crate::private_files;

/// Why a backup could not be made. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("there is no store in {directory}; give the folder of a host with --data")]
    NoStore { directory: PathBuf },
    #[error("{path} is there already; choose another name, or remove it")]
    Exists { path: PathBuf },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot copy the store {path}: {source}")]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    #[error("cannot copy what was swapped in: {0}")]
    Attachments(io::Error),
}

/// Copies the database in `directory` to `target` and returns its size in bytes. The files that
/// `attach` returns are in the copy, too; the host that opens it puts them back.
///
/// The copy is a snapshot: it has every write that was durable when the copy began and no later one.
/// It is compact, and it is a database like the original: to restore it, put it under the original's
/// name into an empty folder. `target` appears when the copy is complete and on disk. While
/// the copy is made, the write-ahead log grows with every write.
pub fn backup(
    directory: &Path,
    target: &Path,
    attach: impl FnOnce() -> io::Result<Vec<Attachment>>,
) -> Result<u64, BackupError> {
    let path = directory.join(FILE_NAME);
    if !path.is_file() {
        return Err(BackupError::NoStore { directory: directory.to_owned() });
    }
    if target.exists() {
        return Err(BackupError::Exists { path: target.to_owned() });
    }
    let mut unfinished = target.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    let write_error = |source| BackupError::Write { path: unfinished.clone(), source };
    // SQLite fills an empty file, so the host makes it with a mode that keeps other users from reading it.
    let file = private_files::create(&unfinished).map_err(write_error)?;
    let sqlite_error = |source| BackupError::Sqlite { path: path.clone(), source };
    let finished = copy(&path, &unfinished)
        .map_err(sqlite_error)
        .and_then(|()| attach().map_err(BackupError::Attachments))
        .and_then(|attached| put_attachments(&unfinished, &attached).map_err(sqlite_error))
        .and_then(|()| finish(&file, &unfinished, target).map_err(write_error));
    if finished.is_err() {
        // An incomplete copy is of no use.
        let _ = fs::remove_file(&unfinished);
    }
    finished
}

fn copy(path: &Path, target: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.execute("VACUUM INTO ?1", [target.to_string_lossy()])?;
    connection.close().map_err(|(_, error)| error)
}

fn put_attachments(target: &Path, attached: &[Attachment]) -> rusqlite::Result<()> {
    if attached.is_empty() {
        return Ok(());
    }
    let mut connection = Connection::open_with_flags(target, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // No process reads the copy before it is complete, so that it needs no journal beside it.
    connection.pragma_update(None, "journal_mode", "off")?;
    attachments::put(&mut connection, attached)?;
    connection.close().map_err(|(_, error)| error)
}

fn finish(file: &File, unfinished: &Path, target: &Path) -> io::Result<u64> {
    file.sync_all()?;
    fs::rename(unfinished, target)?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()?;
    Ok(file.metadata()?.len())
}
