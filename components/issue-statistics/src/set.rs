//! Sets of numbers: documents, positions or blocks. In memory they are roaring bitmaps, or a [`Bitset`] to unite many
//! small sets. Encoded they are a list of deltas, or bits where bits are smaller.
//!
//! An encoded set of deltas is `0`, then the numbers ascending, each as its difference from the previous one. An
//! encoded set of bits is `1`, then a bit for each number from 0 on, the lowest bit of a byte first.

use crate::varint::{self, Reader};
use roaring::RoaringBitmap;

const DELTAS: u8 = 0;
const BITS: u8 = 1;

/// Appends the encoded set of the ascending `numbers`, in the smaller form.
pub fn encode(into: &mut Vec<u8>, numbers: &[u32]) {
    let Some(last) = numbers.last() else {
        into.push(DELTAS);
        return;
    };
    let bits = (*last as usize / 64 + 1) * 8;
    let before = into.len();
    // A delta takes at least one byte.
    if numbers.len() <= bits {
        into.push(DELTAS);
        let mut previous = 0;
        for number in numbers {
            varint::write(into, u64::from(number - previous));
            previous = *number;
        }
        if into.len() - before <= bits {
            return;
        }
        into.truncate(before);
    }
    let mut words = Bitset::new(last + 1);
    numbers.iter().for_each(|number| words.insert(*number));
    words.encode_bits(into);
}

pub fn encode_bitmap(into: &mut Vec<u8>, set: &RoaringBitmap) {
    encode(into, &set.iter().collect::<Vec<u32>>());
}

/// Calls `each` for every number of an encoded set, ascending. `None` if its bytes are damaged.
#[inline]
pub fn for_each(encoded: &[u8], mut each: impl FnMut(u32)) -> Option<()> {
    let (form, rest) = encoded.split_first()?;
    let mut rest = Reader(rest);
    if *form == DELTAS {
        let mut number = 0_u32;
        while !rest.is_empty() {
            number = number.checked_add(rest.u32()?)?;
            each(number);
        }
        return Some(());
    }
    if *form != BITS {
        return None;
    }
    let mut start = 0_u32;
    for word in rest.0.chunks(8) {
        let mut word = little_endian(word);
        while word != 0 {
            each(start.checked_add(word.trailing_zeros())?);
            word &= word - 1;
        }
        start = start.saturating_add(64);
    }
    Some(())
}

/// `None` if the bytes are damaged.
pub fn decode(encoded: &[u8]) -> Option<RoaringBitmap> {
    let (form, rest) = encoded.split_first()?;
    if *form == BITS {
        u32::try_from(rest.len()).ok()?.checked_mul(8)?;
        return Some(RoaringBitmap::from_lsb0_bytes(0, rest));
    }
    let mut numbers = Vec::with_capacity(rest.len());
    for_each(encoded, |number| numbers.push(number))?;
    // Encoded numbers ascend, but damaged bytes may repeat one.
    Some(RoaringBitmap::from_sorted_iter(numbers.iter().copied()).unwrap_or_else(|_| numbers.iter().collect()))
}

fn little_endian(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(word)
}

/// A bit for each number below a bound: the fastest way to unite many sets.
#[derive(PartialEq, Eq)]
pub struct Bitset(Vec<u64>);

impl Bitset {
    /// The empty set, for numbers below `end`.
    pub fn new(end: u32) -> Self {
        Bitset(vec![0; (end as usize).div_ceil(64)])
    }

    /// Adds a number. Numbers beyond the bound, rounded up to a multiple of 64, are ignored.
    #[inline]
    pub fn insert(&mut self, number: u32) {
        if let Some(word) = self.0.get_mut((number / 64) as usize) {
            *word |= 1 << (number % 64);
        }
    }

