//! A table with a limit on the bytes of its entries. It evicts the least recently used entry first.

use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

pub struct ByteLru<K: Hash + Eq, V> {
    table: Mutex<Table<K, V>>,
    /// The bytes of an entry, which must not change while the table holds it.
    size: fn(&K, &V) -> usize,
    /// The most bytes of all entries together.
    capacity: usize,
}

struct Table<K: Hash + Eq, V> {
    entries: LruCache<K, V>,
    bytes: usize,
}

impl<K: Hash + Eq, V> ByteLru<K, V> {
    pub fn new(capacity: usize, size: fn(&K, &V) -> usize) -> Self {
        Self { table: Mutex::new(Table { entries: LruCache::unbounded(), bytes: 0 }), size, capacity }
    }

    /// Reads an entry, which counts as a use.
    pub fn get<R>(&self, key: &K, read: impl FnOnce(&V) -> R) -> Option<R> {
        self.table().entries.get(key).map(read)
    }

    /// Inserts or replaces an entry, and evicts others until all fit.
    pub fn insert(&self, key: K, value: V) {
        let mut table = self.table();
        table.bytes += (self.size)(&key, &value);
        if let Some((key, replaced)) = table.entries.push(key, value) {
            table.bytes = table.bytes.saturating_sub((self.size)(&key, &replaced));
        }
        while table.bytes > self.capacity && self.remove_one(&mut table) {}
    }

    /// Removes the least recently used entries, up to the first useful one and at most `count`.
    pub fn remove_oldest(&self, count: usize, is_of_use: impl Fn(&V) -> bool) {
        let mut table = self.table();
        for _ in 0..count {
            if table.entries.peek_lru().is_some_and(|(_, oldest)| is_of_use(oldest)) || !self.remove_one(&mut table) {
                return;
            }
        }
    }

    /// How many entries there are, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        let table = self.table();
        (table.entries.len(), table.bytes)
    }

    /// Removes the least recently used entry. False if the table is empty.
    fn remove_one(&self, table: &mut Table<K, V>) -> bool {
        let Some((key, oldest)) = table.entries.pop_lru() else { return false };
        table.bytes = table.bytes.saturating_sub((self.size)(&key, &oldest));
        true
    }

    fn table(&self) -> MutexGuard<'_, Table<K, V>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> ByteLru<u8, Vec<u8>> {
        ByteLru::new(100, |_, value| value.len())
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted_first() {
        let table = table();
        let has = |key| table.get(&key, |_| ()).is_some();
        (0..10).for_each(|key| table.insert(key, vec![0; 10]));
        table.insert(0, vec![0; 10]);
        assert_eq!(table.size(), (10, 100), "replacing takes no more room");
        assert!(has(1));
        table.insert(10, vec![0; 15]);
        assert!(has(1) && has(0) && has(10));
        assert!(!has(2) && !has(3));
        assert_eq!(table.size().1, 95);
    }

    #[test]
    fn the_oldest_entries_are_removed_up_to_the_first_that_is_of_use() {
        let table = table();
        (1..=4).for_each(|size| table.insert(size, vec![0; usize::from(size)]));
        table.get(&1, |_| ());
        table.remove_oldest(1, |value| value.len() > 3);
        assert_eq!(table.size(), (3, 8));
        table.remove_oldest(9, |value| value.len() > 3);
        assert_eq!(table.size(), (2, 5), "one that was used is behind one that is of use");
        table.remove_oldest(9, |_| false);
        assert_eq!(table.size(), (0, 0));
    }

    #[test]
    fn an_entry_that_does_not_fit_leaves_an_empty_table() {
        let table = table();
        table.insert(1, vec![0; 10]);
        table.insert(2, vec![0; 101]);
        assert_eq!(table.size(), (0, 0));
    }
}
