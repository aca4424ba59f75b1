//! A map of shared values that live while they are used.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Below this number of entries, the map does not look for unused ones.
const MIN_ENTRIES: usize = 64;

/// Values by key. An unused value may stay for a while, so that the next user need not make it. The map has at most
/// `MIN_ENTRIES` entries, or twice as many as were in use at the last clean-up.
#[derive(Debug)]
pub struct SharedMap<K, V>(Mutex<Entries<K, V>>);

#[derive(Debug)]
struct Entries<K, V> {
    values: HashMap<K, Arc<V>>,
    /// At this number of entries, the map removes the unused ones.
    full_at: usize,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Entries { values: HashMap::new(), full_at: MIN_ENTRIES }))
    }
}

impl<K: Eq + Hash, V> SharedMap<K, V> {
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values.get(key).cloned()
    }

    /// The value of `key`, made by `make` if the map has none.
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> Arc<V> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Entries { values, full_at } = &mut *entries;
        if values.len() >= *full_at && !values.contains_key(&key) {
            values.retain(|_, value| Arc::strong_count(value) > 1);
            *full_at = MIN_ENTRIES.max(2 * values.len());
        }
        values.entry(key).or_insert_with(|| Arc::new(make())).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_a_key_share_its_value_and_unused_ones_are_removed() {
        let map = SharedMap::default();
        let used = map.get_or_insert_with(0, || 0);
        for key in 1..10_000 {
            map.get_or_insert_with(key, || key);
        }
        assert!(Arc::ptr_eq(&used, &map.get_or_insert_with(0, || 1)));
        assert!(map.0.lock().unwrap().values.len() <= MIN_ENTRIES);
    }
}