    pub fn contains(&self, number: u32) -> bool {
        self.0.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Adds an encoded set. `None` if its bytes are damaged.
    pub fn union_encoded(&mut self, encoded: &[u8]) -> Option<()> {
        match encoded.split_first()? {
            (&BITS, bits) => {
                self.0.iter_mut().zip(bits.chunks(8)).for_each(|(word, other)| *word |= little_endian(other));
                Some(())
            }
            _ => for_each(encoded, |number| self.insert(number)),
        }
    }

    /// Adds an encoded set with each number increased by `by`. `None` if its bytes are damaged.
    pub fn union_encoded_shifted(&mut self, encoded: &[u8], by: u32) -> Option<()> {
        let (&BITS, bits) = encoded.split_first()? else {
            return for_each(encoded, |number| self.insert(number.saturating_add(by)));
        };
        let words = self.0.get_mut((by / 64) as usize..).unwrap_or_default();
        let shift = by % 64;
        let mut carried = 0;
        for (word, other) in words.iter_mut().zip(bits.chunks(8).map(little_endian).chain([0])) {
            *word |= other << shift | carried;
            carried = other.checked_shr(64 - shift).unwrap_or(0);
        }
        Some(())
    }

    /// Removes the numbers of `other`.
    pub fn subtract(&mut self, other: &Bitset) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= !other);
    }

    /// Removes the numbers that `other` does not have.
    pub fn intersect(&mut self, other: &Bitset) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Calls `each` for every number, ascending.
    pub fn for_each(&self, mut each: impl FnMut(u32)) {
        for (start, word) in (0..).step_by(64).zip(&self.0) {
            let mut word = *word;
            while word != 0 {
                each(start + word.trailing_zeros());
                word &= word - 1;
            }
        }
    }

    /// Chunks of `size` numbers. The numbers of each chunk are counted from 0. `size` must be a multiple of 64.
    pub fn chunks(&self, size: u32) -> impl Iterator<Item = Bitset> {
        self.0.chunks((size / 64).max(1) as usize).map(|words| Bitset(words.to_vec()))
    }

    /// Appends the encoded set in the smaller form.
    pub fn encode_smallest(&self, into: &mut Vec<u8>) {
        let most = 1 + self.0.iter().rposition(|word| *word != 0).map_or(0, |last| (last + 1) * 8);
        let count: usize = self.0.iter().map(|word| word.count_ones() as usize).sum();
        if count >= most {
            return self.encode_bits(into);
        }
        let before = into.len();
        into.push(DELTAS);
        let mut previous = 0;
        self.for_each(|number| {
            varint::write(into, u64::from(number - previous));
            previous = number;
        });
        if into.len() - before > most {
            into.truncate(before);
            self.encode_bits(into);
        }
    }

    /// Appends the encoded set as bits.
    pub fn encode_bits(&self, into: &mut Vec<u8>) {
        into.push(BITS);
        self.append_bytes(into);
    }

    pub fn to_bitmap(&self) -> RoaringBitmap {
        let mut bytes = Vec::new();
        self.append_bytes(&mut bytes);
        RoaringBitmap::from_lsb0_bytes(0, &bytes)
    }

    fn append_bytes(&self, into: &mut Vec<u8>) {
        let used = self.0.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        into.reserve(used * 8);
        self.0.iter().take(used).for_each(|word| into.extend_from_slice(&word.to_le_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(encoded: &[u8]) -> Vec<u32> {
        let mut numbers = Vec::new();
        for_each(encoded, |number| numbers.push(number)).unwrap();
        numbers
    }

    fn samples() -> Vec<Vec<u32>> {
        vec![
            vec![],
            vec![0],
            vec![u32::MAX - 1000],
            vec![7, 8, 9, 100_000, 4_000_000_000],
            (1000..1100).collect(),
            (64..50_000).filter(|number| number % 3 != 0).collect(),
            (0..100_000).step_by(90).collect(),
        ]
    }

    #[test]
    fn decoding_gives_back_the_encoded_numbers() {
        for sample in samples() {
            let mut encoded = Vec::new();
            encode(&mut encoded, &sample);
            assert_eq!(numbers(&encoded), sample);
            let set = decode(&encoded).unwrap();
            assert_eq!(set.iter().collect::<Vec<u32>>(), sample);
            let mut again = Vec::new();
            encode_bitmap(&mut again, &set);
            assert_eq!(again, encoded);
        }
    }

    #[test]
    fn the_smaller_form_is_taken() {
        let size = |sample: &[u32]| {
            let mut encoded = Vec::new();
            encode(&mut encoded, sample);
            encoded.len()
        };
        assert!(size(&(0..8000).collect::<Vec<_>>()) < 1010);
        assert!(size(&(0..800_000).step_by(100).collect::<Vec<_>>()) < 8010);
        assert!(size(&[12_345]) < 4);
    }

    #[test]
    fn a_bitset_unites_both_forms() {
        let mut bits = Bitset::new(100_000);
        let mut all = RoaringBitmap::new();
        for sample in samples() {
            let sample: Vec<u32> = sample.into_iter().filter(|number| *number < 100_000).collect();
            let mut encoded = Vec::new();
            encode(&mut encoded, &sample);
            bits.union_encoded(&encoded).unwrap();
            all.extend(sample);
        }
        assert_eq!(bits.to_bitmap(), all);
        let mut encoded = Vec::new();
        bits.encode_bits(&mut encoded);
        assert_eq!(decode(&encoded).unwrap(), all);
        let mut less = Bitset::new(100_000);
        less.insert(1001);
        bits.subtract(&less);
        all.remove(1001);
        assert_eq!(bits.to_bitmap(), all);
        let mut numbers = Vec::new();
        bits.for_each(|number| numbers.push(number));
        assert_eq!(numbers, all.iter().collect::<Vec<u32>>());
        let mut some = Bitset::new(100_000);
        [7, 9, 1001].into_iter().for_each(|number| some.insert(number));
        bits.intersect(&some);
        assert_eq!(bits.to_bitmap(), [7, 9].into());
        assert!(bits.contains(7) && !bits.contains(8) && !bits.contains(u32::MAX));
        bits.intersect(&less);
        assert!(bits.is_empty() && !some.is_empty());
    }

    #[test]
    fn chunks_are_the_whole_set_in_the_smaller_form() {
        for step in [1, 3, 7, 9, 20, 1000] {
            let mut bits = Bitset::new(1000);
            (0..1000).step_by(step).for_each(|number| bits.insert(number));
            let mut all = Bitset::new(1000);
            for (number, part) in (0..).zip(bits.chunks(128)) {
                let (mut encoded, mut smallest) = (Vec::new(), Vec::new());
                part.encode_smallest(&mut encoded);
                encode(&mut smallest, &numbers(&encoded));
                assert!(encoded.len() <= smallest.len(), "{step}");
                all.union_encoded_shifted(&encoded, number * 128).unwrap();
            }
            assert_eq!(all.to_bitmap(), bits.to_bitmap(), "{step}");
        }
    }

    #[test]
    fn shifting_raises_every_number() {
        for by in [0, 1, 63, 64, 65, 1000, 99_999] {
            for sample in samples() {
                let sample: Vec<u32> = sample.into_iter().filter(|number| *number < 100_000).collect();
                let mut encoded = Vec::new();
                encode(&mut encoded, &sample);
                let mut bits = Bitset::new(200_000);
                bits.union_encoded_shifted(&encoded, by).unwrap();
                assert_eq!(bits.to_bitmap(), sample.iter().map(|number| number + by).collect(), "{by}");
            }
        }
    }

    #[test]
    fn numbers_beyond_the_bound_are_ignored() {
        let mut bits = Bitset::new(200);
        for number in [256, 5000, u32::MAX] {
            bits.insert(number);
        }
        assert!(bits.to_bitmap().is_empty());
    }

    #[test]
    fn damaged_sets_give_none() {
        assert!(decode(&[]).is_none() && decode(&[2, 1]).is_none());
        assert!(decode(&[0, 0x80]).is_none());
        assert!(decode(&[0, 0xff, 0xff, 0xff, 0xff, 0x0f, 1]).is_none());
    }
}
