//! The problems that can keep a store from its work.

use std::sync::Arc;
use std::time::Instant;

/// Why the store cannot do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreProblem {
    /// A page of the database is damaged. This lasts until a backup is restored. PostgreSQL's server can be repaired:
    /// there, it lasts until the failed keys can be read.
    Damaged,
    /// A file of the database was removed or replaced. This lasts until the host is started again.
    Removed,
    /// The lock of the data directory was removed or replaced, so that another host can use the directory too. This
    /// lasts until the host is started again.
    Unlocked,
    /// The thread that writes has ended. This lasts until the host is started again.
    WriterStopped,
    /// The disk, or the database by its own limit, is full.
    Full,
    /// Another program keeps the database locked.
    Busy,
    /// The tables do not fit the host, or refuse it: one is missing, a right is missing, a trigger fails.
    Unusable,
    /// The disk cannot be read or written.
    Unavailable,
}

impl StoreProblem {
    /// The names are an interface: metrics and `/readyz` use them.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Damaged, "damaged"),
        (Self::Removed, "removed"),
        (Self::Unlocked, "unlocked"),
        (Self::WriterStopped, "writer_stopped"),
        (Self::Full, "full"),
        (Self::Busy, "busy"),
        (Self::Unusable, "unusable"),
        (Self::Unavailable, "unavailable"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(problem, _)| *problem == self).map_or("unavailable", |(_, name)| name)
    }

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
