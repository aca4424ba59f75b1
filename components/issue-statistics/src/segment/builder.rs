//! Builds a segment in memory out of a batch of changes, and writes it.

use super::affixes::Affix;
use super::dictionary_writer::{DictionarySinks, DictionaryWriter};
use super::id_index::IdIndexWriter;
use super::lengths::LengthsWriter;
use super::ngrams::{self, FrequentNgrams};
use super::postings::PostingList;
use super::time_index::TimeIndexWriter;
use super::{FIELDS, Field, PageStore, SegmentHeader, TableName, page_sink, positions};
use crate::hash::FxHashMap;
use crate::issue::{Change, Issue};
use crate::set::{self, Bitset};
use crate::table::TableWriter;
use crate::text::{self, Ngram};
use kit::store::StoreError;
use std::collections::BTreeMap;

/// A batch is full with so many documents, or with so many bytes of lines. Both bound the memory of an
/// import.
const MAX_DOCUMENTS: u32 = 1 << 15;
const MAX_BYTES: usize = 32 << 20;

/// A batch of changes, in the order in which they came. Arrays are by [`FIELDS`].
#[derive(Default)]
pub struct SegmentBuilder {
    document_count: u32,
    bytes: usize,
    /// Every upserted or deleted issue with its latest document; `None` if it was deleted last.
    issues: FxHashMap<u64, Option<u32>>,
    superseded: Vec<u32>,
    facets: FxHashMap<Box<[u8]>, Vec<u32>>,
    /// Indices into `postings`.
    terms: FxHashMap<Box<str>, u32>,
    postings: Vec<[PostingList; 2]>,
    /// Of each document.
    lengths: [Vec<u32>; 2],
    next_position: [u32; 2],
    created: Vec<(i64, u32)>,
    updated: Vec<(i64, u32)>,
    /// Reused for every facet, and for every text.
    key: Vec<u8>,
    folded: String,
}

/// The result of [`SegmentBuilder::finish`].
pub struct BuiltSegment {
    pub header: SegmentHeader,
    /// The documents that later changes of the same batch superseded.
    pub superseded: Vec<u32>,
    /// All upserted or deleted issues, ascending: older segments' documents of them are superseded.
    pub issue_ids: Vec<u64>,
}

impl SegmentBuilder {
    pub fn is_full(&self) -> bool {
        self.document_count >= MAX_DOCUMENTS
            || self.bytes >= MAX_BYTES
            || self.issues.len() >= 4 * MAX_DOCUMENTS as usize
    }

    pub fn is_empty(&self) -> bool {
        self.issues.is_empty()
    }

    pub fn document_count(&self) -> u32 {
        self.document_count
    }

    /// `length` is that of the line, in bytes.
    pub fn add(&mut self, change: &Change, length: usize) {
        self.bytes += length;
        match change {
            Change::Upsert(issue) => self.add_document(issue),
            Change::Delete(id) => self.superseded.extend(self.issues.insert(*id, None).flatten()),
        }
    }

    fn add_document(&mut self, issue: &Issue) {
        let document = self.document_count;
        self.document_count += 1;
        self.superseded.extend(self.issues.insert(issue.id, Some(document)).flatten());
        let SegmentBuilder { facets, key, .. } = self;
        issue.facets(|facet| {
            facet.write_key(key);
            match facets.get_mut(key.as_slice()) {
                Some(documents) if documents.last() == Some(&document) => {}
                Some(documents) => documents.push(document),
                None => drop(facets.insert(key.as_slice().into(), vec![document])),
            }
        });
        if let Some(created) = issue.created_at.or(issue.updated_at) {
            self.created.push((created.millis(), document));
        }
        if let Some(updated) = issue.updated_at.or(issue.created_at) {
            self.updated.push((updated.millis(), document));
        }
        for (field, text) in [&issue.title, &issue.description].into_iter().enumerate() {
            self.add_text(document, field, text);
        }
    }

    /// `field` is an index into [`FIELDS`].
    fn add_text(&mut self, document: u32, field: usize, text: &str) {
        let SegmentBuilder { terms, postings, folded, lengths, next_position, .. } = self;
        folded.clear();
        text::fold(text, folded);
        let (Some(lengths), Some(next)) = (lengths.get_mut(field), next_position.get_mut(field)) else { return };
        let start = *next;
        text::tokens(folded, |token| {
            let number = match terms.get(token) {
                Some(number) => *number,
                None => {
                    let number = postings.len() as u32;
                    terms.insert(token.into(), number);
                    postings.push(Default::default());
                    number
                }
            };
            if let Some(list) = postings.get_mut(number as usize).and_then(|lists| lists.get_mut(field)) {
                list.push(document, *next);
            }
            *next += 1;
        });
        lengths.push(*next - start);
        *next += 1;
    }

