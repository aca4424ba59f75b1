//! Whether the store can do its work: the findings of its threads and readers, for `/readyz`, the
//! metrics and `hexad status`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::error::StoreError;
use super::lock::DataLock;
use super::problem::{StoreFailure, StoreProblem};

const MIN_PROBE_BYTES: usize = 64 * 1024;
const MAX_PROBE_BYTES: usize = 8 * 1024 * 1024;

/// The state of a store's health.
///
/// Damage, a removed file or lock, and the end of the writer are permanent. Every other problem is an *outage*: it
/// lasts until the writer commits a transaction at least as large as the failed one. The writer tries this without a
/// request, because a host that is not ready gets no requests.
///
/// An error without a known cause is a *suspicion*: it may concern one request only. The host finds out by a probe,
/// which sends the statements of requests with values of its own. A newly opened store is suspected too: opening writes
/// little or nothing, and succeeds on a full disk. The engine probes before the host is ready.
pub struct StoreHealth {
    /// The database.
    path: PathBuf,
    /// Its files and the lock of its data directory; none if the store has no file.
    files: Vec<OpenFile>,
    damage: OnceLock<StoreFailure>,
    /// Set once a file of the database or the lock was removed.
    removed: OnceLock<StoreFailure>,
    writer_stopped: OnceLock<StoreFailure>,
    outage: Mutex<Option<Outage>>,
    /// Whether an outage is set. The writer reads this after every transaction.
    has_outage: AtomicBool,
    is_suspected: AtomicBool,
    failed_transactions: AtomicU64,
}

struct Outage {
    failure: StoreFailure,
    /// Size of the largest transaction that has failed.
    bytes: usize,
}

/// A file that the host has open.
struct OpenFile {
    path: PathBuf,
    id: FileId,
    /// The store's problem once the file is not at its path.
    problem: StoreProblem,
}

/// The device and the inode number of a file.
pub type FileId = (u64, u64);

pub fn file_id(path: &Path) -> io::Result<FileId> {
    fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

impl OpenFile {
    /// `None` if the file is at its path.
    fn failure(&self) -> Option<StoreFailure> {
        let path = self.path.display();
        let (problem, reason) = match file_id(&self.path) {
            Ok(id) if id == self.id => return None,
            // A folder above denies access, or a network's disk does not respond.
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                (StoreProblem::Unavailable, format!("it cannot be seen whether {path} is in its place: {error}"))
            }
            _ if self.problem == StoreProblem::Unlocked => {
                let advice = "so that another host can use the folder; stop this host, and start it again if no other \
                              one uses the folder";
                (self.problem, format!("{path} was removed or replaced, {advice}"))
            }
            _ => {
                let advice = "the host still has it open: copy the database and its `-wal` file from";
                let process = std::process::id();
                let reason =
                    format!("{path} was removed or replaced; {advice} /proc/{process}/fd before you stop the host");
                (self.problem, reason)
            }
        };
        Some(StoreFailure::new(problem, &reason))
    }
}

impl StoreHealth {
    /// The health of the store at `path`, before the first write. These files stay in their places.
    pub fn new(path: PathBuf, files: Vec<PathBuf>) -> Self {
        let problem = StoreProblem::Removed;
        let open = |path: PathBuf| Some(OpenFile { id: file_id(&path).ok()?, path, problem });
        Self {
            files: files.into_iter().filter_map(open).collect(),
            path,
            damage: OnceLock::new(),
            removed: OnceLock::new(),
            writer_stopped: OnceLock::new(),
            outage: Mutex::default(),
            has_outage: AtomicBool::new(false),
            is_suspected: AtomicBool::new(true),
            failed_transactions: AtomicU64::new(0),
        }
    }

    /// Watches the lock of the data directory too. Another file at its path can be another host's.
    pub fn with_lock(mut self, lock: &DataLock) -> io::Result<Self> {
        let file = lock.file().metadata()?;
        let (id, path) = ((file.dev(), file.ino()), lock.path().to_owned());
        self.files.push(OpenFile { path, id, problem: StoreProblem::Unlocked });
        Ok(self)
    }

