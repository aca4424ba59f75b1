//! An index by creation or update time: blocks of ascending timestamps (milliseconds), each with its document, and
//! cumulative sets.
//!
//! | key | value |
//! |---|---|
//! | `b`, the first timestamp of the block (8 bytes, big-endian, the sign bit inverted) and the number of the block (4) | a count, the differences between timestamps, then each document in 4 little-endian bytes |
//! | `c` and a number `n` (4 bytes) | the set of all documents in the first `n` times [`BLOCKS_PER_SET`] blocks |
//!
//! A range reads two sets and at most `2 * BLOCKS_PER_SET` blocks, whatever the number of issues. It reads two blocks
//! if the whole blocks between are cached.

use crate::set::Bitset;
use crate::table::{Entry, PageIndex, PageSource, Table, TableWriter};
use crate::varint::{self, Reader};
use kit::Timestamp;
use kit::store::StoreError;
use roaring::RoaringBitmap;
use std::ops::Range;
use std::rc::Rc;

/// Timestamps in a block.
const BLOCK: usize = 1024;

/// Blocks between two cumulative sets.
const BLOCKS_PER_SET: u32 = 32;

pub struct TimeIndexWriter<S> {
    table: TableWriter<S>,
    block: Vec<(i64, u32)>,
    blocks: u32,
    /// The documents of all blocks so far.
    cumulative: Bitset,
    sets: Vec<Vec<u8>>,
}

impl<S: FnMut(usize, &[u8]) -> Result<(), StoreError>> TimeIndexWriter<S> {
    pub fn new(sink: S, document_count: u32) -> Self {
        let cumulative = Bitset::new(document_count);
        TimeIndexWriter {
            table: TableWriter::new(sink),
            block: Vec::with_capacity(BLOCK),
            blocks: 0,
            cumulative,
            sets: Vec::new(),
        }
    }

