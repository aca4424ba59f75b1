//! The index from issue ids to documents: ids ascending, in blocks. A block consists of pairs of variable-length
//! numbers. A pair is the difference from the previous id and the zigzag difference from the previous document.

use crate::table::{PageIndex, PageSource, Table, TableWriter};
use crate::varint::{self, Reader, unzigzag, zigzag};
use kit::store::StoreError;

/// Ids in a block.
const BLOCK: usize = 512;

/// Writes the table. Ids must ascend.
pub struct IdIndexWriter<S> {
    table: TableWriter<S>,
    block: Vec<u8>,
    entries: usize,
    first: u64,
    last: (u64, u32),
}

impl<S: FnMut(usize, &[u8]) -> Result<(), StoreError>> IdIndexWriter<S> {
    pub fn new(sink: S) -> Self {
        IdIndexWriter { table: TableWriter::new(sink), block: Vec::new(), entries: 0, first: 0, last: (0, 0) }
    }

    pub fn push(&mut self, id: u64, document: u32) -> Result<(), StoreError> {
        if self.entries == BLOCK {
            self.end_block()?;
        }
        if self.entries == 0 {
            self.first = id;
            self.last = (id, 0);
        }
        let (before, document_before) = self.last;
        varint::write(&mut self.block, id - before);
        varint::write(&mut self.block, zigzag(i64::from(document) - i64::from(document_before)));
        self.last = (id, document);
        self.entries += 1;
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), StoreError> {
        if self.entries > 0 {
            self.table.push(&self.first.to_be_bytes(), &self.block)?;
            self.block.clear();
            self.entries = 0;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<PageIndex, StoreError> {
        self.end_block()?;
        self.table.finish()
    }
}

/// Calls `each` for every id and document of a block. `None` if the block is damaged.
pub fn entries(key: &[u8], value: &[u8], mut each: impl FnMut(u64, u32)) -> Option<()> {
    let mut id = u64::from_be_bytes(key.try_into().ok()?);
    let mut document = 0_i64;
    let mut rest = Reader(value);
    while !rest.is_empty() {
        id = id.checked_add(rest.u64()?)?;
        document = document.checked_add(unzigzag(rest.u64()?))?;
        each(id, u32::try_from(document).ok()?);
    }
    Some(())
}

/// The documents of `ids`, which ascend. Ids that are not in the segment are skipped. Reads each block that may contain
/// one of them.
pub fn documents<P: PageSource>(table: &Table<P>, ids: &[u64]) -> Result<Vec<u32>, StoreError> {
    let mut found = Vec::new();
    let mut rest = ids;
    while let Some(id) = rest.first() {
        let Some(entry) = table.floor(&id.to_be_bytes())? else {
            // All ids of the table are higher.
            rest = rest.get(1..).unwrap_or_default();
            continue;
        };
        let mut highest = 0;
        let read = entries(&entry.key, &entry.value, |block_id, document| {
            highest = block_id;
            rest = rest.get(rest.partition_point(|id| *id < block_id)..).unwrap_or_default();
            if rest.first() == Some(&block_id) {
                found.push(document);
            }
        });
        read.ok_or_else(|| table.pages.corrupt())?;
        // The segment has no ids between this block and the next.
        let beyond = rest.partition_point(|id| *id <= highest);
        rest = rest.get(beyond..).unwrap_or_default();
        if rest.first() == Some(id) {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    Ok(found)
}
