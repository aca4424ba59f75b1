//! The n-gram index: which blocks of the dictionary have terms with each n-gram. For the n-grams that
//! very many terms have, the documents are stored too, so that a search for `e` unites nothing.

use super::field::{FIELDS, Field};
use crate::hash::FxHashMap;
use crate::set;
use crate::table::{PageIndex, TableWriter};
use crate::text::{self, Analyzer, Ngram};
use crate::varint;
use kit::store::StoreError;
use std::collections::BTreeMap;

/// An n-gram is frequent if the document frequencies of its terms add up to more than so many times
/// the documents of the segment, and to more than [`MIN_FREQUENT`]: what a union of them would cost.
const FREQUENT_FACTOR: u64 = 4;
const MIN_FREQUENT: u64 = 4096;

/// About the bytes that an n-gram takes in memory beside its list.
pub const ENTRY_MEMORY: u64 = 100;

/// The encoded documents of frequent n-grams.
pub type FrequentNgrams = BTreeMap<(Field, Ngram), Vec<u8>>;

pub struct NgramWriter {
    analyzer: Analyzer,
    blocks: FxHashMap<Ngram, Blocks>,
}

/// The blocks of the dictionary with one n-gram.
#[derive(Default)]
struct Blocks {
    /// Deltas between the numbers, as variable-length numbers.
    deltas: Vec<u8>,
    /// The sums over all terms, by [`FIELDS`].
    document_frequencies: [u64; 2],
    /// One more than the last number; 0 if there is none.
    next: u32,
}

impl NgramWriter {
    pub fn new(analyzer: Analyzer) -> Self {
        NgramWriter { analyzer, blocks: FxHashMap::default() }
    }

    /// Terms come in the order of the dictionary. `document_frequencies` are by [`FIELDS`].
    pub fn add_term(&mut self, term: &str, block: u32, document_frequencies: [u32; 2]) {
        of_term(term, self.analyzer, |ngram| {
            let blocks = self.blocks.entry(ngram).or_default();
            let sums = blocks.document_frequencies.iter_mut().zip(document_frequencies);
            sums.for_each(|(sum, more)| *sum += u64::from(more));
            if blocks.next <= block {
                varint::write(&mut blocks.deltas, u64::from(block - blocks.next.saturating_sub(1)));
                blocks.next = block + 1;
            }
        });
    }

    /// About the bytes that it takes.
    pub fn memory(&self) -> u64 {
        self.blocks.values().map(|blocks| ENTRY_MEMORY + blocks.deltas.len() as u64).sum()
    }

    /// The frequent n-grams of a segment with so many documents.
    pub fn frequent(&self, document_count: u64) -> Vec<(Field, Ngram)> {
        let threshold = (FREQUENT_FACTOR * document_count).max(MIN_FREQUENT);
        let of = |(ngram, blocks): (&Ngram, &Blocks)| {
            let sums = FIELDS.into_iter().zip(blocks.document_frequencies);
            sums.filter(|(_, sum)| *sum > threshold).map(|(field, _)| (field, *ngram)).collect::<Vec<_>>()
        };
        self.blocks.iter().flat_map(of).collect()
    }

    pub fn finish(
        self,
        frequent: &FrequentNgrams,
        sink: impl FnMut(usize, &[u8]) -> Result<(), StoreError>,
    ) -> Result<PageIndex, StoreError> {
        let mut table = TableWriter::new(sink);
        let mut ngrams: Vec<(String, Blocks)> =
            self.blocks.into_iter().map(|(ngram, blocks)| (text::ngram_text(ngram), blocks)).collect();
        ngrams.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut key = Vec::new();
        let mut value = Vec::new();
        for (ngram, blocks) in &ngrams {
            key.clear();
            key.push(b'b');
            key.extend_from_slice(ngram.as_bytes());
            value.clear();
            let mut number = 0;
            let mut numbers = Vec::new();
            let mut rest = varint::Reader(&blocks.deltas);
            while let Some(delta) = rest.u32() {
                number += delta;
                numbers.push(number);
            }
            set::encode(&mut value, &numbers);
            table.push(&key, &value)?;
        }
        let mut frequent: Vec<(Vec<u8>, &Vec<u8>)> = frequent
            .iter()
            .map(|((field, ngram), documents)| (documents_key(*field, &text::ngram_text(*ngram)), documents))
            .collect();
        // `t` and `d` sort after `b`.
        frequent.sort_unstable();
        frequent.into_iter().try_for_each(|(key, documents)| table.push(&key, documents))?;
        table.finish()
    }
}

/// Calls `each` for the n-grams of a term, if it is searched by its parts.
pub fn of_term(term: &str, analyzer: Analyzer, each: impl FnMut(Ngram)) {
    if text::is_searched_by_part(term, analyzer) {
        text::ngrams(term, each);
    }
}

/// The key of the blocks with an n-gram.
pub fn blocks_key(ngram: &str) -> Vec<u8> {
    [b"b", ngram.as_bytes()].concat()
}

/// The key of the documents with a frequent n-gram.
pub fn documents_key(field: Field, ngram: &str) -> Vec<u8> {
    let kind = match field {
        Field::Title => b"t",
        Field::Description => b"d",
    };
    [kind, ngram.as_bytes()].concat()
}
