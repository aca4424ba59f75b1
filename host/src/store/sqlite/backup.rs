//! A copy of the database while it is in use, and a check of one that is not.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::FILE_NAME;
use super::open::{Database, OpenError, findings};

/// How many findings of a check are told.
const MAX_FINDINGS: usize = 100;

/// Why there is no backup. Each says what to do.
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
}

/// Copies the database in `directory` to `target` and returns its size in bytes.
///
/// The copy is the state at one moment: everything that was durable when it began and nothing of
/// what came later, whoever writes meanwhile. It is compact, and it is a database like the original:
/// to restore it, put it under the original's name into an empty folder. `target` appears when it is
/// whole and on disk. While the copy is made the log grows by what is written.
pub fn backup(directory: &Path, target: &Path) -> Result<u64, BackupError> {
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
    let refuse = |source| BackupError::Write { path: unfinished.clone(), source };
    // Made here, empty, so that nobody else can read what is in it: SQLite fills an empty file.
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&unfinished).map_err(refuse)?;
    let copied = copy(&path, &unfinished).map_err(|source| BackupError::Sqlite { path, source });
    let finished = copied.and_then(|()| finish(&file, &unfinished, target).map_err(refuse));
    if finished.is_err() {
        // What is left would only be in the way.
        let _ = fs::remove_file(&unfinished);
    }
    finished
}

fn copy(path: &Path, target: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(super::open::BUSY_TIMEOUT)?;
    connection.execute("VACUUM INTO ?1", [target.to_string_lossy()])?;
    connection.close().map_err(|(_, error)| error)
}

fn finish(file: &File, unfinished: &Path, target: &Path) -> io::Result<u64> {
    file.sync_all()?;
    fs::rename(unfinished, target)?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()?;
    Ok(file.metadata()?.len())
}

/// Checks every page of the database in `directory`, which no host uses, and its index: what is
/// wrong, in SQLite's words; none if all is well.
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
    match findings(&connection, "integrity_check", MAX_FINDINGS) {
        Ok(findings) => Ok(findings),
        Err(error) => match database.refuse(error) {
            OpenError::Damaged { finding, .. } => Ok(vec![finding]),
            error => Err(error),
        },
    }
}
