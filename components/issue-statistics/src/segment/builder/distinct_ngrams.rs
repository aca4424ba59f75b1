//! About how many different n-grams the terms of a batch have: a bit for each hash.

use crate::text::Ngram;

/// As many bits as make the count of [`super::MAX_NGRAMS`] about a tenth too low.
const BITS: u32 = 20;

#[derive(Default)]
pub struct DistinctNgrams {
    seen: Vec<u64>,
    count: u32,
}

impl DistinctNgrams {
    #[inline]
    pub fn add(&mut self, ngram: Ngram) {
        if self.seen.is_empty() {
            self.seen = vec![0; 1 << (BITS - 6)];
        }
        let hash = ngram.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS);
        if let Some(word) = self.seen.get_mut((hash / 64) as usize) {
            let bit = 1 << (hash % 64);
            self.count += u32::from(*word & bit == 0);
            *word |= bit;
        }
    }

    pub fn count(&self) -> u32 {
        self.count
    }
}
