//! Sets of documents. In memory they are roaring bitmaps, or plain bits where many small sets are
//! united; stored they are differences between neighbours, or plain bits where that is smaller.
//!
//! A stored set is `0`, then the numbers ascending, each as its difference from the one before; or
//! `1`, then a bit for each number from 0 on, the lowest bit of a byte first.

use crate::varint::{self, Reader};
use roaring::RoaringBitmap;

const LIST: u8 = 0;
const BITS: u8 = 1;

/// Appends the set of the ascending `numbers`.
pub fn put(into: &mut Vec<u8>, numbers: &[u32]) {
    let Some(last) = numbers.last() else {
        into.push(LIST);
        return;
    };
    let bits = (*last as usize / 64 + 1) * 8;
    let before = into.len();
    // A number takes a byte at least.
    if numbers.len() <= bits {
        into.push(LIST);
        let mut previous = 0;
        for number in numbers {
            varint::put(into, u64::from(number - previous));
            previous = *number;
        }
        if into.len() - before <= bits {
            return;
        }
        into.truncate(before);
    }
    let mut words = Bits::new(last + 1);
    numbers.iter().for_each(|number| words.insert(*number));
    words.put(into);
}

/// The stored form of a bitmap.
pub fn put_bitmap(into: &mut Vec<u8>, set: &RoaringBitmap) {
    put(into, &set.iter().collect::<Vec<u32>>());
}

