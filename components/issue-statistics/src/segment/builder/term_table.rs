//! The terms of a batch, each with the ascending numbers of its occurrences: documents or positions. A term that occurs
//! once takes about 40 bytes and its text. Most terms of logs and hashes occur once.
//!
//! Memory for very many lists that grow byte by byte. A list consists of slices of large blocks. Each slice links to
//! the next, larger one. Bytes are never moved or freed, so the memory in use is known.

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

/// Bytes in a block. A slice never crosses two blocks.
const POOL_BLOCK: usize = 64 << 10;

/// The sizes of the slices of a list, in order. Further slices are as large as the last one. A slice ends with the
/// address of the next slice.
const SLICES: [usize; 12] = [12, 24, 48, 96, 192, 384, 768, 1536, 3072, 6144, 12_288, 24_576];

/// The bytes of an address.
const LINK: usize = 4;

/// A location in the pool: a block and an offset.
pub type Address = u32;

#[derive(Default)]
pub struct BytePool {
    blocks: Vec<Vec<u8>>,
}

/// A list in a pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByteList {
    first: Address,
    /// The location of the next byte.
    next: Address,
    /// The free bytes of the last slice.
    remaining: u16,
    slices: u16,
}

impl BytePool {
    /// The bytes of all blocks.
    pub fn memory(&self) -> usize {
        self.blocks.len() * POOL_BLOCK
    }

    /// Allocates `length` consecutive bytes. A request for more bytes than a block gets a block of its own.
    fn allocate(&mut self, length: usize) -> Address {
        let used = self.blocks.last().map_or(POOL_BLOCK, Vec::len);
        if used + length > POOL_BLOCK {
            self.blocks.push(Vec::with_capacity(POOL_BLOCK.max(length)));
        }
        let number = self.blocks.len().saturating_sub(1);
        let Some(block) = self.blocks.last_mut() else { return 0 };
        let offset = block.len();
        block.resize(offset + length, 0);
        (number * POOL_BLOCK + offset) as Address
    }

    fn bytes_mut(&mut self, address: Address, length: usize) -> Option<&mut [u8]> {
        let (number, offset) = (address as usize / POOL_BLOCK, address as usize % POOL_BLOCK);
        self.blocks.get_mut(number)?.get_mut(offset..offset + length)
    }

    /// `length` bytes from `address` on; empty if the pool does not have them.
    pub fn bytes(&self, address: Address, length: usize) -> &[u8] {
        let (number, offset) = (address as usize / POOL_BLOCK, address as usize % POOL_BLOCK);
        self.blocks.get(number).and_then(|block| block.get(offset..offset + length)).unwrap_or_default()
    }

    /// Stores `bytes`, to be read with [`Self::bytes`].
    pub fn store(&mut self, bytes: &[u8]) -> Address {
        let address = self.allocate(bytes.len());
        if let Some(to) = self.bytes_mut(address, bytes.len()) {
            to.copy_from_slice(bytes);
        }
        address
    }

    /// Appends a byte to a list.
    #[inline]
    pub fn push(&mut self, list: &mut ByteList, byte: u8) {
        if list.remaining == 0 {
            self.add_slice(list);
        }
        if let Some([to]) = self.bytes_mut(list.next, 1) {
            *to = byte;
        }
        list.next += 1;
        list.remaining -= 1;
    }

    /// Appends bytes to a list.
    #[inline]
    pub fn extend(&mut self, list: &mut ByteList, bytes: &[u8]) {
        if bytes.len() > usize::from(list.remaining) {
            return bytes.iter().for_each(|byte| self.push(list, *byte));
        }
        if let Some(to) = self.bytes_mut(list.next, bytes.len()) {
            to.copy_from_slice(bytes);
        }
        list.next += bytes.len() as Address;
        list.remaining -= bytes.len() as u16;
    }

    fn add_slice(&mut self, list: &mut ByteList) {
        let size = slice_size(list.slices);
        let slice = self.allocate(size);
        if list.slices == 0 {
            list.first = slice;
        } else if let Some(link) = self.bytes_mut(list.next, LINK) {
            link.copy_from_slice(&slice.to_le_bytes());
        }
        list.next = slice;
        list.remaining = (size - LINK) as u16;
        list.slices = list.slices.saturating_add(1);
    }

    /// Replaces `into` by the bytes of a list.
    pub fn read(&self, list: &ByteList, into: &mut Vec<u8>) {
        into.clear();
        let mut slice = list.first;
        for number in 0..list.slices {
            let length = slice_size(number) - LINK;
            if number + 1 == list.slices {
                into.extend_from_slice(self.bytes(slice, length - usize::from(list.remaining)));
            } else {
                into.extend_from_slice(self.bytes(slice, length));
                let link = self.bytes(slice + length as Address, LINK);
                slice = link.first_chunk::<LINK>().map_or(0, |link| Address::from_le_bytes(*link));
            }
        }
    }
}

fn slice_size(number: u16) -> usize {
    SLICES.get(usize::from(number)).or(SLICES.last()).copied().unwrap_or(POOL_BLOCK)
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

#[cfg(test)]
mod byte_pool_tests {
    use super::*;

    #[test]
    fn lists_that_grow_in_turns_keep_their_bytes() {
        let mut pool = BytePool::default();
        let mut lists = [ByteList::default(); 7];
        let text = pool.store(b"between");
        for number in 0..200_000_usize {
            // Lengths differ: some lists end at a link, and some are empty.
            let list = number % 7;
            if number < [0, 7, 70, 700, 7000, 70_000, 200_000][list] {
                match list {
                    5 => pool.extend(&mut lists[list], &[(number / 7) as u8]),
                    _ => pool.push(&mut lists[list], (number / 7) as u8),
                }
            }
        }
        assert_eq!(pool.bytes(text, 7), b"between");
        let mut bytes = Vec::new();
        for (index, list) in lists.iter().enumerate() {
            pool.read(list, &mut bytes);
            let end = [0, 7, 70, 700, 7000, 70_000, 200_000][index];
            let expected: Vec<u8> = (0..end).skip(index).step_by(7).map(|number| (number / 7) as u8).collect();
            assert_eq!(bytes, expected, "list {index}");
        }
        assert!(pool.memory() < 200_000, "{}", pool.memory());
    }

    #[test]
    fn several_bytes_may_cross_slices() {
        let mut pool = BytePool::default();
        let mut list = ByteList::default();
        let mut expected = Vec::new();
        for number in 0..10_000_usize {
            let bytes = vec![number as u8; number % 6];
            pool.extend(&mut list, &bytes);
            expected.extend(bytes);
        }
        let mut read = Vec::new();
        pool.read(&list, &mut read);
        assert_eq!(read, expected);
    }

    #[test]
    fn a_text_longer_than_a_block_is_kept() {
        let mut pool = BytePool::default();
        let long = vec![7; POOL_BLOCK + 1];
        let addresses = [pool.store(b"a"), pool.store(&long), pool.store(b"b")];
        assert_eq!(pool.bytes(addresses[1], long.len()), long);
        assert_eq!([pool.bytes(addresses[0], 1), pool.bytes(addresses[2], 1)], [b"a", b"b"]);
    }
}
