//! Field lengths: the number of [tokens](crate::text) in the text of each document. They are variable-length numbers in
//! blocks, under the first document of the block. Their sums are the first [positions](super::positions) of the
//! documents.

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

    /// Adds the length of the next document.
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

/// The first position of each document, and then the position after the last document.
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

/// Finds the documents of ascending positions.
pub struct DocumentLocator<'a> {
    starts: &'a [u32],
    document: usize,
    /// The first position of the next document.
    end: u32,
}

impl<'a> DocumentLocator<'a> {
    /// `starts` has the first position of each document, and then the position after the last document.
    pub fn new(starts: &'a [u32]) -> Self {
        DocumentLocator { starts, document: 0, end: starts.get(1).copied().unwrap_or(u32::MAX) }
    }

    #[inline]
    pub fn document_of(&mut self, position: u32) -> u32 {
        if position >= self.end {
            self.advance(position);
        }
        self.document as u32
    }

    /// An exponential search: consecutive positions are often near each other.
    fn advance(&mut self, position: u32) {
        let is_at_or_before = |document: usize| self.starts.get(document).is_some_and(|start| *start <= position);
        let mut step = 1;
        while is_at_or_before(self.document + step) {
            self.document += step;
            step *= 2;
        }
        let rest = self.starts.get(self.document..).unwrap_or_default();
        let within = rest.get(..step).unwrap_or(rest);
        self.document += within.partition_point(|start| *start <= position).saturating_sub(1);
        self.end = self.starts.get(self.document + 1).copied().unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_is_in_its_document() {
        let lengths = [0, 5, 0, 0, 1, 70, 3];
        let mut starts = vec![0];
        lengths.iter().for_each(|length| starts.push(starts.last().unwrap() + length + 1));
        let expected = |position: u32| starts.partition_point(|start| *start <= position) as u32 - 1;
        let end = *starts.last().unwrap();
        for step in [1, 2, 7, 30, 80] {
            let mut locator = DocumentLocator::new(&starts);
            for position in (0..end).step_by(step) {
                assert_eq!(locator.document_of(position), expected(position), "{position} by {step}");
            }
        }
    }
}