    /// The gravest problem; `None` if the store does its work.
    pub fn failure(&self) -> Option<StoreFailure> {
        let _ = self.check_files();
        let lasting = self.damage.get().or_else(|| self.removed.get()).or_else(|| self.writer_stopped.get());
        lasting.cloned().or_else(|| self.outage().as_ref().map(|outage| outage.failure.clone()))
    }

    /// The damage, in the engine's words.
    pub fn damage(&self) -> Option<&Arc<str>> {
        self.damage.get().map(|failure| &failure.reason)
    }

    /// Fails if a file of the database or the lock is not in its place. Values written after a file was removed are
    /// lost when the host ends. Without the lock, another host may write too. While the host cannot see the files, it
    /// must not write either.
    pub fn check_files(&self) -> Result<(), StoreError> {
        let found = self.files.iter().find_map(OpenFile::failure);
        // Read after the files, because the end of the writer removes the log.
        let found = found.filter(|_| self.writer_stopped.get().is_none());
        let failure = match (found, self.removed.get()) {
            (_, Some(removed)) => removed.clone(),
            (Some(failure), None) if failure.problem == StoreProblem::Unavailable => {
                self.begin_outage(failure.problem, &failure.reason, 0);
                failure
            }
            (Some(failure), None) => {
                tracing::error!(
                    store = %self.path.display(), finding = &*failure.reason,
                    "the store takes no more writes"
                );
                self.removed.get_or_init(|| failure).clone()
            }
            (None, None) => return Ok(()),
        };
        Err(StoreError::Unavailable { problem: failure.problem, reason: failure.reason })
    }

    /// Records that the database is damaged. From then on the writer refuses every operation.
    pub fn set_damaged(&self, finding: &str) {
        let failure = StoreFailure::new(StoreProblem::Damaged, finding);
        if self.damage.set(failure).is_ok() {
            tracing::error!(
                store = %self.path.display(), finding,
                "the store is damaged and takes no more writes; stop the host, move {0}, {0}-wal and {0}-shm away, and \
                 restore a backup",
                self.path.display()
            );
        }
    }

    /// Records that the writer ends, as at every stop of the host. The writer still has the database open.
    pub fn set_writer_stopped(&self) {
        // The last check: from now on, a file can be missing because the writer has ended.
        let _ = self.check_files();
        let _ =
            self.writer_stopped.set(StoreFailure::new(StoreProblem::WriterStopped, "the thread that writes has ended"));
    }

