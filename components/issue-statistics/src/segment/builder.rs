//! A new segment: the issues of a batch, collected in memory.

use super::affixes::Side;
use super::dictionary::{Posting, WordSinks, WordsWriter, parts};
use super::id_index::IdsWriter;
use super::lengths::LengthsWriter;
use super::ngrams::Frequent;
use super::time_index::TimesWriter;
use super::{FIELDS, Field, Head, Part, Shelf, positions, sink};
use crate::hash::Map;
use crate::issue::{Change, Issue};
use crate::set::{self, Bits};
use crate::table::Writer;
use crate::text::{self, Gram};
use kit::store::StoreError;
use std::collections::BTreeMap;

/// A batch is full when it has so many documents, or so many bytes of lines: what bounds the memory
/// of an import.
const DOCUMENTS: u32 = 1 << 15;
const BYTES: usize = 32 << 20;

/// Some changes in the order in which they came.
#[derive(Default)]
pub struct Batch {
    documents: u32,
    bytes: usize,
    /// Every issue that is put or removed, and the document that it is at last.
    issues: Map<u64, Option<u32>>,
    superseded: Vec<u32>,
    terms: Map<Box<[u8]>, Vec<u32>>,
    words: Map<Box<str>, u32>,
    postings: Vec<[Posting; 2]>,
    /// By title and by description: of each document, and the place that comes next.
    lengths: [Vec<u32>; 2],
    next: [u32; 2],
    created: Vec<(i64, u32)>,
    updated: Vec<(i64, u32)>,
    key: Vec<u8>,
    folded: String,
}

/// A segment that is written.
pub struct Built {
    pub head: Head,
    /// Of these, some have been superseded in the batch itself.
    pub superseded: Vec<u32>,
    /// The issues of which older documents are superseded, ascending.
    pub ids: Vec<u64>,
}

impl Batch {
    pub fn is_full(&self) -> bool {
        self.documents >= DOCUMENTS || self.bytes >= BYTES || self.issues.len() >= 4 * DOCUMENTS as usize
    }

    pub fn is_empty(&self) -> bool {
        self.issues.is_empty()
    }

    /// How many documents the segment will have.
    pub fn documents(&self) -> u32 {
        self.documents
    }

    /// `length` is that of the line, in bytes.
    pub fn add(&mut self, change: &Change, length: usize) {
        self.bytes += length;
        match change {
            Change::Put(issue) => self.put(issue),
            Change::Remove(id) => self.superseded.extend(self.issues.insert(*id, None).flatten()),
        }
    }

    fn put(&mut self, issue: &Issue) {
        let document = self.documents;
        self.documents += 1;
        self.superseded.extend(self.issues.insert(issue.id, Some(document)).flatten());
        let Batch { terms, key, .. } = self;
        issue.terms(|term| {
            term.write(key);
            match terms.get_mut(key.as_slice()) {
                Some(documents) if documents.last() == Some(&document) => {}
                Some(documents) => documents.push(document),
                None => drop(terms.insert(key.as_slice().into(), vec![document])),
            }
        });
        if let Some(created) = issue.created_at.or(issue.updated_at) {
            self.created.push((created.millis(), document));
        }
        if let Some(updated) = issue.updated_at.or(issue.created_at) {
            self.updated.push((updated.millis(), document));
        }
        for (field, text) in [&issue.title, &issue.description].into_iter().enumerate() {
            self.text(document, field, text);
        }
    }

    fn text(&mut self, document: u32, field: usize, text: &str) {
        let Batch { words, postings, folded, lengths, next, .. } = self;
        folded.clear();
        text::fold(text, folded);
        let (Some(lengths), Some(next)) = (lengths.get_mut(field), next.get_mut(field)) else { return };
        let begin = *next;
        text::pieces(folded, |piece| {
            let number = match words.get(piece) {
                Some(number) => *number,
                None => {
                    let number = postings.len() as u32;
                    words.insert(piece.into(), number);
                    postings.push(Default::default());
                    number
                }
            };
            if let Some(posting) = postings.get_mut(number as usize).and_then(|both| both.get_mut(field)) {
                posting.push(document, *next);
            }
            *next += 1;
        });
        lengths.push(*next - begin);
        *next += 1;
    }

