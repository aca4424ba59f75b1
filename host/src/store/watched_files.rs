//! Whether the files that a store has open are still at their paths.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::problem::StoreProblem;

/// Files as they were opened, each with the store's problem if the file is gone.
pub struct WatchedFiles(Vec<(PathBuf, FileId, StoreProblem)>);

/// The device and the inode number of a file.
type FileId = (u64, u64);

fn file_id(file: &Metadata) -> FileId {
    (file.dev(), file.ino())
}

/// The file at `path` now; `None` if it is missing. An error if the host cannot see it, because a folder above denies
/// access or a network's disk does not respond.
fn found(path: &Path) -> io::Result<Option<FileId>> {
    match std::fs::metadata(path) {
        Ok(file) => Ok(Some(file_id(&file))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The result of a check of the files.
pub enum FileCheck {
    InPlace,
    Gone(PathBuf, StoreProblem),
    Unseen(PathBuf, io::Error),
}

impl WatchedFiles {
    /// The files of a database.
    pub fn of_database(files: Vec<PathBuf>) -> Self {
        let opened = |path: PathBuf| Some((found(&path).ok().flatten()?, path));
        Self(files.into_iter().filter_map(opened).map(|(id, path)| (path, id, StoreProblem::Removed)).collect())
    }

    /// Also watches the lock of the data directory.
    pub fn add_lock(&mut self, path: &Path, file: &Metadata) {
        self.0.push((path.to_owned(), file_id(file), StoreProblem::Unlocked));
    }

    pub fn check(&self) -> FileCheck {
        let mut check = FileCheck::InPlace;
        for (path, id, problem) in &self.0 {
            match found(path) {
                Ok(found) if found == Some(*id) => {}
                // A missing file outweighs one that cannot be seen.
                Ok(_) => return FileCheck::Gone(path.clone(), *problem),
                Err(error) => check = FileCheck::Unseen(path.clone(), error),
            }
        }
        check
    }
}
