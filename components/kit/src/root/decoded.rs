//! A cache of decoded roots in an instance.

use crate::env::Env;
use crate::lru::ByteLru;
use crate::store::StoreError;
use std::rc::Rc;

/// The most bytes of values of one type that an instance caches.
const CAPACITY: usize = 4 * 1024 * 1024;

/// The estimated bytes in memory for each stored byte: the decoded value and the stored byte.
const SIZE_PER_BYTE: usize = 4;

/// The size of an entry beyond its bytes and its value, in bytes.
const OVERHEAD: usize = 256;

struct DecodedValue<T> {
    bytes: Vec<u8>,
    value: Rc<T>,
}

/// The cached values of one type, by key.
struct DecodedCache<T>(ByteLru<String, Rc<DecodedValue<T>>>);

/// The value of these bytes of `key`, from the cache or else by `decode`.
pub fn get_or_decode<T: 'static>(
    env: &Env,
    key: &str,
    bytes: Vec<u8>,
    decode: impl FnOnce(&[u8]) -> Result<T, StoreError>,
) -> Result<Rc<T>, StoreError> {
    let cache = env.instance_cache.get::<DecodedCache<T>>().unwrap_or_else(|| {
        let cache = Rc::new(DecodedCache(ByteLru::new(CAPACITY)));
        env.instance_cache.put(cache.clone());
        cache
    });
    if let Some(cached) = cache.0.get(key).filter(|cached| cached.bytes == bytes) {
        return Ok(cached.value.clone());
    }
    let value = Rc::new(decode(&bytes)?);
    let size = bytes.len() * SIZE_PER_BYTE + key.len() + OVERHEAD;
    cache.0.put(key.to_owned(), size, Rc::new(DecodedValue { bytes, value: value.clone() }));
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MemoryStore, env};
    use std::cell::Cell;

    #[test]
    fn the_same_bytes_of_a_key_are_decoded_once() {
        let env = env(MemoryStore::default(), &[]);
        let decodings = Cell::new(0);
        let get = |key: &str, bytes: &str| {
            let decoded = get_or_decode(&env, key, bytes.as_bytes().to_vec(), |bytes| {
                decodings.set(decodings.get() + 1);
                Ok(bytes.len())
            });
            (*decoded.unwrap(), decodings.get())
        };
        assert_eq!((get("a", "1"), get("a", "1")), ((1, 1), (1, 1)));
        assert_eq!(get("a", "22"), (2, 2), "it has changed");
        assert_eq!((get("a", "1"), get("b", "1")), ((1, 3), (1, 4)), "one value for each key");
    }

    #[test]
    fn a_value_that_cannot_be_decoded_is_not_cached() {
        let env = env(MemoryStore::default(), &[]);
        let failed = get_or_decode::<u8>(&env, "a", vec![1], |_| Err(StoreError::corrupt("a", "why")));
        assert!(failed.is_err());
        assert_eq!(get_or_decode::<u8>(&env, "a", vec![1], |_| Ok(7)).as_deref(), Ok(&7));
    }
}
