//! Whether the store can do its work: what its threads and readers have found out, for `/readyz`, the
//! metrics and `hexad status`.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Why the store cannot do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreProblem {
    /// A page of the database is damaged. This lasts until a backup is restored.
    Damaged,
    /// A file of the database was removed or replaced, or another program has cut off its log. This lasts until the
    /// host is started again.
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
    /// The disk cannot be read or written.
    Unavailable,
}

impl StoreProblem {
    /// The names are an interface: metrics and `/readyz` have them.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Damaged, "damaged"),
        (Self::Removed, "removed"),
        (Self::Unlocked, "unlocked"),
        (Self::WriterStopped, "writer_stopped"),
        (Self::Full, "full"),
        (Self::Busy, "busy"),
        (Self::Unavailable, "unavailable"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(problem, _)| *problem == self).map_or("unavailable", |(_, name)| name)
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

const MIN_PROBE_BYTES: usize = 64 * 1024;
const MAX_PROBE_BYTES: usize = 8 * 1024 * 1024;

/// The state of a store's health.
///
/// Damage, a file or a lock that was removed, and the end of the writer are for good. Another problem is an *outage*: it
/// lasts until the writer commits a transaction at least as large as the one that failed. The writer tries that by
/// itself, because a host that is not ready gets no requests.
pub struct StoreHealth {
    /// The database.
    path: PathBuf,
    /// Its files as they were when it was opened; none if the store has no file.
    files: Vec<(PathBuf, FileId)>,
    /// The lock of the data directory that the database is in.
    lock: Option<(PathBuf, FileId)>,
    damage: OnceLock<StoreFailure>,
    /// A file of the database, or the lock.
    removed: OnceLock<StoreFailure>,
    writer_stopped: OnceLock<StoreFailure>,
    outage: Mutex<Option<Outage>>,
    /// Whether there is an outage, for the writer's look at it after every transaction.
    has_outage: AtomicBool,
    failed_transactions: AtomicU64,
}

/// The device and the number of a file there.
type FileId = (u64, u64);

fn file_id(file: &Metadata) -> FileId {
    (file.dev(), file.ino())
}

/// The file that is at `path` now.
fn found(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().as_ref().map(file_id)
}

struct Outage {
    failure: StoreFailure,
    /// Size of the largest transaction that has failed.
    bytes: usize,
}

impl StoreHealth {
    /// The health of the store at `path`, which has these files.
    pub fn new(path: PathBuf, files: Vec<PathBuf>) -> Self {
        let files = files.into_iter().filter_map(|file| found(&file).map(|id| (file, id)));
        Self {
            files: files.collect(),
            lock: None,
            path,
            damage: OnceLock::new(),
            removed: OnceLock::new(),
            writer_stopped: OnceLock::new(),
            outage: Mutex::default(),
            has_outage: AtomicBool::new(false),
            failed_transactions: AtomicU64::new(0),
        }
    }

    /// The same, which watches the lock of the data directory, too.
    pub fn with_lock(self, path: &Path, file: &Metadata) -> Self {
        Self { lock: Some((path.to_owned(), file_id(file))), ..self }
    }

    /// The gravest problem, `None` if the store does its work.
    pub fn failure(&self) -> Option<StoreFailure> {
        let lasting = self.damage.get().or_else(|| self.removed()).or_else(|| self.writer_stopped.get());
        lasting.cloned().or_else(|| self.outage().as_ref().map(|outage| outage.failure.clone()))
    }

    /// What is damaged, in the engine's words.
    pub fn damage(&self) -> Option<&Arc<str>> {
        self.damage.get().map(|failure| &failure.reason)
    }

    /// Looks whether the database's files and the lock are still in their place: what is written after one of the
    /// files was removed is lost when the host ends, and without the lock another host may write as well.
    pub fn removed(&self) -> Option<&StoreFailure> {
        let is_gone = |(path, id): &&(PathBuf, FileId)| found(path) != Some(*id);
        let file = || self.files.iter().find(is_gone).map(|(path, _)| (path, StoreProblem::Removed));
        let lock = || self.lock.iter().find(is_gone).map(|(path, _)| (path, StoreProblem::Unlocked));
        if self.removed.get().is_none()
            && let Some((path, problem)) = file().or_else(lock)
            // Asked after the files, because the end of the writer removes the log.
            && self.writer_stopped.get().is_none()
        {
            let finding = match problem {
                StoreProblem::Unlocked => format!(
                    "{} was removed or replaced, so that another host can use the folder; stop this host, and start it \
                     again if no other one uses the folder",
                    path.display()
                ),
                _ => format!(
                    "{} was removed or replaced; the host still has it open: copy the database and its `-wal` file \
                     from /proc/{}/fd before you stop the host",
                    path.display(),
                    std::process::id()
                ),
            };
            self.set_lasting(problem, &finding);
        }
        self.removed.get()
    }

    /// Records that a file of the database was removed, replaced or cut off. From then on the writer refuses every
    /// operation.
    pub fn set_removed(&self, finding: &str) {
        self.set_lasting(StoreProblem::Removed, finding);
    }