/// Calls `each` for every number of a stored set, ascending; `None` if it is damaged.
#[inline]
pub fn for_each(stored: &[u8], mut each: impl FnMut(u32)) -> Option<()> {
    let (form, rest) = stored.split_first()?;
    let mut rest = Reader(rest);
    if *form == LIST {
        let mut number = 0_u32;
        while !rest.is_empty() {
            number = number.checked_add(rest.small()?)?;
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

/// A stored set as a bitmap.
pub fn bitmap(stored: &[u8]) -> Option<RoaringBitmap> {
    let (form, rest) = stored.split_first()?;
    if *form == BITS {
        u32::try_from(rest.len()).ok()?.checked_mul(8)?;
        return Some(RoaringBitmap::from_lsb0_bytes(0, rest));
    }
    let mut numbers = Vec::with_capacity(rest.len());
    for_each(stored, |number| numbers.push(number))?;
    // Ascending as they are put; damaged bytes may repeat one.
    Some(RoaringBitmap::from_sorted_iter(numbers.iter().copied()).unwrap_or_else(|_| numbers.iter().collect()))
}

fn little_endian(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(word)
}

/// A bit for each number below some bound: the quick way to unite many sets.
pub struct Bits(Vec<u64>);

impl Bits {
    /// No number, for numbers below `end`.
    pub fn new(end: u32) -> Self {
        Bits(vec![0; (end as usize).div_ceil(64)])
    }

    /// Numbers that are too large are left out.
    #[inline]
    pub fn insert(&mut self, number: u32) {
        if let Some(word) = self.0.get_mut((number / 64) as usize) {
            *word |= 1 << (number % 64);
        }
    }

    /// Adds a stored set; `None` if it is damaged.
    pub fn unite(&mut self, stored: &[u8]) -> Option<()> {
        match stored.split_first()? {
            (&BITS, bits) => {
                self.0.iter_mut().zip(bits.chunks(8)).for_each(|(word, other)| *word |= little_endian(other));
                Some(())
            }
            _ => for_each(stored, |number| self.insert(number)),
        }
    }

    /// Adds a stored set, each of its numbers `by` higher; `None` if it is damaged.
    pub fn unite_shifted(&mut self, stored: &[u8], by: u32) -> Option<()> {
        let (&BITS, bits) = stored.split_first()? else {
            return for_each(stored, |number| self.insert(number.saturating_add(by)));
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

    /// Takes away what `other` has.
    pub fn subtract(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= !other);
    }

    /// Keeps what `other` has, too.
    pub fn intersect(&mut self, other: &Bits) {
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

    /// Parts of `size` numbers, each from 0; `size` is a multiple of 64.
    pub fn parts(&self, size: u32) -> impl Iterator<Item = Bits> {
        self.0.chunks((size / 64).max(1) as usize).map(|words| Bits(words.to_vec()))
    }

    /// Appends the stored form, or that as differences if it is smaller.
    pub fn put_smaller(&self, into: &mut Vec<u8>) {
        let most = 1 + self.0.iter().rposition(|word| *word != 0).map_or(0, |last| (last + 1) * 8);
        let count: usize = self.0.iter().map(|word| word.count_ones() as usize).sum();
        if count >= most {
            return self.put(into);
        }
        let before = into.len();
        into.push(LIST);
        let mut previous = 0;
        self.for_each(|number| {
            varint::put(into, u64::from(number - previous));
            previous = number;
        });
        if into.len() - before > most {
            into.truncate(before);
            self.put(into);
        }
    }

    /// Appends the stored form.
    pub fn put(&self, into: &mut Vec<u8>) {
        into.push(BITS);
        self.put_bytes(into);
    }

    pub fn bitmap(&self) -> RoaringBitmap {
        let mut bytes = Vec::new();
        self.put_bytes(&mut bytes);
        RoaringBitmap::from_lsb0_bytes(0, &bytes)
    }

    fn put_bytes(&self, into: &mut Vec<u8>) {
        let used = self.0.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        into.reserve(used * 8);
        self.0.iter().take(used).for_each(|word| into.extend_from_slice(&word.to_le_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(stored: &[u8]) -> Vec<u32> {
        let mut numbers = Vec::new();
        for_each(stored, |number| numbers.push(number)).unwrap();
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
    fn every_form_gives_back_what_was_put() {
        for sample in samples() {
            let mut stored = Vec::new();
            put(&mut stored, &sample);
            assert_eq!(numbers(&stored), sample);
            let set = bitmap(&stored).unwrap();
            assert_eq!(set.iter().collect::<Vec<u32>>(), sample);
            let mut again = Vec::new();
            put_bitmap(&mut again, &set);
            assert_eq!(again, stored);
        }
    }

    #[test]
    fn the_smaller_form_is_taken() {
        let size = |sample: &[u32]| {
            let mut stored = Vec::new();
            put(&mut stored, sample);
            stored.len()
        };
        assert!(size(&(0..8000).collect::<Vec<_>>()) < 1010);
        assert!(size(&(0..800_000).step_by(100).collect::<Vec<_>>()) < 8010);
        assert!(size(&[12_345]) < 4);
    }

    #[test]
    fn bits_unite_every_form() {
        let mut bits = Bits::new(100_000);
        let mut all = RoaringBitmap::new();
        for sample in samples() {
            let sample: Vec<u32> = sample.into_iter().filter(|number| *number < 100_000).collect();
            let mut stored = Vec::new();
            put(&mut stored, &sample);
            bits.unite(&stored).unwrap();
            all.extend(sample);
        }
        assert_eq!(bits.bitmap(), all);
        let mut stored = Vec::new();
        bits.put(&mut stored);
        assert_eq!(bitmap(&stored).unwrap(), all);
        let mut less = Bits::new(100_000);
        less.insert(1001);
        bits.subtract(&less);
        all.remove(1001);
        assert_eq!(bits.bitmap(), all);
        let mut numbers = Vec::new();
        bits.for_each(|number| numbers.push(number));
        assert_eq!(numbers, all.iter().collect::<Vec<u32>>());
        let mut some = Bits::new(100_000);
        [7, 9, 1001].into_iter().for_each(|number| some.insert(number));
        bits.intersect(&some);
        assert_eq!(bits.bitmap(), [7, 9].into());
        bits.intersect(&less);
        assert!(bits.is_empty() && !some.is_empty());
    }

    #[test]
    fn parts_are_the_whole_in_the_smaller_form() {
        for step in [1, 3, 7, 9, 20, 1000] {
            let mut bits = Bits::new(1000);
            (0..1000).step_by(step).for_each(|number| bits.insert(number));
            let mut all = Bits::new(1000);
            for (number, part) in (0..).zip(bits.parts(128)) {
                let (mut stored, mut smallest) = (Vec::new(), Vec::new());
                part.put_smaller(&mut stored);
                put(&mut smallest, &numbers(&stored));
                assert!(stored.len() <= smallest.len(), "{step}");
                all.unite_shifted(&stored, number * 128).unwrap();
            }
            assert_eq!(all.bitmap(), bits.bitmap(), "{step}");
        }
    }

    #[test]
    fn shifted_sets_are_those_with_higher_numbers() {
        for by in [0, 1, 63, 64, 65, 1000, 99_999] {
            for sample in samples() {
                let sample: Vec<u32> = sample.into_iter().filter(|number| *number < 100_000).collect();
                let mut stored = Vec::new();
                put(&mut stored, &sample);
                let mut bits = Bits::new(200_000);
                bits.unite_shifted(&stored, by).unwrap();
                assert_eq!(bits.bitmap(), sample.iter().map(|number| number + by).collect(), "{by}");
            }
        }
    }

    #[test]
    fn numbers_that_are_too_large_are_left_out() {
        let mut bits = Bits::new(200);
        for number in [256, 5000, u32::MAX] {
            bits.insert(number);
        }
        assert!(bits.bitmap().is_empty());
    }

    #[test]
    fn damaged_sets_are_nothing() {
        assert!(bitmap(&[]).is_none() && bitmap(&[2, 1]).is_none());
        assert!(bitmap(&[0, 0x80]).is_none());
        assert!(bitmap(&[0, 0xff, 0xff, 0xff, 0xff, 0x0f, 1]).is_none());
    }
}
