//! An input segment of a merge, and the new numbers of its documents and positions.

use crate::segment::{Segment, SegmentPages, TableName};
use crate::table::Cursor;
use kit::store::StoreError;
use roaring::RoaringBitmap;

/// An input segment of a merge.
pub struct MergeInput<'a> {
    pub segment: Segment<'a>,
    pub tombstones: RoaringBitmap,
    /// The new number of the first document without a tombstone.
    pub first: u32,
    /// The new number of each document, or [`SUPERSEDED`]. Empty without tombstones.
    new_numbers: Vec<u32>,
}

const SUPERSEDED: u32 = u32::MAX;

impl<'a> MergeInput<'a> {
    /// The documents without tombstones are numbered from `first`.
    pub fn new(segment: Segment<'a>, tombstones: RoaringBitmap, first: u32) -> Self {
        let mut new_numbers = Vec::new();
        if !tombstones.is_empty() {
            let mut next = first;
            new_numbers.extend((0..segment.document_count()).map(|document| {
                if tombstones.contains(document) {
                    return SUPERSEDED;
                }
                next += 1;
                next - 1
            }));
        }
        MergeInput { segment, tombstones, first, new_numbers }
    }

    /// The new number of a document; `None` if it is superseded.
    #[inline]
    pub fn new_number(&self, document: u32) -> Option<u32> {
        if self.tombstones.is_empty() {
            return Some(self.first + document);
        }
        self.new_numbers.get(document as usize).copied().filter(|number| *number != SUPERSEDED)
    }

    /// A cursor at the start of a table.
    pub fn cursor(&self, table: TableName) -> Result<Cursor<'_, SegmentPages<'_>>, StoreError> {
        self.segment.table(table).cursor_from(&[])
    }
}

/// How the positions of one input and field map to those of the merged segment.
pub enum PositionMap {
    /// All positions increase by this number: the input has no tombstones.
    Shift(u32),
    /// The old and the new first position of each document.
    PerDocument { old_starts: Vec<u32>, new_starts: Vec<u32> },
}
