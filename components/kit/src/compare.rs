//! The order of byte strings, eight bytes at a time.

use std::cmp::Ordering;

const WORD: usize = size_of::<u64>();

/// The order of two byte strings of equal length, by their first different byte. It must not compare slices or arrays,
/// because that calls `memcmp`, which in a component is this function.
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (a_words, a_rest) = a.as_chunks::<WORD>();
    let (b_words, b_rest) = b.as_chunks::<WORD>();
    for (a, b) in a_words.iter().zip(b_words) {
        if u64::from_ne_bytes(*a) != u64::from_ne_bytes(*b) {
            return u64::from_be_bytes(*a).cmp(&u64::from_be_bytes(*b));
        }
    }
    // The last eight bytes overlap with words that are equal.
    if let (false, Some(a), Some(b)) = (a_rest.is_empty(), a.last_chunk::<WORD>(), b.last_chunk::<WORD>()) {
        return u64::from_be_bytes(*a).cmp(&u64::from_be_bytes(*b));
    }
    for (a, b) in a_rest.iter().zip(b_rest) {
        if a != b {
            return a.cmp(b);
        }
    }
    Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_that_differs_decides_wherever_it_is() {
        for length in 0..70 {
            let a: Vec<u8> = (0..length).map(|n: u8| n.wrapping_mul(7) ^ 0x55).collect();
            assert_eq!(compare(&a, &a.clone()), Ordering::Equal, "{length}");
            for first in 0..a.len() {
                for (byte, later) in [(0, 255), (255, 0), (a[first] ^ 0x80, 0), (a[first] ^ 1, 255)] {
                    let mut b = a.clone();
                    b[first] = byte;
                    b[first + 1..].fill(later);
                    assert_eq!(compare(&a, &b), a.cmp(&b), "{a:?} {b:?}");
                    assert_eq!(compare(&b, &a), b.cmp(&a), "{b:?} {a:?}");
                }
            }
        }
    }
}
