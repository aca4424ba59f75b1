//! Posting lists: the occurrences of a term.

use super::{Field, positions};
use crate::varint::Reader;

/// The occurrences of a term in the titles or in the descriptions of a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PostingList {
    /// Ascending.
    pub documents: Vec<u32>,
    /// [Encoded](positions).
    pub positions: Vec<u8>,
    pub position_count: u32,
    pub last_position: u32,
}

impl PostingList {
    /// Empties the list and keeps its memory.
    pub fn clear(&mut self) {
        self.documents.clear();
        self.positions.clear();
        (self.position_count, self.last_position) = (0, 0);
    }

    /// Adds an occurrence. Positions must ascend.
    #[inline]
    pub fn push(&mut self, document: u32, position: u32) {
        if self.documents.last() != Some(&document) {
            self.documents.push(document);
        }
        positions::append(&mut self.positions, position, &mut self.last_position);
        self.position_count += 1;
    }
}

/// The entry of a term in a block of the dictionary: its only posting, or a reference to its posting lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostingsRef {
    /// The only occurrence of the term, inline.
    Inline { field: Field, document: u32, position: u32 },
    /// The document frequencies in titles and in descriptions. Other tables have the lists.
    Lists([u32; 2]),
}

impl PostingsRef {
    pub fn read(rest: &mut Reader) -> Option<Self> {
        let first = rest.u32()?;
        Some(match first {
            0 | 1 => PostingsRef::Inline {
                field: if first == 1 { Field::Title } else { Field::Description },
                document: rest.u32()?,
                position: rest.u32()?,
            },
            titles => PostingsRef::Lists([titles - 2, rest.u32()?]),
        })
    }

    /// The number of documents whose field has the term.
    pub fn document_frequency(&self, field: Field) -> u32 {
        match self {
            PostingsRef::Inline { field: its, .. } => u32::from(*its == field),
            PostingsRef::Lists([titles, descriptions]) => match field {
                Field::Title => *titles,
                Field::Description => *descriptions,
            },
        }
    }
}
