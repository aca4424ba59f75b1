//! An approximate set of n-grams: one bit for each hash. It estimates their number, and it knows for sure that some
//! n-grams are absent.

use crate::text::Ngram;

/// The binary logarithm of the number of bits. A count of [`super::MAX_NGRAMS`] is then about a tenth too low.
const BITS: u32 = 20;

#[derive(Default)]
pub struct NgramFilter {
    seen: Vec<u64>,
    count: u32,
}

/// The index of the word that has the bit of an n-gram, and the bit in this word.
#[inline]
fn bit_of(ngram: Ngram) -> (usize, u64) {
    let hash = ngram.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS);
    ((hash / 64) as usize, 1 << (hash % 64))
}

impl NgramFilter {
    /// Adds an n-gram. True if it is certainly new.
    #[inline]
    pub fn insert(&mut self, ngram: Ngram) -> bool {
        if self.seen.is_empty() {
            self.seen = vec![0; 1 << (BITS - 6)];
        }
        let (word, bit) = bit_of(ngram);
        let Some(word) = self.seen.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        self.count += u32::from(is_new);
        *word |= bit;
        is_new
    }

    /// False if the n-gram was certainly not inserted.
    #[inline]
    pub fn may_contain(&self, ngram: Ngram) -> bool {
        let (word, bit) = bit_of(ngram);
        self.seen.get(word).is_some_and(|word| word & bit != 0)
    }

    /// The approximate number of n-grams that were inserted.
    pub fn count(&self) -> u32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_ngrams_are_counted_and_found() {
        let mut filter = NgramFilter::default();
        let ngram = |number: u64| number << 21 | number << 42 | 97;
        (0..100_000).chain(0..50_000).for_each(|number| _ = filter.insert(ngram(number)));
        assert!(!filter.insert(ngram(7)));
        assert!((90_000..=100_000).contains(&filter.count()), "{}", filter.count());
        assert!((0..100_000).all(|number| filter.may_contain(ngram(number))));
        let others = (100_000..200_000).filter(|number| filter.may_contain(ngram(*number))).count();
        assert!(others < 20_000, "{others}");
    }
}