    /// Writes the pages of the segment. The caller saves the header.
    pub fn finish(mut self, page_store: &dyn PageStore, segment: &str) -> Result<BuiltSegment, StoreError> {
        let mut tables = BTreeMap::new();
        let mut keep = |table: TableName, index| tables.insert(table.as_str().to_owned(), index);
        let sink = |table| page_sink(page_store, segment, table);

        let mut facets: Vec<(Box<[u8]>, Vec<u32>)> = self.facets.drain().collect();
        facets.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut table = TableWriter::new(sink(TableName::Facets));
        let mut value = Vec::new();
        for (key, documents) in facets {
            value.clear();
            set::encode(&mut value, &documents);
            table.push(&key, &value)?;
        }
        keep(TableName::Facets, table.finish()?);

        let mut issues: Vec<(u64, Option<u32>)> = self.issues.drain().collect();
        issues.sort_unstable();
        let mut table = IdIndexWriter::new(sink(TableName::Ids));
        for (id, document) in &issues {
            if let Some(document) = document {
                table.push(*id, *document)?;
            }
        }
        keep(TableName::Ids, table.finish()?);

        for (name, mut timestamps) in [(TableName::Created, self.created), (TableName::Updated, self.updated)] {
            timestamps.sort_unstable();
            let mut table = TimeIndexWriter::new(sink(name), self.document_count);
            timestamps.into_iter().try_for_each(|(millis, document)| table.push(millis, document))?;
            keep(name, table.finish()?);
        }

        let mut terms: Vec<(Box<str>, u32)> = self.terms.drain().collect();
        terms.sort_unstable();
        let lists_of = |number: u32| self.postings.get(number as usize).map(|lists| lists.each_ref());
        let mut table = DictionaryWriter::new(DictionarySinks {
            dictionary: sink(TableName::Dictionary),
            postings: FIELDS.map(|field| sink(TableName::Postings(field))),
            positions: FIELDS.map(|field| sink(TableName::Positions(field))),
        });
        for (term, number) in &terms {
            if let Some(lists) = lists_of(*number) {
                table.push(term, lists)?;
            }
        }
        let written = table.finish()?;
        keep(TableName::Dictionary, written.dictionary);
        let indexes = written.postings.into_iter().zip(written.positions);
        for (field, (postings, positions)) in FIELDS.into_iter().zip(indexes) {
            keep(TableName::Postings(field), postings);
            keep(TableName::Positions(field), positions);
        }

        for (field, lengths) in FIELDS.into_iter().zip(&self.lengths) {
            let mut table = LengthsWriter::new(sink(TableName::Lengths(field)));
            lengths.iter().try_for_each(|length| table.push(*length))?;
            keep(TableName::Lengths(field), table.finish()?);
        }

        for (index, field) in FIELDS.into_iter().enumerate() {
            let end = self.next_position.get(index).copied().unwrap_or_default();
            let positions = |affix: Affix, text: &str| {
                let mut found = Bitset::new(end);
                for (_, number) in
                    terms.iter().filter(|(term, _)| !text::is_white_space(term) && affix.is_of(term, text))
                {
                    let list = self.postings.get(*number as usize).and_then(|lists| lists.get(index));
                    // `None` is for damaged positions; these were encoded here.
                    list.and_then(|list| positions::for_each(&list.positions, |position| found.insert(position)));
                }
                Ok(found)
            };
            let table = TableName::Affixes(field);
            keep(table, written.affixes.write(field, sink(table), positions)?);
        }

        let mut frequent: FxHashMap<Ngram, [Option<Bitset>; 2]> = FxHashMap::default();
        for (field, ngram) in written.ngrams.frequent(u64::from(self.document_count)) {
            let [titles, descriptions] = frequent.entry(ngram).or_default();
            let documents = if field == Field::Title { titles } else { descriptions };
            *documents = Some(Bitset::new(self.document_count));
        }
        for (term, number) in &terms {
            let Some(lists) = lists_of(*number) else { continue };
            ngrams::of_term(term, |ngram| {
                for (documents, list) in frequent.get_mut(&ngram).into_iter().flatten().zip(lists) {
                    if let Some(documents) = documents {
                        list.documents.iter().for_each(|document| documents.insert(*document));
                    }
                }
            });
        }
        let mut encoded = FrequentNgrams::new();
        for (ngram, by_field) in frequent {
            for (field, documents) in FIELDS.into_iter().zip(by_field) {
                if let Some(documents) = documents {
                    documents.encode_bits(encoded.entry((field, ngram)).or_default());
                }
            }
        }
        keep(TableName::Ngrams, written.ngrams.finish(&encoded, sink(TableName::Ngrams))?);

        let issue_ids: Vec<u64> = issues.into_iter().map(|(id, _)| id).collect();
        let header = SegmentHeader {
            document_count: self.document_count,
            issue_ids: (issue_ids.first().copied().unwrap_or_default(), issue_ids.last().copied().unwrap_or_default()),
            position_count: self.next_position.iter().copied().map(u64::from).sum(),
            tables,
        };
        Ok(BuiltSegment { header, superseded: self.superseded, issue_ids })
    }
}
