//! Builds a segment in memory out of a batch of changes, and writes it.

mod frequent;
mod term_table;

use super::id_index::IdIndexWriter;
use super::lengths::LengthsWriter;
use super::ngrams::{self, FrequentNgrams};
use super::postings::PostingList;
use super::time_index::TimeIndexWriter;
use super::{FIELDS, Field, PageSink, PageStore, SegmentHeader, TableName, page_sink, positions};
use crate::hash::FxHashMap;
use crate::issue::{Change, Issue};
use crate::segment::builder::frequent::{DocumentMap, NgramFilter};
use crate::segment::dictionary::{DictionarySinks, DictionaryWriter, WrittenDictionary};
use crate::table::{PageIndex, TableWriter};
use crate::text::{self, Analyzer, Ngram};
use crate::{facet, set};
use kit::store::StoreError;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use term_table::TermTable;

/// A batch with this many documents is full.
const MAX_DOCUMENTS: u32 = 1 << 15;

/// A batch is full when its tables take this many bytes of memory. One more issue, with a line of the greatest length,
/// takes up to twelve times its length.
const MAX_MEMORY: usize = 32 << 20;

/// A batch with this many different n-grams is full. Each takes about 100 bytes when the segment is written.
const MAX_NGRAMS: u32 = 200_000;

/// The analyzer of new segments.
const ANALYZER: Analyzer = Analyzer::Runs;

/// A batch of changes, in the order of their lines. Arrays are indexed by [`FIELDS`].
#[derive(Default)]
pub struct SegmentBuilder {
    document_count: u32,
    /// Every changed issue with its latest document; `None` if its last change was a deletion.
    issues: FxHashMap<u64, Option<u32>>,
    superseded: Vec<u32>,
    /// The facets, each with its documents.
    facets: TermTable,
    /// The terms, each with its positions.
    terms: [TermTable; 2],
    ngrams: NgramFilter,
    /// The position after each document, which is the first position of the next.
    ends: [Vec<u32>; 2],
    created: Vec<(i64, u32)>,
    updated: Vec<(i64, u32)>,
    /// Buffers, reused for every facet and every text.
    key: Vec<u8>,
    folded: String,
}

/// The result of [`SegmentBuilder::finish`].
pub struct BuiltSegment {
    pub header: SegmentHeader,
    /// The documents that later changes in the same batch superseded.
    pub superseded: Vec<u32>,
    /// The ids of all changed issues, ascending. Their documents in older segments are superseded.
    pub issue_ids: Vec<u64>,
}

impl SegmentBuilder {
    pub fn is_full(&self) -> bool {
        self.document_count >= MAX_DOCUMENTS
            || self.memory() >= MAX_MEMORY
            || self.ngrams.count() >= MAX_NGRAMS
            || self.issues.len() >= 4 * MAX_DOCUMENTS as usize
    }

    /// The bytes of its largest tables.
    pub fn memory(&self) -> usize {
        self.facets.memory() + self.terms.iter().map(TermTable::memory).sum::<usize>()
    }

    pub fn is_empty(&self) -> bool {
        self.issues.is_empty()
    }

    pub fn document_count(&self) -> u32 {
        self.document_count
    }

