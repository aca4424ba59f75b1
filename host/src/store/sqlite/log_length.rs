//! Notices that another program has committed, or has truncated the write-ahead log. SQLite would continue to write
//! after the cut, and a start after a crash would find nothing of it.
//!
//! SQLite truncates the log too: at the end of a commit by the journal's size limit, and after a checkpoint by any
//! program. A checkpoint that truncates the log changes the header of the log's index, and with it `data_version`. So
//! does a commit of another program. If `data_version` is equal in two transactions of this connection, only this
//! connection can have truncated the log in between.

use std::path::PathBuf;

use rusqlite::Connection;

/// The log's length after the writer's latest commit.
pub struct LogLength {
    path: PathBuf,
    /// `data_version` at its last read. A commit of this connection does not change it.
    version: Option<i64>,
    /// `data_version` in the transaction before, and the log's length after it; `None` if it was not committed.
    committed: Option<(i64, u64)>,
}

impl LogLength {
    pub fn new(path: PathBuf) -> Self {
        Self { path, version: None, committed: None }
    }

    /// Whether another program may have changed values since the last call, or before the first one.
    pub fn has_foreign_commit(&mut self, writer: &Connection) -> rusqlite::Result<bool> {
        let version = writer.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        Ok(self.version.replace(version) != Some(version))
    }

    /// Whether the log is shorter than after the latest commit, and SQLite did not truncate it. Call it once in each
    /// transaction, before its first write and after [`Self::has_foreign_commit`].
    pub fn is_cut_off(&mut self) -> bool {
        let expected = self.committed.take().filter(|(version, _)| self.version == Some(*version));
        expected.zip(self.length()).is_some_and(|((_, expected), length)| length < expected)
    }

    /// Records that the transaction was committed.
    pub fn record_commit(&mut self) {
        self.committed = self.version.zip(self.length());
    }

    fn length(&self) -> Option<u64> {
        std::fs::metadata(&self.path).ok().map(|file| file.len())
    }
}
