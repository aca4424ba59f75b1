//! An LRU cache that is bounded by the bytes of its entries.

use ::lru::LruCache;
use std::borrow::Borrow;
use std::cell::RefCell;
use std::hash::Hash;

/// A cache that is bounded by the sum of its entries' sizes. Values are cheap to clone (`Rc`, `Bytes`).
pub struct ByteLru<K, V> {
    capacity: usize,
    inner: RefCell<Inner<K, V>>,
}

struct Inner<K, V> {
    /// The sum of the sizes.
    size: usize,
    /// Each value with its size.
    entries: LruCache<K, (usize, V)>,
}

impl<K: Hash + Eq, V: Clone> ByteLru<K, V> {
    /// An empty cache of `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        ByteLru { capacity, inner: RefCell::new(Inner { size: 0, entries: LruCache::unbounded() }) }
    }

    /// The value under `key`, which becomes the most recently used one.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.inner.borrow_mut().entries.get(key).map(|(_, value)| value.clone())
    }

    /// Caches a value of `size` bytes and evicts the least recently used values beyond the capacity. A value larger
    /// than half of the capacity is not cached, because it would evict most others.
    pub fn put(&self, key: K, size: usize, value: V) {
        if size > self.capacity / 2 {
            return;
        }
        let mut inner = self.inner.borrow_mut();
        inner.size += size;
        if let Some((_, (replaced, _))) = inner.entries.push(key, (size, value)) {
            inner.size -= replaced;
        }
        while inner.size > self.capacity {
            let Some((_, (oldest, _))) = inner.entries.pop_lru() else { break };
            inner.size -= oldest;
        }
    }

    /// Drops every entry.
    pub fn clear(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.entries.clear();
        inner.size = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(keys: &[&'static str]) -> ByteLru<&'static str, u32> {
        let cache = ByteLru::new(40);
        keys.iter().zip(0..).for_each(|(key, value)| cache.put(*key, 10, value));
        cache
    }

    #[test]
    fn stays_within_its_capacity_and_keeps_the_recently_used() {
        let cache = filled(&["a", "b", "c", "d"]);
        assert_eq!(cache.get("a"), Some(0));
        cache.put("e", 10, 4);
        assert_eq!(cache.get("a"), Some(0), "recently used");
        assert_eq!(cache.get("b"), None, "least recently used");
    }

    #[test]
    fn a_value_that_would_evict_everything_is_not_kept() {
        let cache = filled(&["small"]);
        cache.put("large", 21, 1);
        assert_eq!((cache.get("small"), cache.get("large")), (Some(0), None));
    }

    #[test]
    fn replacing_a_value_does_not_count_it_twice() {
        let cache = filled(&["a"; 10]);
        cache.put("b", 10, 99);
        assert_eq!((cache.get("a"), cache.get("b")), (Some(9), Some(99)));
    }

    #[test]
    fn a_cleared_cache_has_its_whole_capacity() {
        let cache = filled(&["a", "b", "c", "d"]);
        cache.clear();
        assert_eq!(cache.get("a"), None);
        ["e", "f", "g", "h"].into_iter().for_each(|key| cache.put(key, 10, 0));
        assert_eq!(cache.get("e"), Some(0));
    }
}
