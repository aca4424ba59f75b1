//! Notices that another program has cut off the write-ahead log, whose rest SQLite would go on to fill: a start after
//! a crash would find none of it.
//!
//! SQLite cuts the log, too: at the end of a commit by the journal's size limit, and after a checkpoint by any
//! program. A checkpoint that cuts it, and a commit of another program, change the header of the log's index, and with
//! it `data_version`. So, if that is the same in two transactions of this connection, only this connection can have cut
//! the log in between.

use std::path::PathBuf;

use rusqlite::Connection;

/// The log's length after the writer's latest commit.
pub struct LogLength {
    path: PathBuf,
    /// `data_version` in the open or latest transaction.
    version: i64,
    /// `data_version` in the transaction before, and the log's length after it; `None` if it was not committed.
    committed: Option<(i64, u64)>,
}

impl LogLength {
    pub fn new(path: PathBuf) -> Self {
        Self { path, version: 0, committed: None }
    }

    /// Whether the log is shorter than after the latest commit, without SQLite's doing. To be called once in each
    /// transaction, before its first write.
    pub fn is_cut_off(&mut self, writer: &Connection) -> rusqlite::Result<bool> {
        let committed = self.committed.take();
        self.version = writer.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        let expected = committed.filter(|(version, _)| *version == self.version);
        Ok(expected.zip(self.length()).is_some_and(|((_, expected), length)| length < expected))
    }

    /// Records that the transaction was committed.
    pub fn record_commit(&mut self) {
        self.committed = self.length().map(|length| (self.version, length));
    }

    fn length(&self) -> Option<u64> {
        std::fs::metadata(&self.path).ok().map(|file| file.len())
    }
}
