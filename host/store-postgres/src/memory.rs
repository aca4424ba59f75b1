//! The changes of all hosts that this host knows: the change clock, and the snapshot up to which the clock is complete.
//!
//! Every statement that reads returns its snapshot, and the keys that have changed since an earlier one
//! ([`sql`](super::sql)). Snapshots of one server are ordered, because a visible transaction stays visible. So, if the
//! clock does not name the keys of a cached value, a read in the last snapshot would find the same value.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hexad_store::{ChangeClock, Key, VersionBucket};
use tokio_postgres::{Error, Row};

/// Separates store and key in the texts of the column of changes.
const SEPARATOR: char = '\u{1}';

/// A snapshot as PostgreSQL prints it: `xmin:xmax:running,running`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub text: Arc<str>,
    next: u64,
    /// In ascending order.
    running: Vec<u64>,
}

impl Snapshot {
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (_, next, running) = (parts.next()?, parts.next()?, parts.next()?);
        let running = running.split(',').filter(|id| !id.is_empty()).map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { text: Arc::from(text), next: next.parse().ok()?, running })
    }

    /// Whether this snapshot sees more than another one of the same server.
    fn is_newer_than(&self, other: &Self) -> bool {
        // As long as no new transaction gets an id, fewer and fewer run.
        (self.next, other.running.len()) > (other.next, self.running.len())
    }

    /// Whether a transaction up to `id` may have ended between this snapshot and a `later` one. A transaction that
    /// still runs in `later`, of this or of another database, has not ended.
    fn may_have_missed(&self, id: u64, later: &Self) -> bool {
        let has_ended = |running: &u64| later.running.binary_search(running).is_err();
        self.next <= id || self.running.iter().any(|running| *running <= id && has_ended(running))
    }
}

/// The snapshot and the changes that a statement returns besides its result.
pub struct Observation<'a> {
    snapshot: Snapshot,
    /// Rows of changes up to this transaction may have been removed.
    pruned: u64,
    /// The number of the table `horizon`; `None` if the statement has not read it.
    pub table: Option<u32>,
    changes: Vec<&'a str>,
}

impl<'a> Observation<'a> {
    /// Reads the first three columns. `None` if this build cannot parse them.
    pub fn of(row: &'a Row) -> Result<Option<Self>, Error> {
        let snapshot = Snapshot::parse(row.try_get(0)?);
        let horizon: Option<&str> = row.try_get(1)?;
        let changes = row.try_get(2)?;
        let parsed = snapshot.zip(horizon.and_then(parse_horizon));
        Ok(parsed.map(|(snapshot, (pruned, table))| Self { snapshot, pruned, table, changes }))
    }