    pub fn add(&mut self, change: &Change) {
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
            facets.push_once(&facet::stored_key(key), document);
        });
        if let Some(created) = issue.created_at.or(issue.updated_at) {
            self.created.push((created.millis(), document));
        }
        if let Some(updated) = issue.updated_at.or(issue.created_at) {
            self.updated.push((updated.millis(), document));
        }
        for (field, text) in [&issue.title, &issue.description].into_iter().enumerate() {
            self.add_text(field, text);
        }
    }

    /// `field` is an index into [`FIELDS`].
    fn add_text(&mut self, field: usize, text: &str) {
        let SegmentBuilder { terms, ngrams, folded, ends, .. } = self;
        folded.clear();
        text::fold(text, folded);
        let (Some(terms), Some(ends)) = (terms.get_mut(field), ends.get_mut(field)) else { return };
        let mut next = ends.last().copied().unwrap_or_default();
        text::tokens(folded, ANALYZER, |token| {
            if terms.push(token.as_bytes(), next) {
                ngrams::longest_of_term(token, ANALYZER, |ngram| {
                    // If the prefix of two characters was seen, so was the prefix of one.
                    if ngrams.insert(text::ngram_prefix(ngram, 2)) {
                        ngrams.insert(text::ngram_prefix(ngram, 1));
                    }
                    ngrams.insert(ngram);
                });
            }
            next += 1;
        });
        ends.push(next + 1);
        if folded.capacity() > MAX_KEPT_TEXT {
            *folded = String::new();
        }
    }

    /// Writes the pages of the segment. The caller saves the header.
    pub fn finish(mut self, page_store: &dyn PageStore, segment: &str) -> Result<BuiltSegment, StoreError> {
        let mut tables = BTreeMap::new();
        let mut keep = |table: TableName, index: PageIndex| tables.insert(table.as_str().to_owned(), index);
        let sink = |table| page_sink(page_store, segment, table);

        keep(TableName::Facets, write_facets(std::mem::take(&mut self.facets), sink(TableName::Facets))?);

        let mut issues: Vec<(u64, Option<u32>)> = self.issues.drain().collect();
        issues.sort_unstable();
        let mut table = IdIndexWriter::new(sink(TableName::Ids));
        let mut present = issues.iter().filter_map(|(id, document)| Some((*id, (*document)?)));
        present.try_for_each(|(id, document)| table.push(id, document))?;
        keep(TableName::Ids, table.finish()?);

        for (name, timestamps) in [(TableName::Created, &mut self.created), (TableName::Updated, &mut self.updated)] {
            timestamps.sort_unstable();
            let mut table = TimeIndexWriter::new(sink(name), self.document_count);
            timestamps.drain(..).try_for_each(|(millis, document)| table.push(millis, document))?;
            keep(name, table.finish()?);
        }

        for (field, ends) in FIELDS.into_iter().zip(&mut self.ends) {
            // Now `ends` also has the start of the first document.
            ends.insert(0, 0);
            let mut table = LengthsWriter::new(sink(TableName::Lengths(field)));
            let mut lengths = ends.windows(2).filter_map(|pair| Some(pair.last()? - pair.first()? - 1));
            lengths.try_for_each(|length| table.push(length))?;
            keep(TableName::Lengths(field), table.finish()?);
        }

        let sorted = self.terms.each_ref().map(TermTable::sorted);
        let documents = self.ends.each_ref().map(|starts| DocumentMap::new(starts));
        let mut table = DictionaryWriter::new(
            ANALYZER,
            DictionarySinks {
                dictionary: sink(TableName::Dictionary),
                postings: FIELDS.map(|field| sink(TableName::Postings(field))),
                positions: FIELDS.map(|field| sink(TableName::Positions(field))),
            },
        );
        self.for_each_term(&sorted, &documents, |term, lists| table.push(term, lists))?;
        drop(sorted);
        let WrittenDictionary { dictionary, postings, positions, ngrams, affixes, merge_memory } = table.finish()?;
        keep(TableName::Dictionary, dictionary);
        for (field, (postings, positions)) in FIELDS.into_iter().zip(postings.into_iter().zip(positions)) {
            keep(TableName::Postings(field), postings);
            keep(TableName::Positions(field), positions);
        }

        for ((field, terms), starts) in FIELDS.into_iter().zip(&self.terms).zip(&self.ends) {
            let (table, end) = (TableName::Affixes(field), starts.last().copied().unwrap_or_default());
            let positions =
                |affix, text: &str| Ok(frequent::positions_with_affix((terms, ANALYZER), (affix, text), end));
            keep(table, affixes.write(field, sink(table), positions)?);
        }
        let frequent = self.frequent_ngrams(&documents, &ngrams.frequent(u64::from(self.document_count)));
        keep(TableName::Ngrams, ngrams.write(&frequent, sink(TableName::Ngrams))?);

        let issue_ids: Vec<u64> = issues.into_iter().map(|(id, _)| id).collect();
        let ends = self.ends.iter().map(|ends| u64::from(ends.last().copied().unwrap_or_default()));
        let header = SegmentHeader {
            document_count: self.document_count,
            issue_ids: (issue_ids.first().copied().unwrap_or_default(), issue_ids.last().copied().unwrap_or_default()),
            position_count: ends.sum(),
            analyzer: ANALYZER,
            merge_memory,
            tables,
        };
        Ok(BuiltSegment { header, superseded: self.superseded, issue_ids })
    }

    /// Calls `each` for every term in order, with its posting lists. `sorted` has the indexes of the terms of each
    /// field, in order.
    fn for_each_term(
        &self,
        sorted: &[Vec<u32>; 2],
        documents: &[DocumentMap; 2],
        mut each: impl FnMut(&str, [&PostingList; 2]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let [title_terms, description_terms] = &self.terms;
        let [titles, descriptions] = sorted;
        let (mut titles, mut descriptions) = (titles.iter().peekable(), descriptions.iter().peekable());
        let mut lists = [PostingList::default(), PostingList::default()];
        loop {
            let order = match (titles.peek(), descriptions.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(title), Some(description)) => {
                    title_terms.text(**title).cmp(description_terms.text(**description))
                }
            };
            let title = if order.is_le() { titles.next() } else { None };
            let description = if order.is_ge() { descriptions.next() } else { None };
            for (((list, terms), number), documents) in
                lists.iter_mut().zip(&self.terms).zip([title, description]).zip(documents)
            {
                match number {
                    Some(number) => documents.read_list(terms, *number, list),
                    None => list.clear(),
                }
            }
            let text = match (title, description) {
                (Some(title), _) => title_terms.text(*title),
                (None, number) => description_terms.text(number.copied().unwrap_or_default()),
            };
            // Terms are parts of texts, so they are always UTF-8.
            if let Ok(text) = std::str::from_utf8(text) {
                each(text, lists.each_ref())?;
            }
        }
    }

    /// The documents of frequent n-grams.
    fn frequent_ngrams(&self, documents: &[DocumentMap; 2], frequent: &[(Field, Ngram)]) -> FrequentNgrams {
        let mut encoded = FrequentNgrams::new();
        for ((field, terms), documents) in FIELDS.into_iter().zip(&self.terms).zip(documents) {
            let of_field = frequent.iter().filter(|(its, _)| *its == field);
            let ngrams: Vec<Ngram> = of_field.map(|(_, ngram)| *ngram).collect();
            let found = frequent::documents_with_ngrams((terms, ANALYZER), documents, &ngrams, self.document_count);
            for (ngram, documents) in ngrams.into_iter().zip(found) {
                documents.encode_bits(encoded.entry((field, ngram)).or_default());
            }
        }
        encoded
    }
}

/// The longest text whose buffer is reused, in bytes.
const MAX_KEPT_TEXT: usize = 1 << 20;

fn decode(encoded: &[u8], into: &mut Vec<u32>) {
    // `None` means damaged numbers. These were encoded here.
    let _ = positions::for_each(encoded, |number| into.push(number));
}

/// Writes the facets with their sets of documents.
fn write_facets(facets: TermTable, sink: PageSink) -> Result<PageIndex, StoreError> {
    let mut table = TableWriter::new(sink);
    let (mut value, mut encoded, mut documents) = (Vec::new(), Vec::new(), Vec::new());
    for number in facets.sorted() {
        facets.read(number, &mut encoded);
        documents.clear();
        decode(&encoded, &mut documents);
        value.clear();
        set::encode(&mut value, &documents);
        table.push(facets.text(number), &value)?;
    }
    table.finish()
}

#[cfg(test)]
mod tests;