    /// Writes the segment.
    pub fn finish(mut self, shelf: &dyn Shelf, segment: &str) -> Result<Built, StoreError> {
        let mut tables = BTreeMap::new();
        let mut keep = |part: Part, index| tables.insert(part.name().to_owned(), index);
        let put = |part| sink(shelf, segment, part);

        let mut terms: Vec<(Box<[u8]>, Vec<u32>)> = self.terms.drain().collect();
        terms.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut table = Writer::new(put(Part::Terms));
        let mut value = Vec::new();
        for (key, documents) in terms {
            value.clear();
            set::put(&mut value, &documents);
            table.push(&key, &value)?;
        }
        keep(Part::Terms, table.finish()?);

        let mut ids: Vec<(u64, Option<u32>)> = self.issues.drain().collect();
        ids.sort_unstable();
        let mut table = IdsWriter::new(put(Part::Ids));
        for (id, document) in &ids {
            if let Some(document) = document {
                table.push(*id, *document)?;
            }
        }
        keep(Part::Ids, table.finish()?);

        for (part, mut moments) in [(Part::Created, self.created), (Part::Updated, self.updated)] {
            moments.sort_unstable();
            let mut table = TimesWriter::new(put(part), self.documents);
            moments.into_iter().try_for_each(|(millis, document)| table.push(millis, document))?;
            keep(part, table.finish()?);
        }

        let mut words: Vec<(Box<str>, u32)> = self.words.drain().collect();
        words.sort_unstable();
        let posting = |number: u32| self.postings.get(number as usize).map(|both| both.each_ref());
        let mut table = WordsWriter::new(WordSinks {
            words: put(Part::Words),
            documents: FIELDS.map(|field| put(Part::Documents(field))),
            places: FIELDS.map(|field| put(Part::Places(field))),
        });
        for (word, number) in &words {
            if let Some(postings) = posting(*number) {
                table.push(word, postings)?;
            }
        }
        let written = table.finish()?;
        keep(Part::Words, written.words);
        for (field, (documents, places)) in FIELDS.into_iter().zip(written.documents.into_iter().zip(written.places)) {
            keep(Part::Documents(field), documents);
            keep(Part::Places(field), places);
        }

        for (field, lengths) in FIELDS.into_iter().zip(&self.lengths) {
            let mut table = LengthsWriter::new(put(Part::Lengths(field)));
            lengths.iter().try_for_each(|length| table.push(*length))?;
            keep(Part::Lengths(field), table.finish()?);
        }

        for (at, field) in FIELDS.into_iter().enumerate() {
            let end = self.next.get(at).copied().unwrap_or_default();
            let places = |side: Side, edge: &str| {
                let mut bits = Bits::new(end);
                for (_, number) in words.iter().filter(|(word, _)| !text::is_gap(word) && side.is_of(word, edge)) {
                    let posting = self.postings.get(*number as usize).and_then(|both| both.get(at));
                    // They were made here and are not damaged.
                    posting.and_then(|posting| positions::for_each(&posting.places, |place| bits.insert(place)));
                }
                Ok(bits)
            };
            keep(Part::Edges(field), written.edges.write(field, put(Part::Edges(field)), places)?);
        }

        let mut frequent: Map<Gram, [Option<Bits>; 2]> = Map::default();
        for (field, gram) in written.grams.frequent(u64::from(self.documents)) {
            let both = frequent.entry(gram).or_default();
            let [titles, descriptions] = both;
            let bits = if field == Field::Title { titles } else { descriptions };
            *bits = Some(Bits::new(self.documents));
        }
        for (word, number) in &words {
            let Some(postings) = posting(*number) else { continue };
            parts(word, |gram| {
                for (bits, posting) in frequent.get_mut(&gram).into_iter().flatten().zip(postings) {
                    if let Some(bits) = bits {
                        posting.documents.iter().for_each(|document| bits.insert(*document));
                    }
                }
            });
        }
        let mut stored = Frequent::new();
        for (gram, both) in frequent {
            for (field, bits) in FIELDS.into_iter().zip(both) {
                if let Some(bits) = bits {
                    bits.put(stored.entry((field, gram)).or_default());
                }
            }
        }
        keep(Part::Grams, written.grams.finish(&stored, put(Part::Grams))?);

        let ids: Vec<u64> = ids.into_iter().map(|(id, _)| id).collect();
        let span = (ids.first().copied().unwrap_or_default(), ids.last().copied().unwrap_or_default());
        let places = self.next.iter().copied().map(u64::from).sum();
        let head = Head { documents: self.documents, ids: span, places, tables };
        Ok(Built { head, superseded: self.superseded, ids })
    }
}