    fn set_lasting(&self, problem: StoreProblem, finding: &str) {
        if self.removed.set(failure(problem, finding)).is_ok() {
            tracing::error!(store = %self.path.display(), finding, "the store takes no more writes");
        }
    }

    /// Records that the database is damaged. From then on the writer refuses every operation.
    pub fn set_damaged(&self, finding: &str) {
        let failure = failure(StoreProblem::Damaged, finding);
        if self.damage.set(failure).is_ok() {
            tracing::error!(
                store = %self.path.display(), finding,
                "the store is damaged and takes no more writes; stop the host and restore a backup"
            );
        }
    }

    /// Records that the writer ends, which it does when the host stops, too. It still has the database open.
    pub fn set_writer_stopped(&self) {
        // Until now, because from then on a file can be missing for that reason.
        self.removed();
        let _ = self.writer_stopped.set(failure(StoreProblem::WriterStopped, "the thread that writes has ended"));
    }

    /// Records that a transaction of this size, or a read, has failed.
    pub fn begin_outage(&self, problem: StoreProblem, reason: &str, bytes: usize) {
        let mut outage = self.outage();
        let latest = failure(problem, reason);
        match &mut *outage {
            Some(outage) => {
                outage.failure = StoreFailure { since: outage.failure.since, ..latest };
                outage.bytes = outage.bytes.max(bytes);
            }
            None => {
                tracing::error!(
                    store = %self.path.display(), problem = problem.name(), reason,
                    "the store cannot be used, and the host is not ready until it can"
                );
                *outage = Some(Outage { failure: latest, bytes });
            }
        }
        self.has_outage.store(true, Ordering::SeqCst);
    }

    /// Records that a transaction of this size was committed.
    pub fn record_commit(&self, bytes: usize) {
        if !self.has_outage.load(Ordering::SeqCst) {
            return;
        }
        let mut outage = self.outage();
        if let Some(ended) = outage.take_if(|outage| outage.bytes <= bytes) {
            self.has_outage.store(false, Ordering::SeqCst);
            let seconds = ended.failure.since.elapsed().as_secs();
            tracing::info!(store = %self.path.display(), seconds, "the store can be used again");
        }
    }

    /// Size of the transaction that ends the outage, `None` if there is no outage.
    pub fn outage_bytes(&self) -> Option<usize> {
        match self.has_outage.load(Ordering::SeqCst) {
            true => self.outage().as_ref().map(|outage| outage.bytes),
            false => None,
        }
    }

    /// Whether another program was found to keep the database locked, and still does for all that is known.
    pub fn is_busy(&self) -> bool {
        self.has_outage.load(Ordering::SeqCst)
            && self.outage().as_ref().is_some_and(|outage| outage.failure.problem == StoreProblem::Busy)
    }

    /// Size of the value that is written to find out whether the outage is over, `None` if there is none. Of the
    /// transaction that failed, as much as fits into a range, so that a disk with room for a small record only does
    /// not count as usable.
    pub fn probe_bytes(&self) -> Option<usize> {
        self.outage_bytes().map(|bytes| bytes.clamp(MIN_PROBE_BYTES, MAX_PROBE_BYTES))
    }

    pub fn count_failed_transaction(&self) {
        self.failed_transactions.fetch_add(1, Ordering::Relaxed);
    }

    /// Transactions that failed since the start.
    pub fn failed_transactions(&self) -> u64 {
        self.failed_transactions.load(Ordering::Relaxed)
    }

    fn outage(&self) -> MutexGuard<'_, Option<Outage>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failure(problem: StoreProblem, reason: &str) -> StoreFailure {
    StoreFailure { problem, reason: Arc::from(reason), since: Instant::now() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_ends_with_a_commit_as_large_as_the_one_that_failed() {
        let health = StoreHealth::new(PathBuf::from("store"), Vec::new());
        assert!(health.failure().is_none());
        health.begin_outage(StoreProblem::Full, "no room", 1000);
        health.begin_outage(StoreProblem::Full, "no room", 10);
        assert_eq!(health.outage_bytes(), Some(1000));
        health.record_commit(999);
        assert_eq!(health.failure().map(|failure| failure.problem), Some(StoreProblem::Full));
        health.record_commit(1000);
        assert!(health.failure().is_none());
    }

    #[test]
    fn damage_and_a_stopped_writer_last() {
        let health = StoreHealth::new(PathBuf::from("store"), Vec::new());
        health.begin_outage(StoreProblem::Busy, "locked", 0);
        health.set_writer_stopped();
        assert_eq!(health.failure().map(|failure| failure.problem), Some(StoreProblem::WriterStopped));
        health.set_damaged("page 7");
        health.set_damaged("page 8");
        health.record_commit(usize::MAX);
        let failure = health.failure().unwrap();
        assert_eq!((failure.problem, &*failure.reason), (StoreProblem::Damaged, "page 7"));
    }
}
