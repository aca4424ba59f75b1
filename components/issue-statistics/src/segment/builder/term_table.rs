//! The terms of a batch, each with the ascending numbers of its occurrences: documents or positions. A term that occurs
//! once takes about 40 bytes and its text. Most terms of logs and hashes occur once.

use super::byte_pool::{Address, ByteList, BytePool};
use crate::varint;
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::Hasher as _;

/// Terms in a block. The list of terms grows block by block.
const BLOCK: usize = 4096;

/// The bytes of the hash table for each of its slots.
const SLOT_BYTES: usize = size_of::<u32>() + 1;

#[derive(Default)]
pub struct TermTable {
    pool: BytePool,
    terms: Vec<Vec<Term>>,
    /// The indexes of the terms, by text.
    numbers: HashTable<u32>,
}

struct Term {
    text: Address,
    length: u32,
    hash: u32,
    /// How many numbers the term has.
    count: u32,
    last: u32,
    /// The numbers as varints of their differences, starting at 0. Empty if the term has one number.
    encoded: ByteList,
}

impl TermTable {
    /// Bytes in use, including reserved ones.
    pub fn memory(&self) -> usize {
        self.pool.memory() + self.terms.len() * BLOCK * size_of::<Term>() + self.numbers.capacity() * SLOT_BYTES
    }

    pub fn len(&self) -> usize {
        self.terms.last().map_or(0, |last| (self.terms.len() - 1) * BLOCK + last.len())
    }

    fn term(&self, number: u32) -> Option<&Term> {
        self.terms.get(number as usize / BLOCK)?.get(number as usize % BLOCK)
    }

    pub fn text(&self, number: u32) -> &[u8] {
        self.term(number).map_or(&[], |term| self.pool.bytes(term.text, term.length as usize))
    }

    /// How many numbers the term has.
    pub fn count(&self, number: u32) -> u32 {
        self.term(number).map_or(0, |term| term.count)
    }

    /// The only number of a term; `None` if the term has several.
    pub fn only_number(&self, number: u32) -> Option<u32> {
        self.term(number).filter(|term| term.count == 1).map(|term| term.last)
    }

    /// Adds a number of a term. The number must not be below the last one. True if the term is new.
    #[inline]
    pub fn push(&mut self, text: &[u8], number: u32) -> bool {
        let hash = hash(text);
        match self.find(text, hash) {
            Some(term) => {
                self.push_to(term, number);
                false
            }
            None => {
                self.insert(text, hash, number);
                true
            }
        }
    }

    /// The same, but does not repeat the last number.
    pub fn push_once(&mut self, text: &[u8], number: u32) {
        let hash = hash(text);
        match self.find(text, hash) {
            Some(term) if self.term(term).is_some_and(|term| term.last == number) => {}
            Some(term) => self.push_to(term, number),
            None => self.insert(text, hash, number),
        }
    }

    #[inline]
    fn find(&self, text: &[u8], hash: u32) -> Option<u32> {
        let is_text = |number: &u32| {
            self.term(*number)
                .is_some_and(|term| term.hash == hash && self.pool.bytes(term.text, term.length as usize) == text)
        };
        self.numbers.find(spread(hash), is_text).copied()
    }

    fn insert(&mut self, text: &[u8], hash: u32, number: u32) {
        let term = self.len() as u32;
        let text_at = self.pool.store(text);
        if self.terms.last().is_none_or(|block| block.len() == BLOCK) {
            self.terms.push(Vec::with_capacity(if self.terms.is_empty() { 0 } else { BLOCK }));
        }
        if let Some(block) = self.terms.last_mut() {
            let encoded = ByteList::default();
            block.push(Term { text: text_at, length: text.len() as u32, hash, count: 1, last: number, encoded });
        }
        let terms = &self.terms;
        let hash_of = |number: &u32| {
            let term = terms.get(*number as usize / BLOCK).and_then(|block| block.get(*number as usize % BLOCK));
            spread(term.map_or(0, |term| term.hash))
        };
        self.numbers.insert_unique(spread(hash), term, hash_of);
    }

