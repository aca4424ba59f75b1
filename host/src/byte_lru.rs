//! A table with a limit on the bytes of its entries. It evicts the least recently used entry first.

use std::borrow::Borrow;
use std::hash::Hash;

use lru::LruCache;

pub struct ByteLru<K: Hash + Eq, V> {
    entries: LruCache<K, V>,
    /// The bytes of an entry, which must not change while the table holds it.
    size: fn(&K, &V) -> usize,
    bytes: usize,
    /// The most bytes of all entries together.
    capacity: usize,
}

impl<K: Hash + Eq, V> ByteLru<K, V> {
    pub fn new(capacity: usize, size: fn(&K, &V) -> usize) -> Self {
        Self { entries: LruCache::unbounded(), size, bytes: 0, capacity }
    }

    /// Looks an entry up, which counts as a use.
    pub fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key)
    }

    /// Inserts or replaces an entry, and evicts others until all fit.
    pub fn insert(&mut self, key: K, value: V) {
        self.bytes += (self.size)(&key, &value);
        if let Some((key, replaced)) = self.entries.push(key, value) {
            self.bytes = self.bytes.saturating_sub((self.size)(&key, &replaced));
        }
        while self.bytes > self.capacity
            && let Some((key, oldest)) = self.entries.pop_lru()
        {
            self.bytes = self.bytes.saturating_sub((self.size)(&key, &oldest));
        }
    }

    /// Removes the least recently used entries, up to the first useful one and at most `count`.
    pub fn remove_oldest(&mut self, count: usize, is_of_use: impl Fn(&V) -> bool) {
        for _ in 0..count {
            if self.entries.peek_lru().is_none_or(|(_, oldest)| is_of_use(oldest)) {
                return;
            }
            if let Some((key, oldest)) = self.entries.pop_lru() {
                self.bytes = self.bytes.saturating_sub((self.size)(&key, &oldest));
            }
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
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
        let mut table = table();
        (0..10).for_each(|key| table.insert(key, vec![0; 10]));
        table.insert(0, vec![0; 10]);
        assert_eq!((table.len(), table.bytes()), (10, 100), "replacing takes no more room");
        table.get(&1);
        table.insert(10, vec![0; 15]);
        assert!(table.get(&1).is_some() && table.get(&0).is_some() && table.get(&10).is_some());
        assert!(table.get(&2).is_none() && table.get(&3).is_none());
        assert_eq!(table.bytes(), 95);
    }

    #[test]
    fn the_oldest_entries_are_removed_up_to_the_first_that_is_of_use() {
        let mut table = table();
        (1..=4).for_each(|size| table.insert(size, vec![0; usize::from(size)]));
        table.get(&1);
        table.remove_oldest(1, |value| value.len() > 3);
        assert_eq!((table.len(), table.bytes()), (3, 8));
        table.remove_oldest(9, |value| value.len() > 3);
        assert_eq!((table.len(), table.bytes()), (2, 5), "one that was used is behind one that is of use");
        table.remove_oldest(9, |_| false);
        assert_eq!((table.len(), table.bytes()), (0, 0));
    }

    #[test]
    fn an_entry_that_does_not_fit_leaves_an_empty_table() {
        let mut table = table();
        table.insert(1, vec![0; 10]);
        table.insert(2, vec![0; 101]);
        assert_eq!((table.len(), table.bytes()), (0, 0));
    }
}
