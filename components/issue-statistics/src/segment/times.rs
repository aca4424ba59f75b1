//! When issues were created, or updated: moments ascending in blocks, each with its document.
//!
//! | key | value |
//! |---|---|
//! | `b`, the first moment of the block (8 bytes, big-endian, the sign turned) and its number (4) | a count, the differences between moments, then each document in 4 little-endian bytes |
//! | `c`, a number (4 bytes) | the set of all documents in the first so many times [`STEP`] blocks |
//!
//! So a range costs two sets and at most `2 * STEP` blocks, whatever it is and however many issues
//! there are.

use crate::set::Bits;
use crate::table::{Entry, Index, Pages, Table, Writer};
use crate::varint::{self, Reader};
use kit::Timestamp;
use kit::store::Fault;

/// Moments in a block.
const BLOCK: usize = 4096;

/// Blocks between two sets.
const STEP: u32 = 8;

pub struct TimesWriter<S> {
    table: Writer<S>,
    block: Vec<(i64, u32)>,
    blocks: u32,
    before: Bits,
    sets: Vec<Vec<u8>>,
}

impl<S: FnMut(usize, &[u8]) -> Result<(), Fault>> TimesWriter<S> {
    /// For a segment with so many documents.
    pub fn new(sink: S, documents: u32) -> Self {
        let before = Bits::new(documents);
        TimesWriter { table: Writer::new(sink), block: Vec::with_capacity(BLOCK), blocks: 0, before, sets: Vec::new() }
    }

    /// Moments come ascending.
    pub fn push(&mut self, millis: i64, document: u32) -> Result<(), Fault> {
        self.block.push((millis, document));
        if self.block.len() == BLOCK { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), Fault> {
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

    pub fn finish(mut self) -> Result<Index, Fault> {
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
/// an end that is not given is open.
pub fn range<P: Pages>(
    table: &Table<P>,
    documents: u32,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
) -> Result<Bits, Fault> {
    let mut within = up_to(table, documents, to.map_or(i64::MAX, Timestamp::millis))?;
    if let Some(below) = from.and_then(|from| from.millis().checked_sub(1)) {
        within.subtract(&up_to(table, documents, below)?);
    }
    Ok(within)
}

/// The documents whose moment is `limit` or earlier.
fn up_to<P: Pages>(table: &Table<P>, documents: u32, limit: i64) -> Result<Bits, Fault> {
    let damaged = || table.pages.damaged();
    let mut found = Bits::new(documents);
    let Some(last) = table.floor(&block_key(limit, u32::MAX))? else { return Ok(found) };
    let (_, number) = block_of(&last.key).ok_or_else(damaged)?;
    let steps = number / STEP;
    if steps > 0 {
        let set = table.get(&set_key(steps))?.ok_or_else(damaged)?;
        found.unite(&set).ok_or_else(damaged)?;
    }
    for number in steps * STEP..number {
        let block = table.nth(number)?;
        entries(&block).ok_or_else(damaged)?.1.for_each(|document| found.insert(document));
    }
    let (moments, documents) = entries(&last).ok_or_else(damaged)?;
    let inside = moments.partition_point(|millis| *millis <= limit);
    documents.take(inside).for_each(|document| found.insert(document));
    Ok(found)
}
