//! Roots as an instance has decoded them.

use crate::env::Env;
use crate::lru::ByteLru;
use crate::store::StoreError;
use std::rc::Rc;

/// Upper bound of the values of one type that an instance keeps, in bytes.
const CAPACITY: usize = 4 * 1024 * 1024;

/// The bytes that a decoded value takes for each byte that it was decoded from, that byte included.
const SIZE_PER_BYTE: usize = 4;

/// The size of an entry beyond its bytes and its value, in bytes.
const OVERHEAD: usize = 256;

/// A value, and the bytes that it was decoded from.
struct DecodedValue<T> {
    bytes: Vec<u8>,
    value: Rc<T>,
}

/// The entries of one type, by their keys.
struct Decoded<T>(ByteLru<String, Rc<DecodedValue<T>>>);

/// The value of these bytes of `key`, which `decode` makes unless the instance has made it before.
pub fn get_or_decode<T: 'static>(
    env: &Env,
    key: &str,
    bytes: Vec<u8>,
    decode: impl FnOnce(&[u8]) -> Result<T, StoreError>,
) -> Result<Rc<T>, StoreError> {
    let decoded = env.instance_cache.get::<Decoded<T>>().unwrap_or_else(|| {
        let decoded = Rc::new(Decoded(ByteLru::new(CAPACITY)));
        env.instance_cache.put(decoded.clone());
        decoded
    });
    if let Some(known) = decoded.0.get(key).filter(|known| known.bytes == bytes) {
        return Ok(known.value.clone());
    }
    let value = Rc::new(decode(&bytes)?);
    let size = bytes.len() * SIZE_PER_BYTE + key.len() + OVERHEAD;
    decoded.0.put(key.to_owned(), size, Rc::new(DecodedValue { bytes, value: value.clone() }));
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
