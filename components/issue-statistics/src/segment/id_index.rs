//! Which document an issue is: ids ascending in blocks, each with its document's number. A block is
//! pairs of variable-length numbers: the difference to the id before, and the (zigzag) difference
//! to the document before.

use crate::table::{Pages, Table, Writer};
use crate::varint::{self, Reader, unzigzag, zigzag};
use kit::store::StoreError;

const BLOCK: usize = 512;

/// Writes the table; ids come ascending.
pub struct IdsWriter<S> {
    table: Writer<S>,
    block: Vec<u8>,
    entries: usize,
    first: u64,
    last: (u64, u32),
}

impl<S: FnMut(usize, &[u8]) -> Result<(), StoreError>> IdsWriter<S> {
    pub fn new(sink: S) -> Self {
        IdsWriter { table: Writer::new(sink), block: Vec::new(), entries: 0, first: 0, last: (0, 0) }
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
        varint::put(&mut self.block, id - before);
        varint::put(&mut self.block, zigzag(i64::from(document) - i64::from(document_before)));
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

    pub fn finish(mut self) -> Result<crate::table::Index, StoreError> {
        self.end_block()?;
        self.table.finish()
    }
}

/// Calls `each` for every id and document of a block.
pub fn entries(key: &[u8], value: &[u8], mut each: impl FnMut(u64, u32)) -> Option<()> {
    let mut id = u64::from_be_bytes(key.try_into().ok()?);
    let mut document = 0_i64;
    let mut rest = Reader(value);
    while !rest.is_empty() {
        id = id.checked_add(rest.number()?)?;
        document = document.checked_add(unzigzag(rest.number()?))?;
        each(id, u32::try_from(document).ok()?);
    }
    Some(())
}

/// The documents of those of the ascending `ids` that are there. Reads a block for each that could
/// have one of them.
pub fn documents<P: Pages>(table: &Table<P>, ids: &[u64]) -> Result<Vec<u32>, StoreError> {
    let mut found = Vec::new();
    let mut rest = ids;
    while let Some(id) = rest.first() {
        let Some(entry) = table.floor(&id.to_be_bytes())? else {
            // All of the table is above this one.
            rest = rest.get(1..).unwrap_or_default();
            continue;
        };
        let mut highest = 0;
        let read = entries(&entry.key, &entry.value, |known, document| {
            highest = known;
            rest = rest.get(rest.partition_point(|id| *id < known)..).unwrap_or_default();
            if rest.first() == Some(&known) {
                found.push(document);
            }
        });
        read.ok_or_else(|| table.pages.damaged())?;
        // Those between this block and the next are not there.
        let beyond = rest.partition_point(|id| *id <= highest);
        rest = rest.get(beyond..).unwrap_or_default();
        if rest.first() == Some(id) {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    Ok(found)
}
