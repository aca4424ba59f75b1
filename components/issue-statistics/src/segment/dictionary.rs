//! The words of all texts of a segment, sorted, in blocks, and which documents have each.
//!
//! A block is a table's value: how many words it has, the length of the names, the names with a
//! `0xff` before each and one at the end (no UTF-8 has it, so that a part of a word can be looked for
//! in all names at once), and for each word its reference. That is `0` or `1`, a document and a
//! [place](positions), if it is once in one description or title; else in how many titles it is, with 2 added,
//! and in how many descriptions. The documents of these are in tables of their own.

use super::affixes::Edges;
use super::ngrams::GramsWriter;
use super::{FIELDS, Field, positions};
use crate::set;
use crate::table::{Cursor, Entry, Index, Pages, Writer};
use crate::text;
use crate::varint::{self, Reader};
use bytes::Bytes;
use kit::store::StoreError;

/// Most words of a block, and about how many bytes its names have.
const BLOCK: u32 = 256;
const NAMES: usize = 8 << 10;

/// What is around the names.
pub const MARK: u8 = 0xff;

/// Where a word is, in one of the texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Posting {
    /// Ascending.
    pub documents: Vec<u32>,
    /// As [`positions`] has them.
    pub places: Vec<u8>,
    /// How many, and the last of them.
    pub count: u32,
    pub last: u32,
}

impl Posting {
    /// Adds a place, which comes after all others.
    #[inline]
    pub fn push(&mut self, document: u32, place: u32) {
        if self.documents.last() != Some(&document) {
            self.documents.push(document);
        }
        positions::put(&mut self.places, place, &mut self.last);
        self.count += 1;
    }
}

/// A word's reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// It is there once.
    Once { field: Field, document: u32, place: u32 },
    /// In how many documents: by title, by description.
    Lists([u32; 2]),
}

impl Reference {
    fn read(rest: &mut Reader) -> Option<Self> {
        let head = rest.small()?;
        Some(match head {
            0 | 1 => Reference::Once {
                field: if head == 1 { Field::Title } else { Field::Description },
                document: rest.small()?,
                place: rest.small()?,
            },
            titles => Reference::Lists([titles - 2, rest.small()?]),
        })
    }

    /// In how many documents the word is, by this text.
    pub fn weight(&self, field: Field) -> u32 {
        match self {
            Reference::Once { field: its, .. } => u32::from(*its == field),
            Reference::Lists([titles, descriptions]) => match field {
                Field::Title => *titles,
                Field::Description => *descriptions,
            },
        }
    }
}

/// The places where the tables of words are written to.
pub struct WordSinks<S> {
    pub words: S,
    pub documents: [S; 2],
    pub places: [S; 2],
}

/// Writes the tables; words come ascending.
pub struct WordsWriter<S> {
    words: Writer<S>,
    documents: [Writer<S>; 2],
    places: [Writer<S>; 2],
    pub grams: GramsWriter,
    pub edges: Edges,
    first: Vec<u8>,
    names: Vec<u8>,
    references: Vec<u8>,
    count: u32,
    scratch: Vec<u8>,
}

/// What [`WordsWriter::finish`] gives.
pub struct WordIndexes {
    pub words: Index,
    pub documents: [Index; 2],
    pub places: [Index; 2],
    pub grams: GramsWriter,
    pub edges: Edges,
}

impl<S: FnMut(usize, &[u8]) -> Result<(), StoreError>> WordsWriter<S> {
    pub fn new(sinks: WordSinks<S>) -> Self {
        WordsWriter {
            words: Writer::new(sinks.words),
            documents: sinks.documents.map(Writer::new),
            places: sinks.places.map(Writer::new),
            grams: GramsWriter::default(),
            edges: Edges::default(),
            first: Vec::new(),
            names: Vec::new(),
            references: Vec::new(),
            count: 0,
            scratch: Vec::new(),
        }
    }

