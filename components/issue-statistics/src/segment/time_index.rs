//! When issues were created, or updated: moments ascending in blocks, each with its document.
//!
//! | key | value |
//! |---|---|
//! | `b`, the first moment of the block (8 bytes, big-endian, the sign turned) and its number (4) | a count, the differences between moments, then each document in 4 little-endian bytes |
//! | `c`, a number (4 bytes) | the set of all documents in the first so many times [`STEP`] blocks |
//!
//! So a range costs two sets and at most `2 * STEP` blocks, whatever it is and however many issues
//! there are; and two blocks, where the whole ones between are remembered.

use crate::set::Bits;
use crate::table::{Entry, Index, Pages, Table, Writer};
use crate::varint::{self, Reader};
use kit::Timestamp;
use kit::store::StoreError;
use roaring::RoaringBitmap;
use std::ops::Range;
use std::rc::Rc;

/// Moments in a block.
const BLOCK: usize = 1024;

/// Blocks between two sets.
const STEP: u32 = 32;

pub struct TimesWriter<S> {
    table: Writer<S>,
    block: Vec<(i64, u32)>,
    blocks: u32,
    before: Bits,
    sets: Vec<Vec<u8>>,
}

impl<S: FnMut(usize, &[u8]) -> Result<(), StoreError>> TimesWriter<S> {
    /// For a segment with so many documents.
    pub fn new(sink: S, documents: u32) -> Self {
        let before = Bits::new(documents);
        TimesWriter { table: Writer::new(sink), block: Vec::with_capacity(BLOCK), blocks: 0, before, sets: Vec::new() }
    }

