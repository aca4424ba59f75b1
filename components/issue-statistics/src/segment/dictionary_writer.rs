//! Writes the [dictionary](super::dictionary) of a segment with the posting lists of its terms.

use super::Field;
use super::affixes::AffixCounts;
use super::dictionary::SEPARATOR;
use super::ngrams::{NgramCounts, Ngrams};
use super::postings::PostingList;
use crate::set;
use crate::table::{PageIndex, TableWriter};
use crate::text::Analyzer;
use crate::varint::{self, Reader};
use kit::store::StoreError;

/// The most terms of a block.
const BLOCK_TERMS: u32 = 256;

/// A block ends when its terms have this many bytes.
const BLOCK_BYTES: usize = 8 << 10;

/// The sinks of the tables. Arrays are indexed by [`super::FIELDS`].
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
    /// See [`super::SegmentHeader::merge_memory`].
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

    /// `lists` is indexed by [`super::FIELDS`].
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
