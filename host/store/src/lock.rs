//! The lock of the data directory, which only one host may use at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hexad_support::private_files;

/// The locked file. It remains when the host ends.
const FILE_NAME: &str = "hexad.lock";

/// Holds the lock until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct DataLock(Arc<LockedFile>);

#[derive(Debug)]
struct LockedFile {
    file: File,
    path: PathBuf,
}

impl Drop for LockedFile {
    /// Closing the file is not enough: a program that another thread is just starting also has it open, for a moment.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Why the data directory cannot be locked. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("cannot use the data directory {path}: {source}; choose another one with --data")]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot lock {path}: {source}, or choose another directory with --data")]
    Irregular { path: PathBuf, source: io::Error },
    #[error(
        "the data directory {path} is in use by another hexad; stop that one, or choose another \
         directory with --data"
    )]
    InUse { path: PathBuf },
}

impl DataLock {
    /// Locks `directory`, and creates it if it does not exist.
    pub fn acquire(directory: &Path) -> Result<Self, LockError> {
        let unusable = |source| LockError::Directory { path: directory.to_owned(), source };
        private_files::create_folder(directory).map_err(unusable)?;
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true);
        let path = directory.join(FILE_NAME);
        let file = private_files::open(options, &path).map_err(|source| match source.kind() {
            io::ErrorKind::InvalidInput => LockError::Irregular { path: path.clone(), source },
            _ => unusable(source),
        })?;
        match file.try_lock() {
            Ok(()) => Ok(Self(Arc::new(LockedFile { file, path }))),
            Err(TryLockError::WouldBlock) => Err(LockError::InUse { path: directory.to_owned() }),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }

    /// The path of the locked file. Once another file is there, another host can lock the directory.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The locked file itself, whatever is at its path by now.
    pub fn file(&self) -> &File {
        &self.0.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_last_clone_despite_an_open_file() {
        let directory = tempfile::tempdir().unwrap();
        let first = DataLock::acquire(directory.path()).unwrap();
        let inherited = first.0.file.try_clone().unwrap();
        let second = first.clone();
        drop(first);
        assert!(matches!(DataLock::acquire(directory.path()), Err(LockError::InUse { .. })));
        drop(second);
        assert!(DataLock::acquire(directory.path()).is_ok());
        drop(inherited);
    }

    #[test]
    fn a_pipe_or_a_folder_in_place_of_the_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        let refuse = || {
            let text = DataLock::acquire(directory.path()).unwrap_err().to_string();
            let begin = format!("cannot lock {}: it is a folder, a pipe or a device and no file; ", path.display());
            assert_eq!(text, begin + "move it away, or choose another directory with --data");
        };
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        refuse();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        refuse();
    }
}
