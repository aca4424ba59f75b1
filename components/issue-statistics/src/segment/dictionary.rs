//! The dictionary: all terms of a segment, sorted, in blocks. A term is a [token](crate::text) of a title or a
//! description.
//!
//! A block is a value of the table. It has the number of its terms, the length of their bytes, the terms, and a
//! [`PostingsRef`] for each term. A [`SEPARATOR`] is before each term and after the last one.
//!
//! The [`PostingsRef`] of a term that occurs once is `0` (description) or `1` (title), the document and the position.
//! Otherwise it is the document frequency in titles plus 2, and the document frequency in descriptions.

use super::FIELDS;
use super::postings::{PostingList, PostingsRef};
use crate::set;
use crate::table::{Cursor, Entry, PageSource};
use crate::varint::Reader;
use bytes::Bytes;
use kit::store::StoreError;

/// UTF-8 never contains this byte, so one search finds a substring in all terms of a block.
pub const SEPARATOR: u8 = 0xff;

pub struct DictionaryBlock {
    term_count: u32,
    /// The terms with their separators.
    pub terms: Bytes,
    references: Bytes,
}

impl DictionaryBlock {
    /// `None` if the entry is damaged.
    pub fn parse(entry: &Entry) -> Option<Self> {
        let mut rest = Reader(&entry.value);
        let term_count = rest.u32()?;
        let terms = rest.bytes()?;
        let references = entry.value.slice_ref(rest.0);
        Some(DictionaryBlock { term_count, terms: entry.value.slice_ref(terms), references })
    }

    /// Calls `each` for every term. `None` if the block is damaged.
    pub fn for_each<'a>(&'a self, mut each: impl FnMut(&'a [u8], PostingsRef)) -> Option<()> {
        let mut references = Reader(&self.references);
        let terms = self.terms.get(1..self.terms.len().checked_sub(1)?)?;
        let mut count = 0;
        for term in terms.split(|byte| *byte == SEPARATOR) {
            each(term, PostingsRef::read(&mut references)?);
            count += 1;
        }
        (count == self.term_count).then_some(())
    }

    /// Calls `each` for the references of the terms with these ordinals, which ascend. `None` if the block is damaged.
    pub fn references(&self, ordinals: &[usize], mut each: impl FnMut(PostingsRef)) -> Option<()> {
        let mut references = Reader(&self.references);
        let mut next = 0;
        for ordinal in ordinals {
            while next < *ordinal {
                PostingsRef::read(&mut references)?;
                next += 1;
            }
            each(PostingsRef::read(&mut references)?);
            next += 1;
        }
        Some(())
    }
}

/// Reads all terms of a segment in order, with their posting lists. A new cursor is before the first term.
pub struct DictionaryCursor<'a, P> {
    blocks: Cursor<'a, P>,
    postings: [Cursor<'a, P>; 2],
    positions: [Cursor<'a, P>; 2],
    block: Vec<(Bytes, PostingsRef)>,
    /// The index of the next term in the block.
    next: usize,
    term: Option<Bytes>,
    /// Buffers, reused for every term. Most terms of logs have one occurrence.
    lists: [PostingList; 2],
}

impl<'a, P: PageSource> DictionaryCursor<'a, P> {
    /// Arrays are indexed by [`FIELDS`].
    pub fn new(blocks: Cursor<'a, P>, postings: [Cursor<'a, P>; 2], positions: [Cursor<'a, P>; 2]) -> Self {
        let lists = [PostingList::default(), PostingList::default()];
        DictionaryCursor { blocks, postings, positions, block: Vec::new(), next: 0, term: None, lists }
    }

    /// The current term; `None` before the first and after the last.
    pub fn term(&self) -> Option<&Bytes> {
        self.term.as_ref()
    }

    /// The posting lists of the current term, indexed by [`FIELDS`].
    pub fn lists(&self) -> &[PostingList; 2] {
        &self.lists
    }

    /// Moves to the next term. `corrupt` makes the error for damaged bytes.
    pub fn advance(&mut self, corrupt: impl Fn() -> StoreError) -> Result<(), StoreError> {
        self.lists.iter_mut().for_each(PostingList::clear);
        if self.next == self.block.len() {
            self.block.clear();
            self.next = 0;
            if let Some(entry) = self.blocks.next()? {
                let block = DictionaryBlock::parse(&entry).ok_or_else(&corrupt)?;
                let terms = &mut self.block;
                block
                    .for_each(|term, reference| terms.push((block.terms.slice_ref(term), reference)))
                    .ok_or_else(&corrupt)?;
            }
        }
        self.term = None;
        let Some((text, reference)) = self.block.get(self.next).cloned() else { return Ok(()) };
        self.next += 1;
        let cursors = self.postings.iter_mut().zip(&mut self.positions);
        for ((field, list), (postings, positions)) in FIELDS.into_iter().zip(&mut self.lists).zip(cursors) {
            match reference {
                PostingsRef::Inline { field: its, document, position } if its == field => {
                    list.push(document, position);
                }
                PostingsRef::Lists(_) if reference.document_frequency(field) > 0 => {
                    let entry = postings.next()?.filter(|entry| entry.key == text).ok_or_else(&corrupt)?;
                    set::for_each(&entry.value, |document| list.documents.push(document)).ok_or_else(&corrupt)?;
                    let entry = positions.next()?.filter(|entry| entry.key == text).ok_or_else(&corrupt)?;
                    list.positions.extend_from_slice(&entry.value);
                }
                _ => {}
            }
        }
        self.term = Some(text);
        Ok(())
    }
}
