//! Field lengths: how many [tokens](crate::text) the text of each document has, as variable-length
//! numbers in blocks, under the first document of the block. Their sums are the first
//! [positions](super::positions) of the documents.

use super::{Field, Segment, TableName};
use crate::table::{PageIndex, TableWriter};
use crate::varint::{self, Reader};
use kit::store::StoreError;

/// Documents in a block.
const BLOCK: u32 = 4096;

pub struct LengthsWriter<S> {
    table: TableWriter<S>,
    block: Vec<u8>,
    document_count: u32,
}

impl<S: FnMut(usize, &[u8]) -> Result<(), StoreError>> LengthsWriter<S> {
    pub fn new(sink: S) -> Self {
        LengthsWriter { table: TableWriter::new(sink), block: Vec::new(), document_count: 0 }
    }

    /// Adds the next document.
    pub fn push(&mut self, length: u32) -> Result<(), StoreError> {
        varint::write(&mut self.block, u64::from(length));
        self.document_count += 1;
        if self.document_count.is_multiple_of(BLOCK) { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), StoreError> {
        let first = (self.document_count - 1) / BLOCK * BLOCK;
        self.table.push(&first.to_be_bytes(), &self.block)?;
        self.block.clear();
        Ok(())
    }

    pub fn finish(mut self) -> Result<PageIndex, StoreError> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        self.table.finish()
    }
}

/// The first position of each document, and of the document that would come next.
pub fn document_starts(segment: &Segment, field: Field) -> Result<Vec<u32>, StoreError> {
    let table = TableName::Lengths(field);
    let corrupt = || segment.corrupt(table);
    let mut starts = Vec::with_capacity(segment.document_count() as usize + 1);
    let mut next = 0_u32;
    starts.push(next);
    let mut blocks = segment.table(table).cursor_from(&[])?;
    while let Some(block) = blocks.next()? {
        let mut rest = Reader(&block.value);
        while !rest.is_empty() {
            let after = rest.u32().and_then(|length| next.checked_add(length)?.checked_add(1));
            next = after.ok_or_else(corrupt)?;
            starts.push(next);
        }
    }
    if starts.len() == segment.document_count() as usize + 1 { Ok(starts) } else { Err(corrupt()) }
}