    /// Records that a transaction of this size, or a read, has failed.
    pub fn begin_outage(&self, problem: StoreProblem, reason: &str, bytes: usize) {
        let mut outage = self.outage();
        let latest = StoreFailure::new(problem, reason);
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

    /// Records an error without a known cause, which a probe finds out.
    pub fn suspect(&self) {
        self.is_suspected.store(true, Ordering::SeqCst);
    }

    pub fn is_suspected(&self) -> bool {
        self.is_suspected.load(Ordering::SeqCst)
    }

    /// Records that a transaction of this size was committed.
    pub fn record_commit(&self, bytes: usize) {
        if !self.has_outage.load(Ordering::SeqCst) {
            return;
        }
        self.end_if(|outage| outage.bytes <= bytes && !outage.failure.problem.is_ended_by_probes_only());
    }

    /// Records a successful probe: it does the same as requests, with a value as large as the failed one.
    pub fn record_probe(&self) {
        self.is_suspected.store(false, Ordering::SeqCst);
        self.end_if(|_| true);
    }

    fn end_if(&self, is_over: impl FnOnce(&Outage) -> bool) {
        let mut outage = self.outage();
        if let Some(ended) = outage.take_if(|outage| is_over(outage)) {
            self.has_outage.store(false, Ordering::SeqCst);
            let seconds = ended.failure.since.elapsed().as_secs();
            tracing::info!(store = %self.path.display(), seconds, "the store can be used again");
        }
    }

    /// Size of the transaction that ends the outage; `None` without an outage.
    pub fn outage_bytes(&self) -> Option<usize> {
        match self.has_outage.load(Ordering::SeqCst) {
            true => self.outage().as_ref().map(|outage| outage.bytes),
            false => None,
        }
    }

    /// Whether another program has locked the database and, as far as the host knows, still does.
    pub fn is_busy(&self) -> bool {
        self.has_outage.load(Ordering::SeqCst)
            && self.outage().as_ref().is_some_and(|outage| outage.failure.problem == StoreProblem::Busy)
    }

    /// The size of a probe's value; `None` without an outage or a suspicion. It is the size of the failed transaction,
    /// limited to a range. A disk with space for a small record only must not count as usable.
    pub fn probe_bytes(&self) -> Option<usize> {
        let suspected = || self.is_suspected().then_some(0);
        self.outage_bytes().or_else(suspected).map(|bytes| bytes.clamp(MIN_PROBE_BYTES, MAX_PROBE_BYTES))
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
    fn only_a_probe_ends_an_outage_whose_cause_is_not_the_size_of_a_write() {
        let health = StoreHealth::new(PathBuf::from("store"), Vec::new());
        for problem in [StoreProblem::Unusable, StoreProblem::Damaged] {
            health.begin_outage(problem, "no such table", 0);
            health.record_commit(usize::MAX);
            assert_eq!(health.failure().map(|failure| failure.problem), Some(problem));
            health.record_probe();
            assert!(health.failure().is_none());
        }
    }

    #[test]
    fn a_suspicion_is_no_problem_until_a_probe_finds_one() {
        let health = StoreHealth::new(PathBuf::from("store"), Vec::new());
        assert_eq!(health.probe_bytes(), Some(MIN_PROBE_BYTES), "a store that was not written yet");
        health.record_probe();
        assert_eq!(health.probe_bytes(), None);
        health.suspect();
        assert!(health.failure().is_none());
        assert_eq!(health.probe_bytes(), Some(MIN_PROBE_BYTES));
        health.record_probe();
        assert_eq!(health.probe_bytes(), None);
    }

    #[test]
    fn a_file_that_cannot_be_seen_for_a_moment_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (data, away) = (folder.path().join("data"), folder.path().join("away"));
        std::fs::create_dir(&data).unwrap();
        let file = data.join("store");
        std::fs::write(&file, "").unwrap();
        let lock = DataLock::acquire(&data).unwrap();
        let health = StoreHealth::new(file.clone(), vec![file]).with_lock(&lock).unwrap();
        assert!(health.failure().is_none());
        // A folder that is a link to itself: both files are out of sight, and neither is missing.
        std::fs::rename(&data, &away).unwrap();
        std::os::unix::fs::symlink(&data, &data).unwrap();
        let failure = health.failure().unwrap();
        assert_eq!(failure.problem, StoreProblem::Unavailable, "{}", failure.reason);
        assert!(failure.reason.contains("store is in its place: "), "{}", failure.reason);
        assert!(health.check_files().is_err(), "no writes meanwhile");
        assert_eq!(health.failure().unwrap().since, failure.since);
        std::fs::remove_file(&data).unwrap();
        std::fs::rename(&away, &data).unwrap();
        health.check_files().unwrap();
        // The writer's next transaction, or its probe.
        health.record_commit(0);
        assert!(health.failure().is_none());
        // The folder is a file now, so that the files are gone.
        std::fs::rename(&data, &away).unwrap();
        std::fs::write(&data, "").unwrap();
        assert_eq!(health.failure().map(|failure| failure.problem), Some(StoreProblem::Removed));
    }

    #[test]
    fn another_file_in_place_of_the_lock_is_not_taken_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let lock = DataLock::acquire(folder.path()).unwrap();
        // Another host locks the folder while this one opens its store.
        std::fs::remove_file(lock.path()).unwrap();
        let _other = DataLock::acquire(folder.path()).unwrap();
        let health = StoreHealth::new(folder.path().join("store"), Vec::new()).with_lock(&lock).unwrap();
        assert_eq!(health.failure().map(|failure| failure.problem), Some(StoreProblem::Unlocked));
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