    /// `postings` are by title and by description.
    pub fn push(&mut self, word: &str, postings: [&Posting; 2]) -> Result<(), StoreError> {
        if self.count == BLOCK || self.names.len() > NAMES {
            self.end_block()?;
        }
        if self.count == 0 {
            self.first.clear();
            self.first.extend_from_slice(word.as_bytes());
            self.names.push(MARK);
        }
        self.names.extend_from_slice(word.as_bytes());
        self.names.push(MARK);
        self.count += 1;
        let counts = postings.map(|posting| posting.documents.len() as u32);
        self.grams.word(word, self.words.count(), counts);
        self.edges.word(word, postings.map(|posting| posting.count));
        if let Some((field, document, place)) = once(postings) {
            varint::put(&mut self.references, u64::from(field == Field::Title));
            varint::put(&mut self.references, u64::from(document));
            varint::put(&mut self.references, u64::from(place));
            return Ok(());
        }
        let [titles, descriptions] = postings.map(|posting| posting.documents.len() as u64);
        varint::put(&mut self.references, titles + 2);
        varint::put(&mut self.references, descriptions);
        let writers = self.documents.iter_mut().zip(&mut self.places);
        for (posting, (documents, places)) in postings.into_iter().zip(writers) {
            if !posting.documents.is_empty() {
                self.scratch.clear();
                set::put(&mut self.scratch, &posting.documents);
                documents.push(word.as_bytes(), &self.scratch)?;
                places.push(word.as_bytes(), &posting.places)?;
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), StoreError> {
        if self.count == 0 {
            return Ok(());
        }
        self.scratch.clear();
        varint::put(&mut self.scratch, u64::from(self.count));
        varint::put_bytes(&mut self.scratch, &self.names);
        self.scratch.extend_from_slice(&self.references);
        self.words.push(&self.first, &self.scratch)?;
        self.names.clear();
        self.references.clear();
        self.count = 0;
        Ok(())
    }

    pub fn finish(mut self) -> Result<WordIndexes, StoreError> {
        self.end_block()?;
        let [titles, descriptions] = self.documents;
        let [title_places, description_places] = self.places;
        Ok(WordIndexes {
            words: self.words.finish()?,
            documents: [titles.finish()?, descriptions.finish()?],
            places: [title_places.finish()?, description_places.finish()?],
            grams: self.grams,
            edges: self.edges,
        })
    }
}

/// The only place of a word that has only one.
fn once(postings: [&Posting; 2]) -> Option<(Field, u32, u32)> {
    let [titles, descriptions] = postings;
    let (field, posting) = match (titles.documents.len(), descriptions.documents.len()) {
        (1, 0) => (Field::Title, titles),
        (0, 1) => (Field::Description, descriptions),
        _ => return None,
    };
    let document = *posting.documents.first()?;
    let mut rest = Reader(&posting.places);
    let place = rest.small()?;
    rest.is_empty().then_some((field, document, place))
}

/// A block that is read.
pub struct Block {
    count: u32,
    pub names: Bytes,
    references: Bytes,
}

impl Block {
    pub fn of(entry: &Entry) -> Option<Self> {
        let mut rest = Reader(&entry.value);
        let count = rest.small()?;
        let names = rest.bytes()?;
        Some(Block { count, names: entry.value.slice_ref(names), references: entry.value.slice_ref(rest.0) })
    }

    /// Calls `each` for every word with its reference.
    pub fn for_each<'a>(&'a self, mut each: impl FnMut(&'a [u8], Reference)) -> Option<()> {
        let mut references = Reader(&self.references);
        let names = self.names.get(1..self.names.len().checked_sub(1)?)?;
        let mut words = 0;
        for word in names.split(|byte| *byte == MARK) {
            each(word, Reference::read(&mut references)?);
            words += 1;
        }
        (words == self.count).then_some(())
    }

    /// The references of the words at these places, ascending.
    pub fn references(&self, wanted: &[usize], mut each: impl FnMut(Reference)) -> Option<()> {
        let mut references = Reader(&self.references);
        let mut next = 0;
        for wanted in wanted {
            while next < *wanted {
                Reference::read(&mut references)?;
                next += 1;
            }
            each(Reference::read(&mut references)?);
            next += 1;
        }
        Some(())
    }
}

/// All words of a segment, one after the other, with their documents and places.
pub struct Words<'a, P> {
    blocks: Cursor<'a, P>,
    documents: [Cursor<'a, P>; 2],
    places: [Cursor<'a, P>; 2],
    block: Vec<(Bytes, Reference)>,
    at: usize,
}

/// A word as it is merged.
pub struct Word {
    pub name: Bytes,
    pub postings: [Posting; 2],
}

impl<'a, P: Pages> Words<'a, P> {
    pub fn new(blocks: Cursor<'a, P>, documents: [Cursor<'a, P>; 2], places: [Cursor<'a, P>; 2]) -> Self {
        Words { blocks, documents, places, block: Vec::new(), at: 0 }
    }

    pub fn next(&mut self, damaged: impl Fn() -> StoreError) -> Result<Option<Word>, StoreError> {
        if self.at == self.block.len() {
            let Some(entry) = self.blocks.next()? else { return Ok(None) };
            let block = Block::of(&entry).ok_or_else(&damaged)?;
            self.block.clear();
            self.at = 0;
            let words = &mut self.block;
            block
                .for_each(|word, reference| words.push((block.names.slice_ref(word), reference)))
                .ok_or_else(&damaged)?;
        }
        let Some((name, reference)) = self.block.get(self.at).cloned() else { return Ok(None) };
        self.at += 1;
        let mut postings = [Posting::default(), Posting::default()];
        let cursors = self.documents.iter_mut().zip(&mut self.places);
        for ((field, posting), (documents, places)) in FIELDS.into_iter().zip(&mut postings).zip(cursors) {
            match reference {
                Reference::Once { field: its, document, place } if its == field => {
                    posting.push(document, place);
                }
                Reference::Lists(_) if reference.weight(field) > 0 => {
                    let entry = documents.next()?.filter(|entry| entry.key == name).ok_or_else(&damaged)?;
                    set::for_each(&entry.value, |document| posting.documents.push(document)).ok_or_else(&damaged)?;
                    let entry = places.next()?.filter(|entry| entry.key == name).ok_or_else(&damaged)?;
                    posting.places.extend_from_slice(&entry.value);
                }
                _ => {}
            }
        }
        Ok(Some(Word { name, postings }))
    }
}

/// Calls `each` for the parts of a word that lead to it; a gap has none.
pub fn parts(word: &str, each: impl FnMut(text::Gram)) {
    if !text::is_gap(word) {
        text::grams(word, each);
    }
}
