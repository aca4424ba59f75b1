//! The number of the last commit that changed a key. With it, a cache finds out whether a value is still current.
//!
//! The store's commits are numbered. A table of fixed size has a bucket for each hash of a key. The bucket has the
//! number of the last commit that changed a key of this hash. The committing thread updates the table before readers
//! can see the commit. The commit is finished once readers can see it, and before the requests that wrote it continue.
//!
//! - Before a cache reads, it takes the number of the last finished commit. If the buckets of the keys later have no
//!   higher number, no reader can have seen a newer commit of these keys. So a read would still find the cached value.
//!   A commit that has begun counts: another reader may have seen it, and a client may have got a response from it.
//! - If two keys share a bucket, a change of one also invalidates cached values of the other.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use super::backend::Key;

/// A power of two. The table has 512 KiB. At 1,000 writes a second, a cached response that read 8 keys is invalidated
/// needlessly once in 8 seconds.
const BUCKETS: usize = 1 << 16;

/// The bucket of a key in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionBucket(u16);

/// The commits of a store, by the keys that they changed. One thread commits at a time; any thread may read.
pub struct ChangeClock {
    /// The number of the last commit that has begun.
    begun: AtomicU64,
    /// The number of the last commit that is finished.
    finished: AtomicU64,
    buckets: Box<[AtomicU64]>,
    /// Randomly seeded, so that a client cannot choose keys with the same hash.
    hasher: RandomState,
}

impl Default for ChangeClock {
    fn default() -> Self {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self { begun: AtomicU64::new(0), finished: AtomicU64::new(0), buckets, hasher: RandomState::new() }
    }
}

impl ChangeClock {
    pub fn bucket(&self, key: &Key) -> VersionBucket {
        VersionBucket(self.hasher.hash_one((&*key.store, &*key.key)) as u16)
    }

    /// The number of the last finished commit. Take it before the first read.
    pub fn now(&self) -> u64 {
        self.finished.load(Ordering::SeqCst)
    }

    /// Call this before readers can see the next commit. Even if the commit fails, the keys count as changed.
    pub fn begin_commit(&self, changed: &[VersionBucket]) {
        let number = self.begun.load(Ordering::SeqCst) + 1;
        for bucket in changed {
            if let Some(last) = self.buckets.get(usize::from(bucket.0)) {
                last.store(number, Ordering::SeqCst);
            }
        }
        // Stored after the buckets: a thread that sees this number sees them too.
        self.begun.store(number, Ordering::SeqCst);
    }

    /// Call this once every reader can see the commit and before the requests that wrote it continue, or once the
    /// commit has failed.
    pub fn end_commit(&self) {
        self.finished.store(self.begun.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Counts every key as changed: the store may have lost values that were read so far.
    pub fn invalidate_all(&self) {
        let number = self.begun.load(Ordering::SeqCst) + 1;
        self.buckets.iter().for_each(|last| last.store(number, Ordering::SeqCst));
        self.begun.store(number, Ordering::SeqCst);
        self.end_commit();
    }

    /// Whether no commit after `number`, finished or begun, changed a key of these buckets.
    pub fn are_unchanged_since(&self, number: u64, buckets: &[VersionBucket]) -> bool {
        // Without a newer commit, no look-up is needed.
        self.begun.load(Ordering::SeqCst) == number
            || buckets.iter().all(|bucket| self.is_unchanged_since(number, *bucket))
    }

    /// Whether no commit after `number`, finished or begun, changed a key of this bucket.
    pub fn is_unchanged_since(&self, number: u64, bucket: VersionBucket) -> bool {
        let last = self.buckets.get(usize::from(bucket.0));
        last.is_some_and(|last| last.load(Ordering::SeqCst) <= number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn key(key: &str) -> Key {
        Key { store: Arc::from("default"), key: Arc::from(key) }
    }

    #[test]
    fn a_commit_changes_its_keys_and_no_others() {
        let clock = ChangeClock::default();
        // With so few keys, some have a bucket of their own for every seed of the hasher.
        let buckets: Vec<VersionBucket> = (0..64).map(|n| clock.bucket(&key(&n.to_string()))).collect();
        let before = clock.now();
        assert!(clock.are_unchanged_since(before, &buckets));
        clock.begin_commit(&buckets[..1]);
        clock.end_commit();
        assert!(!clock.are_unchanged_since(before, &buckets));
        assert!(clock.are_unchanged_since(clock.now(), &buckets));
        let others: Vec<VersionBucket> = buckets.iter().copied().filter(|bucket| *bucket != buckets[0]).collect();
        assert!(!others.is_empty() && clock.are_unchanged_since(before, &others));
    }

    #[test]
    fn a_commit_that_others_may_have_seen_already_counts() {
        let clock = ChangeClock::default();
        let buckets = [clock.bucket(&key("a"))];
        let before = clock.now();
        clock.begin_commit(&buckets);
        // From here on, a reader on another shard may see the commit and use it in a response.
        assert!(!clock.are_unchanged_since(before, &buckets), "a cached response would show the state before");
        // A value that is read meanwhile may be of either state.
        assert_eq!(clock.now(), before);
        clock.end_commit();
        assert!(!clock.are_unchanged_since(before, &buckets));
        assert!(clock.are_unchanged_since(clock.now(), &buckets));
    }

    #[test]
    fn a_failed_commit_has_a_number_of_its_own() {
        let clock = ChangeClock::default();
        let (failed, next) = ([clock.bucket(&key("a"))], [clock.bucket(&key("b"))]);
        clock.begin_commit(&failed);
        clock.end_commit();
        let between = clock.now();
        clock.begin_commit(&next);
        assert!(!clock.are_unchanged_since(between, &next));
        clock.end_commit();
        assert!(clock.are_unchanged_since(clock.now(), &next));
    }

    #[test]
    fn after_a_loss_every_key_has_changed() {
        let clock = ChangeClock::default();
        let buckets = [clock.bucket(&key("a"))];
        let before = clock.now();
        clock.invalidate_all();
        assert!(!clock.are_unchanged_since(before, &buckets));
        assert!(clock.are_unchanged_since(clock.now(), &buckets));
    }

    #[test]
    fn the_store_is_a_part_of_the_key() {
        let clock = ChangeClock::default();
        let same = (0..64).filter(|n| {
            let mine = key(&n.to_string());
            let other = Key { store: Arc::from("other"), ..mine.clone() };
            clock.bucket(&mine) == clock.bucket(&other)
        });
        assert!(same.count() < 64);
    }
}