    /// Moments come ascending.
    pub fn push(&mut self, millis: i64, document: u32) -> Result<(), StoreError> {
        self.block.push((millis, document));
        if self.block.len() == BLOCK { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), StoreError> {
        let Some((first, _)) = self.block.first() else { return Ok(()) };
        let mut value = Vec::with_capacity(BLOCK * 7);
        varint::put(&mut value, self.block.len() as u64);
        let mut previous = *first;
        for (millis, _) in &self.block {
            varint::put(&mut value, millis.wrapping_sub(previous) as u64);
            previous = *millis;
        }
        for (_, document) in &self.block {
            value.extend_from_slice(&document.to_le_bytes());
        }
        self.table.push(&block_key(*first, self.blocks), &value)?;
        for (_, document) in self.block.drain(..) {
            self.before.insert(document);
        }
        self.blocks += 1;
        if self.blocks.is_multiple_of(STEP) {
            let mut set = Vec::new();
            self.before.put(&mut set);
            self.sets.push(set);
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<Index, StoreError> {
        self.end_block()?;
        for (number, set) in (1..).zip(&self.sets) {
            self.table.push(&set_key(number), set)?;
        }
        self.table.finish()
    }
}

fn block_key(millis: i64, number: u32) -> Vec<u8> {
    let turned = (millis as u64) ^ (1 << 63);
    [&b"b"[..], &turned.to_be_bytes(), &number.to_be_bytes()].concat()
}

fn set_key(number: u32) -> Vec<u8> {
    [&b"c"[..], &number.to_be_bytes()].concat()
}

/// The first moment of a block and its number; `None` if the key is none of a block.
fn block_of(key: &[u8]) -> Option<(i64, u32)> {
    let (millis, number) = key.strip_prefix(b"b")?.split_first_chunk::<8>()?;
    Some(((u64::from_be_bytes(*millis) ^ (1 << 63)) as i64, u32::from_be_bytes(number.try_into().ok()?)))
}

/// Whether an entry is a block; else it is a set.
pub fn is_block(entry: &Entry) -> bool {
    entry.key.starts_with(b"b")
}

/// The moments of a block, and its documents as they are stored; `None` if this is no block.
pub fn entries(entry: &Entry) -> Option<(Vec<i64>, impl Iterator<Item = u32> + '_)> {
    let (first, _) = block_of(&entry.key)?;
    let mut rest = Reader(&entry.value);
    let count = usize::try_from(rest.number()?).ok().filter(|count| *count <= BLOCK)?;
    let mut moments = Vec::with_capacity(count);
    let mut millis = first;
    for _ in 0..count {
        millis = millis.wrapping_add(rest.number()? as i64);
        moments.push(millis);
    }
    let (documents, _) = rest.0.as_chunks::<4>();
    Some((moments, documents.iter().map(|bytes| u32::from_le_bytes(*bytes))))
}

/// The documents of a segment, which has so many, whose moment is in the range, both ends included;
/// an end that is not given is open. A range is whole blocks, which `remembered` may have been asked
/// for before, and a part of a block at each end.
pub fn range<P: Pages>(
    table: &Table<P>,
    documents: u32,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    remembered: impl FnOnce(
        &Range<u32>,
        &dyn Fn() -> Result<RoaringBitmap, StoreError>,
    ) -> Result<Rc<RoaringBitmap>, StoreError>,
) -> Result<RoaringBitmap, StoreError> {
    let end = edge(table, to.map_or(i64::MAX, Timestamp::millis))?;
    let below = from.and_then(|from| from.millis().checked_sub(1));
    let begin = below.map_or_else(|| Ok(Edge::default()), |below| edge(table, below))?;
    let blocks = begin.block..end.block;
    let mut within = (*remembered(&blocks, &|| whole(table, documents, &blocks))?).clone();
    end.documents.iter().for_each(|document| _ = within.insert(*document));
    begin.documents.iter().for_each(|document| _ = within.remove(*document));
    Ok(within)
}

/// Where a moment is: its block, and the documents of that block up to and with the moment.
#[derive(Default)]
struct Edge {
    block: u32,
    documents: Vec<u32>,
}

fn edge<P: Pages>(table: &Table<P>, limit: i64) -> Result<Edge, StoreError> {
    let damaged = || table.pages.damaged();
    let Some(entry) = table.floor(&block_key(limit, u32::MAX))? else { return Ok(Edge::default()) };
    let (_, block) = block_of(&entry.key).ok_or_else(damaged)?;
    let (moments, documents) = entries(&entry).ok_or_else(damaged)?;
    let inside = moments.partition_point(|millis| *millis <= limit);
    Ok(Edge { block, documents: documents.take(inside).collect() })
}

/// The documents of these blocks.
fn whole<P: Pages>(table: &Table<P>, documents: u32, blocks: &Range<u32>) -> Result<RoaringBitmap, StoreError> {
    let mut found = before(table, documents, blocks.end)?;
    if blocks.start > 0 {
        found.subtract(&before(table, documents, blocks.start)?);
    }
    Ok(found.bitmap())
}

/// The documents of the blocks before this one.
fn before<P: Pages>(table: &Table<P>, documents: u32, block: u32) -> Result<Bits, StoreError> {
    let damaged = || table.pages.damaged();
    let mut found = Bits::new(documents);
    let steps = block / STEP;
    if steps > 0 {
        let set = table.get(&set_key(steps))?.ok_or_else(damaged)?;
        found.unite(&set).ok_or_else(damaged)?;
    }
    for number in steps * STEP..block {
        let block = table.nth(number)?;
        entries(&block).ok_or_else(damaged)?.1.for_each(|document| found.insert(document));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory(Vec<Vec<u8>>);

    impl Pages for &Memory {
        fn page(&self, number: usize) -> Result<bytes::Bytes, StoreError> {
            self.0.get(number).map(|page| bytes::Bytes::copy_from_slice(page)).ok_or_else(|| self.damaged())
        }

        fn damaged(&self) -> StoreError {
            StoreError::corrupt("times", "damaged")
        }
    }

    /// Document `n` is of the moment `n / 3 * 10`, so that some are of the same one.
    const DOCUMENTS: u32 = 100_000;

    fn moment(document: u32) -> i64 {
        i64::from(document / 3) * 10
    }

    #[test]
    fn ranges_are_exact_at_every_edge() {
        let mut pages = Vec::new();
        let mut writer = TimesWriter::new(
            |_, page: &[u8]| {
                pages.push(page.to_vec());
                Ok(())
            },
            DOCUMENTS,
        );
        (0..DOCUMENTS).for_each(|document| writer.push(moment(document), document).unwrap());
        let index = writer.finish().unwrap();
        let memory = Memory(pages);
        let table = Table { index: &index, pages: &memory };
        // At and beside the borders of blocks and of sets, and where nothing or all is.
        let borders = [0, 1, 1023, 1024, 2048, 32_767, 32_768, 40_000, 65_536, 99_999].map(moment);
        let edges = borders.iter().flat_map(|at| [at - 10, at - 1, *at, at + 1]).chain([-500, 9_000_000]);
        let mut edges: Vec<Option<i64>> = edges.map(Some).chain([None]).collect();
        edges.sort_unstable();
        for from in &edges {
            for to in edges.iter().filter(|to| from.is_none() || to.is_none() || from <= to) {
                let [from, to] = [from, to].map(|at| at.map(Timestamp::from_millis));
                let found = range(&table, DOCUMENTS, from, to, |_, make| make().map(Rc::new)).unwrap();
                let is_inside = |document: &u32| {
                    let at = moment(*document);
                    from.is_none_or(|from| from.millis() <= at) && to.is_none_or(|to| at <= to.millis())
                };
                assert_eq!(found, (0..DOCUMENTS).filter(is_inside).collect(), "{from:?} {to:?}");
            }
        }
    }
}
