//! When which keys were changed last, so that who remembers an answer knows whether it still holds.
//!
//! The store's commits are numbered. A fixed table has, for each hash of a key, the number of the
//! last commit that changed a key of that hash. It is brought up to date before the commit can be
//! seen by readers, and the commit counts once it can, before anybody is told of it:
//!
//! - Whoever takes the number *before* reading, and finds no higher one at the keys that were read,
//!   has what a read at that moment would find, or what was there before a commit that nobody has
//!   been told of yet.
//! - Two keys of one hash cost an answer that would still hold, never the reverse.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use super::Key;

/// A power of two. At 1,000 writes in a second, an answer that rests on 8 keys is lost for nothing
/// in one of 8 seconds; the table has 512 KiB.
const PLACES: usize = 1 << 16;

/// The place of a key in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u16);

/// The commits of a store, by what they changed. One thread commits; any may ask.
pub struct Changes {
    commits: AtomicU64,
    last: Box<[AtomicU64]>,
    /// Secret, so that nobody can choose keys of one hash.
    hasher: RandomState,
}

impl Default for Changes {
    fn default() -> Self {
        let last = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Self { commits: AtomicU64::new(0), last, hasher: RandomState::new() }
    }
}

impl Changes {
    pub fn place(&self, key: &Key) -> Place {
        // The low bits of a good hash are as good as any.
        Place(self.hasher.hash_one((&*key.store, &*key.key)) as u16)
    }

    /// The number of the last commit. To be taken before the first read.
    pub fn now(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// The next commit is about to be seen by readers. If it fails, what was read of these keys
    /// counts as changed all the same.
    pub fn committing(&self, changed: &[Place]) {
        self.mark(changed, self.now() + 1);
    }

    /// A commit can be seen by every reader; nobody has been told.
    pub fn committed(&self, changed: &[Place]) {
        let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        self.mark(changed, number);
    }

    fn mark(&self, changed: &[Place], number: u64) {
        for place in changed {
            if let Some(last) = self.last.get(usize::from(place.0)) {
                last.store(number, Ordering::SeqCst);
            }
        }
    }

    /// Whether no commit after `number` that anybody has been told of changed one of these.
    pub fn unchanged_since(&self, number: u64, places: &[Place]) -> bool {
        // Without any commit there is nothing to look up.
        self.now() == number || places.iter().all(|place| self.untouched_since(number, *place))
    }

    /// Whether no commit after `number` that anybody can have seen changed this.
    pub fn untouched_since(&self, number: u64, place: Place) -> bool {
        let last = self.last.get(usize::from(place.0));
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
        let changes = Changes::default();
        // Of so few keys, some have places of their own, whatever the secret.
        let places: Vec<Place> = (0..64).map(|n| changes.place(&key(&n.to_string()))).collect();
        let before = changes.now();
        assert!(changes.unchanged_since(before, &places));
        changes.committed(&places[..1]);
        assert!(!changes.unchanged_since(before, &places));
        assert!(changes.unchanged_since(changes.now(), &places));
        let others: Vec<Place> = places.iter().copied().filter(|place| *place != places[0]).collect();
        assert!(!others.is_empty() && changes.unchanged_since(before, &others));
    }

    #[test]
    fn the_store_is_a_part_of_the_key() {
        let changes = Changes::default();
        let same = (0..64).filter(|n| {
            let mine = key(&n.to_string());
            let other = Key { store: Arc::from("other"), ..mine.clone() };
            changes.place(&mine) == changes.place(&other)
        });
        assert!(same.count() < 64);
    }
}
