//! Merges several adjacent segments into one, without superseded documents.
//!
//! All tables are read and written in order, one page of each at a time. So memory does not grow with the segments.
//! Only the blocks of each n-gram and the position lists of one term are kept whole. The merge policy bounds both.

mod blocks;
mod input;
mod texts;

pub use input::MergeInput;

use super::dictionary_writer::{DictionarySinks, DictionaryWriter};
use super::id_index::IdIndexWriter;
use super::lengths::LengthsWriter;
use super::time_index::TimeIndexWriter;
use super::{FIELDS, PageStore, SegmentHeader, TableName, page_sink};
use crate::table::{PageIndex, TableWriter};
use blocks::{merge_facets, merge_ids, merge_times};
use kit::store::StoreError;
use std::collections::BTreeMap;
use texts::{merge_affix, merge_dictionaries, merge_frequent_ngrams, merge_lengths};

/// Merges `inputs` into the segment `id` and writes its pages. The inputs have one analyzer, and together
/// `document_count` documents without tombstones. The caller saves the header.
pub fn merge(
    inputs: &[MergeInput],
    document_count: u32,
    page_store: &dyn PageStore,
    id: &str,
) -> Result<SegmentHeader, StoreError> {
    let sink = |table| page_sink(page_store, id, table);
    let mut tables = BTreeMap::new();
    let mut keep = |table: TableName, index: PageIndex| tables.insert(table.as_str().to_owned(), index);

    keep(TableName::Facets, merge_facets(inputs, TableWriter::new(sink(TableName::Facets)))?);
    let (index, issue_ids) = merge_ids(inputs, IdIndexWriter::new(sink(TableName::Ids)))?;
    keep(TableName::Ids, index);
    for table in [TableName::Created, TableName::Updated] {
        keep(table, merge_times(inputs, table, TimeIndexWriter::new(sink(table), document_count))?);
    }
    let mut maps = [Vec::new(), Vec::new()];
    let mut ends = [0; 2];
    for ((field, maps), end) in FIELDS.into_iter().zip(&mut maps).zip(&mut ends) {
        let table = TableName::Lengths(field);
        let (index, next_position) = merge_lengths(inputs, field, LengthsWriter::new(sink(table)), maps)?;
        keep(table, index);
        *end = next_position;
    }
    let analyzer = inputs.first().map(|input| input.segment.header.analyzer).unwrap_or_default();
    let table = DictionaryWriter::new(
        analyzer,
        DictionarySinks {
            dictionary: sink(TableName::Dictionary),
            postings: FIELDS.map(|field| sink(TableName::Postings(field))),
            positions: FIELDS.map(|field| sink(TableName::Positions(field))),
        },
    );
    let written = merge_dictionaries(inputs, &maps, table)?.finish()?;
    keep(TableName::Dictionary, written.dictionary);
    let indexes = written.postings.into_iter().zip(written.positions);
    for (field, (postings, positions)) in FIELDS.into_iter().zip(indexes) {
        keep(TableName::Postings(field), postings);
        keep(TableName::Positions(field), positions);
    }
    for ((field, maps), end) in FIELDS.into_iter().zip(&maps).zip(ends) {
        let table = TableName::Affixes(field);
        let positions = |affix, text: &str| merge_affix(inputs, maps, end, field, (affix, text));
        keep(table, written.affixes.write(field, sink(table), positions)?);
    }
    let frequent = written.ngrams.frequent(document_count.into());
    let frequent = merge_frequent_ngrams(inputs, frequent, document_count)?;
    keep(TableName::Ngrams, written.ngrams.write(&frequent, sink(TableName::Ngrams))?);
    let position_count = ends.into_iter().map(u64::from).sum();
    let merge_memory = written.merge_memory;
    Ok(SegmentHeader { document_count, issue_ids, position_count, analyzer, merge_memory, tables })
}
