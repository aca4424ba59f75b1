//! How many [pieces](crate::text) the texts of each document have: a variable-length number for each,
//! in blocks, under the block's first document. They tell where the [places](super::positions) of a
//! document begin.

use super::{Field, Part, Segment};
use crate::table::{Index, Writer};
use crate::varint::{self, Reader};
use kit::store::StoreError;

/// Documents in a block.
const BLOCK: u32 = 4096;

pub struct LengthsWriter<S> {
    table: Writer<S>,
    block: Vec<u8>,
    documents: u32,
}

impl<S: FnMut(usize, &[u8]) -> Result<(), StoreError>> LengthsWriter<S> {
    pub fn new(sink: S) -> Self {
        LengthsWriter { table: Writer::new(sink), block: Vec::new(), documents: 0 }
    }

    /// The next document.
    pub fn push(&mut self, length: u32) -> Result<(), StoreError> {
        varint::put(&mut self.block, u64::from(length));
        self.documents += 1;
        if self.documents.is_multiple_of(BLOCK) { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), StoreError> {
        let first = (self.documents - 1) / BLOCK * BLOCK;
        self.table.push(&first.to_be_bytes(), &self.block)?;
        self.block.clear();
        Ok(())
    }

    pub fn finish(mut self) -> Result<Index, StoreError> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        self.table.finish()
    }
}

/// The first place of each document, and of the one that would come next.
pub fn begins(segment: &Segment, field: Field) -> Result<Vec<u32>, StoreError> {
    let part = Part::Lengths(field);
    let damaged = || segment.damaged(part);
    let mut begins = Vec::with_capacity(segment.documents() as usize + 1);
    let mut next = 0_u32;
    begins.push(next);
    let mut blocks = segment.table(part).from(&[])?;
    while let Some(block) = blocks.next()? {
        let mut rest = Reader(&block.value);
        while !rest.is_empty() {
            let after = rest.small().and_then(|length| next.checked_add(length)?.checked_add(1));
            next = after.ok_or_else(damaged)?;
            begins.push(next);
        }
    }
    if begins.len() == segment.documents() as usize + 1 { Ok(begins) } else { Err(damaged()) }
}
