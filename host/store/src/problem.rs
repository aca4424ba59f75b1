//! The problems that can keep a store from its work.

use std::sync::Arc;
use std::time::Instant;

use hexad_support::named_values;

named_values! {
    /// Why the store cannot do its work.
    pub enum StoreProblem {
        /// A page of the database is damaged. This lasts until a backup is restored. PostgreSQL's server can be
        /// repaired: there, it lasts until the failed keys can be read.
        Damaged = "damaged",
        /// A file of the database was removed or replaced. This lasts until the host is started again.
        Removed = "removed",
        /// The lock of the data directory was removed or replaced, so that another host can use the directory too.
        /// This lasts until the host is started again.
        Unlocked = "unlocked",
        /// The thread that writes has ended. This lasts until the host is started again.
        WriterStopped = "writer_stopped",
        /// The disk, or the database by its own limit, is full.
        Full = "full",
        /// Another program keeps the database locked.
        Busy = "busy",
        /// The tables do not fit the host, or refuse it: one is missing, a right is missing, a trigger fails.
        Unusable = "unusable",
        /// The disk cannot be read or written.
        Unavailable = "unavailable",
    }
}

impl StoreProblem {
    /// Whether a successful write does not end the problem: other tables, pages or kinds of statements may still fail.
    pub fn is_ended_by_probes_only(self) -> bool {
        matches!(self, Self::Damaged | Self::Unusable)
    }
}

/// A problem that the store has now.
#[derive(Clone, Debug)]
pub struct StoreFailure {
    pub problem: StoreProblem,
    /// The engine's words, for the operator.
    pub reason: Arc<str>,
    pub since: Instant,
}

impl StoreFailure {
    /// A failure that begins now.
    pub fn new(problem: StoreProblem, reason: &str) -> Self {
        Self { problem, reason: Arc::from(reason), since: Instant::now() }
    }
}