    #[inline]
    fn push_to(&mut self, term: u32, number: u32) {
        let block = self.terms.get_mut(term as usize / BLOCK);
        let Some(term) = block.and_then(|block| block.get_mut(term as usize % BLOCK)) else { return };
        if term.count == 1 {
            push_varint(&mut self.pool, &mut term.encoded, term.last);
        }
        push_varint(&mut self.pool, &mut term.encoded, number - term.last);
        term.last = number;
        term.count += 1;
    }

    /// Replaces `into` by the numbers of a term, as varints of their differences, starting at 0.
    pub fn read(&self, number: u32, into: &mut Vec<u8>) {
        into.clear();
        match self.term(number) {
            Some(term) if term.count == 1 => varint::write(into, u64::from(term.last)),
            Some(term) => self.pool.read(&term.encoded, into),
            None => {}
        }
    }

    /// The indexes of all terms, in the order of their texts.
    pub fn sorted(&self) -> Vec<u32> {
        // Most pairs of texts already differ in their first bytes.
        let prefix = |text: &[u8]| {
            let mut first = [0; 8];
            first.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(first)
        };
        let mut all: Vec<(u64, u32)> =
            (0..self.len() as u32).map(|number| (prefix(self.text(number)), number)).collect();
        all.sort_unstable_by(|(one, one_number), (other, other_number)| {
            one.cmp(other).then_with(|| self.text(*one_number).cmp(self.text(*other_number)))
        });
        all.into_iter().map(|(_, number)| number).collect()
    }
}

fn hash(text: &[u8]) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(text);
    hasher.finish() as u32
}

/// A hash table takes the slot from the low bits of a hash, and a tag from the high bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn push_varint(pool: &mut BytePool, list: &mut ByteList, mut value: u32) {
    let mut bytes = [0; 5];
    let mut length = 0;
    for byte in &mut bytes {
        *byte = value as u8 & 0x7f;
        length += 1;
        value >>= 7;
        if value == 0 {
            break;
        }
        *byte |= 0x80;
    }
    pool.extend(list, bytes.get(..length).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn terms_keep_their_numbers_and_are_sorted_by_text() {
        let mut table = TermTable::default();
        let mut expected: BTreeMap<Vec<u8>, Vec<u32>> = BTreeMap::new();
        for number in 0..60_000_u32 {
            let text = match number % 4 {
                0 => format!("often-{}", number % 12),
                1 => "a".repeat((number % 300) as usize),
                _ => format!("{:x}", number.wrapping_mul(0x9e37_79b9)),
            };
            let numbers = expected.entry(text.clone().into_bytes()).or_default();
            assert_eq!(table.push(text.as_bytes(), number * 3), numbers.is_empty());
            numbers.push(number * 3);
        }
        let sorted = table.sorted();
        assert_eq!((sorted.len(), table.len()), (expected.len(), expected.len()));
        let mut encoded = Vec::new();
        for (number, (text, numbers)) in sorted.into_iter().zip(expected) {
            assert_eq!((table.text(number), table.count(number)), (&*text, numbers.len() as u32));
            table.read(number, &mut encoded);
            let mut read = Vec::new();
            crate::segment::positions::for_each(&encoded, |number| read.push(number)).unwrap();
            assert_eq!(read, numbers);
        }
    }

    #[test]
    fn a_number_is_added_once() {
        let mut table = TermTable::default();
        [0, 0, 7, 7, 7, 9].into_iter().for_each(|number| table.push_once(b"x", number));
        assert_eq!(table.count(0), 3);
    }

    #[test]
    fn a_term_that_occurs_once_takes_little_memory() {
        let mut table = TermTable::default();
        (0..500_000_u32).for_each(|number| _ = table.push(format!("{number:08x}").as_bytes(), number));
        assert!(table.memory() / 500_000 < 70, "{} bytes for each", table.memory() / 500_000);
    }
}