    /// The observation of a statement whose snapshot equals its base.
    pub fn nothing_new(snapshot: Snapshot) -> Self {
        Self { snapshot, pruned: 0, table: None, changes: Vec::new() }
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub fn into_snapshot(self) -> Snapshot {
        self.snapshot
    }
}

/// Parses `pruned/table`, or `0` of a statement that has not read the table.
fn parse_horizon(text: &str) -> Option<(u64, Option<u32>)> {
    match text.split_once('/') {
        Some((pruned, table)) => Some((pruned.parse().ok()?, Some(table.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

/// The change clock of a host, and the snapshot up to which it is complete.
#[derive(Default)]
pub struct Memory {
    clock: ChangeClock,
    /// Locked while the clock changes, so that its commits come one by one.
    chain: Mutex<Chain>,
    /// A defect for tests: cached values outlive the connections.
    #[cfg(test)]
    pub forgets_nothing: std::sync::atomic::AtomicBool,
}

#[derive(Default)]
struct Chain {
    /// `None` without a connection. Then no cached value is valid.
    current: Option<Current>,
}

struct Current {
    link: u64,
    snapshot: Snapshot,
    /// When the snapshot's statement was sent.
    began: Instant,
}

impl Memory {
    pub fn clock(&self) -> &ChangeClock {
        &self.clock
    }

    /// Begins with the first snapshot of a new connection set. All earlier cached values become invalid.
    pub fn begin(&self, link: u64, snapshot: Snapshot, began: Instant) {
        let mut chain = self.chain();
        self.forget();
        chain.current = Some(Current { link, snapshot, began });
    }

    /// The connections are lost, and the server may have lost cached values.
    pub fn end(&self) {
        let mut chain = self.chain();
        self.forget();
        chain.current = None;
    }

    fn forget(&self) {
        #[cfg(test)]
        if self.forgets_nothing.load(std::sync::atomic::Ordering::SeqCst) {
            return;
        }
        self.clock.invalidate_all();
    }

    /// The base snapshot of the next statement on this connection set. `None` if another set has replaced it.
    pub fn base(&self, link: u64) -> Option<Snapshot> {
        let chain = self.chain();
        chain.current.as_ref().filter(|current| current.link == link).map(|current| current.snapshot.clone())
    }

    /// Whether the last snapshot is younger than `limit`.
    pub fn is_younger_than(&self, limit: Duration) -> bool {
        self.chain().current.as_ref().is_some_and(|current| current.began.elapsed() < limit)
    }

    /// Records the observation of a statement that was sent at `began` with the base `base`. False if another
    /// connection set has replaced this one. The statement's result is then useless, because the memory may be of
    /// another server.
    pub fn observe(&self, link: u64, base: &Snapshot, observed: Observation<'_>, began: Instant) -> bool {
        let mut chain = self.chain();
        let Some(current) = chain.current.as_mut().filter(|current| current.link == link) else { return false };
        if base.may_have_missed(observed.pruned, &observed.snapshot) {
            // The changes may be incomplete.
            self.clock.invalidate_all();
        } else if !observed.changes.is_empty() {
            let buckets: Vec<VersionBucket> = observed.changes.iter().map(|change| self.bucket(change)).collect();
            self.clock.begin_commit(&buckets);
            self.clock.end_commit();
        }
        if !current.snapshot.is_newer_than(&observed.snapshot) {
            current.snapshot = observed.snapshot;
            current.began = current.began.max(began);
        }
        true
    }

    /// Records that this host has changed keys, or may have.
    pub fn record_own_changes<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) {
        let _chain = self.chain();
        let buckets: Vec<VersionBucket> = keys.into_iter().map(|key| self.clock.bucket(key)).collect();
        self.clock.begin_commit(&buckets);
        self.clock.end_commit();
    }

    fn bucket(&self, change: &str) -> VersionBucket {
        let (store, key) = change.split_once(SEPARATOR).unwrap_or((change, ""));
        self.clock.bucket(&Key { store: Arc::from(store), key: Arc::from(key) })
    }

    fn chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        Snapshot::parse(text).unwrap()
    }

    fn observation<'a>(text: &str, pruned: u64, changes: &[&'a str]) -> Observation<'a> {
        Observation { snapshot: snapshot(text), pruned, table: None, changes: changes.to_vec() }
    }

    fn key(name: &str) -> Key {
        Key { store: Arc::from("default"), key: Arc::from(name) }
    }

    #[test]
    fn snapshots_are_ordered_by_the_transactions_that_they_see() {
        let ordered = ["5:5:", "5:7:5,6", "5:7:5", "7:7:", "7:9:7,8"].map(snapshot);
        for pair in ordered.windows(2) {
            assert!(pair[1].is_newer_than(&pair[0]) && !pair[0].is_newer_than(&pair[1]), "{pair:?}");
        }
        assert!(!ordered[0].is_newer_than(&ordered[0]));
        assert!(Snapshot::parse("nonsense").is_none());
    }

    #[test]
    fn a_change_of_another_host_invalidates_its_key_only() {
        let (memory, began) = (Memory::default(), Instant::now());
        memory.begin(1, snapshot("5:5:"), began);
        let clock = memory.clock();
        let (before, changed) = (clock.now(), clock.bucket(&key("a")));
        let other = (0..64).map(|n| clock.bucket(&key(&n.to_string()))).find(|bucket| *bucket != changed).unwrap();
        let base = memory.base(1).unwrap();
        assert!(memory.observe(1, &base, observation("6:6:", 0, &["default\u{1}a"]), began));
        assert!(!clock.is_unchanged_since(before, changed) && clock.is_unchanged_since(before, other));
    }

    #[test]
    fn an_older_snapshot_that_arrives_late_does_not_turn_time_back() {
        let (memory, began) = (Memory::default(), Instant::now());
        memory.begin(1, snapshot("5:5:"), began);
        let base = memory.base(1).unwrap();
        assert!(memory.observe(1, &base, observation("9:9:", 0, &[]), began));
        assert!(memory.observe(1, &base, observation("6:6:", 0, &[]), began));
        assert_eq!(memory.base(1).unwrap(), snapshot("9:9:"));
    }

    #[test]
    fn incomplete_changes_and_lost_connections_invalidate_everything() {
        let (memory, began) = (Memory::default(), Instant::now());
        memory.begin(1, snapshot("5:5:"), began);
        let bucket = memory.clock().bucket(&key("a"));
        let before = memory.clock().now();
        let base = memory.base(1).unwrap();
        memory.observe(1, &base, observation("6:6:", 4, &[]), began);
        assert!(memory.clock().is_unchanged_since(before, bucket), "the pruned rows are older than the base");
        memory.observe(1, &base, observation("8:8:", 5, &[]), began);
        assert!(!memory.clock().is_unchanged_since(before, bucket));

        let before = memory.clock().now();
        memory.end();
        assert!(!memory.clock().is_unchanged_since(before, bucket) && memory.base(1).is_none());
        memory.begin(2, snapshot("3:3:"), began);
        assert!(!memory.observe(1, &base, observation("9:9:", 0, &[]), began), "a result of the lost link");
    }

    #[test]
    fn pruning_invalidates_memory_once_an_older_transaction_has_ended() {
        let (memory, began) = (Memory::default(), Instant::now());
        memory.begin(1, snapshot("3:9:3,8"), began);
        let bucket = memory.clock().bucket(&key("a"));
        let before = memory.clock().now();
        let base = memory.base(1).unwrap();
        memory.observe(1, &base, observation("3:10:3,9", 7, &[]), began);
        assert!(memory.clock().is_unchanged_since(before, bucket), "3 still runs, and 8 is not pruned");
        let base = memory.base(1).unwrap();
        memory.observe(1, &base, observation("9:10:9", 7, &[]), began);
        assert!(!memory.clock().is_unchanged_since(before, bucket), "3 has ended, and may have changed the key");
    }
}
