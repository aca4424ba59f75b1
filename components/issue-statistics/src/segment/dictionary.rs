//! The dictionary: all terms of a segment, sorted, in blocks. A term is a [token](crate::text) of a title or a
//! description.
//!
//! A block is a value of the table. It has the number of its terms, the length of their bytes, the terms, and a
//! [`PostingsRef`] for each term. A [`SEPARATOR`] is before each term and after the last one.
//!
//! The [`PostingsRef`] of a term that occurs once is `0` (description) or `1` (title), the document and the position.
//! Otherwise it is the document frequency in titles plus 2, and the document frequency in descriptions.

use crate::segment::affixes::AffixCounts;
use crate::segment::ngrams::{NgramCounts, Ngrams};
use crate::segment::postings::{PostingList, PostingsRef};
use crate::segment::{FIELDS, Field};
use crate::set;
use crate::table::{Cursor, Entry, PageIndex, PageSource, TableWriter};
use crate::text::Analyzer;
use crate::varint::{self, Reader};
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

/// The most terms of a block.
const BLOCK_TERMS: u32 = 256;

/// A block ends when its terms have this many bytes.
const BLOCK_BYTES: usize = 8 << 10;

/// The sinks of the tables. Arrays are indexed by [`crate::segment::FIELDS`].
pub struct DictionarySinks<S> {
    pub dictionary: S,
    pub postings: [S; 2],
    pub positions: [S; 2],
}

/// Writes the tables. Terms must ascend.
pub struct DictionaryWriter<S> {
    dictionary: TableWriter<S>,
    postings: [TableWriter<S>; 2],
    positions: [TableWriter<S>; 2],
    ngrams: NgramCounts,
    affixes: AffixCounts,
    first_term: Vec<u8>,
    terms: Vec<u8>,
    references: Vec<u8>,
    term_count: u32,
    scratch: Vec<u8>,
    /// The length of the longest position list, in bytes.
    longest_list: usize,
}

/// The result of [`DictionaryWriter::finish`].
pub struct WrittenDictionary {
    pub dictionary: PageIndex,
    pub postings: [PageIndex; 2],
    pub positions: [PageIndex; 2],
    pub ngrams: Ngrams,
    pub affixes: AffixCounts,
    /// See [`crate::segment::SegmentHeader::merge_memory`].
    pub merge_memory: u64,
}

/// How many copies of a position list a merge holds.
const LIST_COPIES: u64 = 4;

impl<S: FnMut(usize, &[u8]) -> Result<(), StoreError>> DictionaryWriter<S> {
    pub fn new(analyzer: Analyzer, sinks: DictionarySinks<S>) -> Self {
        DictionaryWriter {
            dictionary: TableWriter::new(sinks.dictionary),
            postings: sinks.postings.map(TableWriter::new),
            positions: sinks.positions.map(TableWriter::new),
            ngrams: NgramCounts::new(analyzer),
            affixes: AffixCounts::new(analyzer),
            first_term: Vec::new(),
            terms: Vec::new(),
            references: Vec::new(),
            term_count: 0,
            scratch: Vec::new(),
            longest_list: 0,
        }
    }

    /// `lists` is indexed by [`crate::segment::FIELDS`].
    pub fn push(&mut self, term: &str, lists: [&PostingList; 2]) -> Result<(), StoreError> {
        if self.term_count == BLOCK_TERMS || self.terms.len() > BLOCK_BYTES {
            self.end_block()?;
        }
        if self.term_count == 0 {
            self.first_term.clear();
            self.first_term.extend_from_slice(term.as_bytes());
            self.terms.push(SEPARATOR);
        }
        self.terms.extend_from_slice(term.as_bytes());
        self.terms.push(SEPARATOR);
        self.term_count += 1;
        let document_frequencies = lists.map(|list| list.documents.len() as u32);
        self.ngrams.add_term(term, self.dictionary.entry_count(), document_frequencies);
        self.affixes.add_term(term, lists.map(|list| list.position_count));
        if let Some((field, document, position)) = only_occurrence(lists) {
            varint::write(&mut self.references, u64::from(field == Field::Title));
            varint::write(&mut self.references, u64::from(document));
            varint::write(&mut self.references, u64::from(position));
            return Ok(());
        }
        let [titles, descriptions] = lists.map(|list| list.documents.len() as u64);
        varint::write(&mut self.references, titles + 2);
        varint::write(&mut self.references, descriptions);
        let tables = self.postings.iter_mut().zip(&mut self.positions);
        for (list, (postings, positions)) in lists.into_iter().zip(tables) {
            if !list.documents.is_empty() {
                self.scratch.clear();
                set::encode(&mut self.scratch, &list.documents);
                postings.push(term.as_bytes(), &self.scratch)?;
                positions.push(term.as_bytes(), &list.positions)?;
                self.longest_list = self.longest_list.max(list.positions.len());
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), StoreError> {
        if self.term_count == 0 {
            return Ok(());
        }
        self.scratch.clear();
        varint::write(&mut self.scratch, u64::from(self.term_count));
        varint::write_bytes(&mut self.scratch, &self.terms);
        self.scratch.extend_from_slice(&self.references);
        self.dictionary.push(&self.first_term, &self.scratch)?;
        self.terms.clear();
        self.references.clear();
        self.term_count = 0;
        Ok(())
    }

    pub fn finish(mut self) -> Result<WrittenDictionary, StoreError> {
        self.end_block()?;
        let [title_postings, description_postings] = self.postings;
        let [title_positions, description_positions] = self.positions;
        let ngrams = self.ngrams.finish();
        let merge_memory = ngrams.memory() + LIST_COPIES * self.longest_list as u64;
        Ok(WrittenDictionary {
            dictionary: self.dictionary.finish()?,
            postings: [title_postings.finish()?, description_postings.finish()?],
            positions: [title_positions.finish()?, description_positions.finish()?],
            ngrams,
            affixes: self.affixes,
            merge_memory,
        })
    }
}

/// The occurrence of a term that occurs once in the segment.
fn only_occurrence(lists: [&PostingList; 2]) -> Option<(Field, u32, u32)> {
    let [titles, descriptions] = lists;
    let (field, list) = match (titles.documents.len(), descriptions.documents.len()) {
        (1, 0) => (Field::Title, titles),
        (0, 1) => (Field::Description, descriptions),
        _ => return None,
    };
    let document = *list.documents.first()?;
    let mut rest = Reader(&list.positions);
    let position = rest.u32()?;
    rest.is_empty().then_some((field, document, position))
}