    /// Timestamps must ascend.
    pub fn push(&mut self, millis: i64, document: u32) -> Result<(), StoreError> {
        self.block.push((millis, document));
        if self.block.len() == BLOCK { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), StoreError> {
        let Some((first, _)) = self.block.first() else { return Ok(()) };
        let mut value = Vec::with_capacity(BLOCK * 7);
        varint::write(&mut value, self.block.len() as u64);
        let mut previous = *first;
        for (millis, _) in &self.block {
            varint::write(&mut value, millis.wrapping_sub(previous) as u64);
            previous = *millis;
        }
        for (_, document) in &self.block {
            value.extend_from_slice(&document.to_le_bytes());
        }
        self.table.push(&block_key(*first, self.blocks), &value)?;
        for (_, document) in self.block.drain(..) {
            self.cumulative.insert(document);
        }
        self.blocks += 1;
        if self.blocks.is_multiple_of(BLOCKS_PER_SET) {
            let mut set = Vec::new();
            self.cumulative.encode_bits(&mut set);
            self.sets.push(set);
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<PageIndex, StoreError> {
        self.end_block()?;
        for (number, set) in (1..).zip(&self.sets) {
            self.table.push(&set_key(number), set)?;
        }
        self.table.finish()
    }
}

fn block_key(millis: i64, number: u32) -> Vec<u8> {
    let inverted = (millis as u64) ^ (1 << 63);
    [&b"b"[..], &inverted.to_be_bytes(), &number.to_be_bytes()].concat()
}

fn set_key(number: u32) -> Vec<u8> {
    [&b"c"[..], &number.to_be_bytes()].concat()
}

/// The first timestamp and the number of a block; `None` for another key.
fn parse_block_key(key: &[u8]) -> Option<(i64, u32)> {
    let (millis, number) = key.strip_prefix(b"b")?.split_first_chunk::<8>()?;
    Some(((u64::from_be_bytes(*millis) ^ (1 << 63)) as i64, u32::from_be_bytes(number.try_into().ok()?)))
}

/// False for a cumulative set.
pub fn is_block(entry: &Entry) -> bool {
    entry.key.starts_with(b"b")
}

/// The number of a block; `None` if the entry is not a block or is damaged.
pub fn block_number(entry: &Entry) -> Option<u32> {
    Some(parse_block_key(&entry.key)?.1)
}

/// The number of blocks that a cumulative set covers; `None` if the entry is not a set or is damaged.
pub fn blocks_of_set(entry: &Entry) -> Option<usize> {
    let number = u32::from_be_bytes(entry.key.strip_prefix(b"c")?.try_into().ok()?);
    number.checked_mul(BLOCKS_PER_SET).map(|blocks| blocks as usize)
}

/// The timestamps of a block and their documents; `None` if the entry is not a block or is damaged.
pub fn entries(entry: &Entry) -> Option<(Vec<i64>, impl Iterator<Item = u32> + '_)> {
    let (first, _) = parse_block_key(&entry.key)?;
    let mut rest = Reader(&entry.value);
    let count = usize::try_from(rest.u64()?).ok().filter(|count| *count <= BLOCK)?;
    let mut timestamps = Vec::with_capacity(count);
    let mut millis = first;
    for _ in 0..count {
        millis = millis.wrapping_add(rest.u64()? as i64);
        timestamps.push(millis);
    }
    let (documents, _) = rest.0.as_chunks::<4>();
    Some((timestamps, documents.iter().map(|bytes| u32::from_le_bytes(*bytes))))
}

/// The documents with a timestamp in the range, both ends included. `None` is an open end. A range consists of whole
/// blocks and a part of a block at each end. `cached` takes the documents of the whole blocks from a cache, or makes
/// them.
pub fn range<P: PageSource>(
    table: &Table<P>,
    document_count: u32,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    cached: impl FnOnce(
        &Range<u32>,
        &dyn Fn() -> Result<RoaringBitmap, StoreError>,
    ) -> Result<Rc<RoaringBitmap>, StoreError>,
) -> Result<RoaringBitmap, StoreError> {
    let end = range_end(table, to.map_or(i64::MAX, Timestamp::millis))?;
    let below = from.and_then(|from| from.millis().checked_sub(1));
    let begin = below.map_or_else(|| Ok(RangeEnd::default()), |below| range_end(table, below))?;
    let blocks = begin.block..end.block;
    let mut found = (*cached(&blocks, &|| documents_of_blocks(table, document_count, &blocks))?).clone();
    end.documents.iter().for_each(|document| _ = found.insert(*document));
    begin.documents.iter().for_each(|document| _ = found.remove(*document));
    Ok(found)
}

/// The block in which a range ends, and the documents of this block up to and including the end.
#[derive(Default)]
struct RangeEnd {
    block: u32,
    documents: Vec<u32>,
}

fn range_end<P: PageSource>(table: &Table<P>, limit: i64) -> Result<RangeEnd, StoreError> {
    let corrupt = || table.pages.corrupt();
    let Some(entry) = table.floor(&block_key(limit, u32::MAX))? else { return Ok(RangeEnd::default()) };
    let (_, block) = parse_block_key(&entry.key).ok_or_else(corrupt)?;
    let (timestamps, documents) = entries(&entry).ok_or_else(corrupt)?;
    let inside = timestamps.partition_point(|millis| *millis <= limit);
    Ok(RangeEnd { block, documents: documents.take(inside).collect() })
}

fn documents_of_blocks<P: PageSource>(
    table: &Table<P>,
    document_count: u32,
    blocks: &Range<u32>,
) -> Result<RoaringBitmap, StoreError> {
    let mut found = documents_before(table, document_count, blocks.end)?;
    if blocks.start > 0 {
        found.subtract(&documents_before(table, document_count, blocks.start)?);
    }
    Ok(found.to_bitmap())
}

/// The documents of all earlier blocks.
fn documents_before<P: PageSource>(table: &Table<P>, document_count: u32, block: u32) -> Result<Bitset, StoreError> {
    let corrupt = || table.pages.corrupt();
    let mut found = Bitset::new(document_count);
    let sets = block / BLOCKS_PER_SET;
    if sets > 0 {
        let set = table.get(&set_key(sets))?.ok_or_else(corrupt)?;
        found.union_encoded(&set).ok_or_else(corrupt)?;
    }
    for number in sets * BLOCKS_PER_SET..block {
        let block = table.nth(number)?;
        entries(&block).ok_or_else(corrupt)?.1.for_each(|document| found.insert(document));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct MemoryPages(Vec<Vec<u8>>);

    impl PageSource for &MemoryPages {
        fn page(&self, number: usize, _: Option<u64>) -> Result<bytes::Bytes, StoreError> {
            self.0.get(number).map(|page| bytes::Bytes::copy_from_slice(page)).ok_or_else(|| self.corrupt())
        }

        fn corrupt(&self) -> StoreError {
            StoreError::corrupt("times", "damaged")
        }
    }

    /// Document `n` has the timestamp `n / 3 * 10`, so that documents share timestamps.
    const DOCUMENTS: u32 = 100_000;

    fn timestamp(document: u32) -> i64 {
        i64::from(document / 3) * 10
    }

    #[test]
    fn ranges_are_exact_at_every_edge() {
        let mut pages = Vec::new();
        let mut writer = TimeIndexWriter::new(
            |_, page: &[u8]| {
                pages.push(page.to_vec());
                Ok(())
            },
            DOCUMENTS,
        );
        (0..DOCUMENTS).for_each(|document| writer.push(timestamp(document), document).unwrap());
        let index = writer.finish().unwrap();
        let memory = MemoryPages(pages);
        let table = Table { index: &index, pages: &memory };
        // Ranges end at or beside the borders of blocks and sets. Some contain no or all documents.
        let borders = [0, 1, 1023, 1024, 2048, 32_767, 32_768, 40_000, 65_536, 99_999].map(timestamp);
        let edges = borders.iter().flat_map(|at| [at - 10, at - 1, *at, at + 1]).chain([-500, 9_000_000]);
        let mut edges: Vec<Option<i64>> = edges.map(Some).chain([None]).collect();
        edges.sort_unstable();
        for from in &edges {
            for to in edges.iter().filter(|to| from.is_none() || to.is_none() || from <= to) {
                let [from, to] = [from, to].map(|at| at.map(Timestamp::from_millis));
                let found = range(&table, DOCUMENTS, from, to, |_, make| make().map(Rc::new)).unwrap();
                let is_inside = |document: &u32| {
                    let at = timestamp(*document);
                    from.is_none_or(|from| from.millis() <= at) && to.is_none_or(|to| at <= to.millis())
                };
                assert_eq!(found, (0..DOCUMENTS).filter(is_inside).collect(), "{from:?} {to:?}");
            }
        }
    }
}
