//! The n-gram index: the blocks of the dictionary that have terms with each n-gram. For frequent n-grams, the documents
//! are stored too, so that a search for `e` unites nothing.

use crate::hash::FxHashMap;
use crate::segment::positions;
use crate::set::{self, Bitset};
use crate::table::{Entry, PageIndex, TableWriter};
use crate::text::{self, Analyzer, Ngram};
use kit::store::StoreError;
use std::collections::BTreeMap;

/// An n-gram is frequent if the document frequencies of its terms have a high sum. It must exceed this factor times the
/// documents of the segment, and [`MIN_FREQUENT`]. The sum is the cost of uniting the posting lists.
const FREQUENT_FACTOR: u64 = 4;
const MIN_FREQUENT: u64 = 4096;

/// The approximate bytes of an n-gram in memory, without its list.
pub const ENTRY_MEMORY: u64 = 100;

/// The encoded documents of frequent n-grams.
pub type FrequentNgrams = BTreeMap<(Field, Ngram), Vec<u8>>;

/// Counts the longest n-gram at each character of each term. The shorter ones follow: a term with `abc` also has `ab`
/// and `a`.
pub struct NgramCounts {
    analyzer: Analyzer,
    longest: FxHashMap<Ngram, Blocks>,
    block_count: u32,
}

/// The dictionary blocks that have one n-gram.
#[derive(Clone, Default)]
struct Blocks {
    /// The ascending numbers of the blocks, encoded as [positions].
    numbers: Vec<u8>,
    /// The sums over all terms, indexed by [`FIELDS`].
    document_frequencies: [u64; 2],
    /// The last number.
    last: u32,
}

impl Blocks {
    fn add_frequencies(&mut self, more: [u64; 2]) {
        self.document_frequencies.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
}

impl NgramCounts {
    pub fn new(analyzer: Analyzer) -> Self {
        NgramCounts { analyzer, longest: FxHashMap::default(), block_count: 0 }
    }

    /// Terms must come in the order of the dictionary. `document_frequencies` is indexed by [`FIELDS`].
    pub fn add_term(&mut self, term: &str, block: u32, document_frequencies: [u32; 2]) {
        self.block_count = block + 1;
        let document_frequencies = document_frequencies.map(u64::from);
        longest_of_term(term, self.analyzer, |ngram| {
            let blocks = self.longest.entry(ngram).or_default();
            blocks.add_frequencies(document_frequencies);
            if blocks.numbers.is_empty() || blocks.last < block {
                positions::append(&mut blocks.numbers, block, &mut blocks.last);
            }
        });
    }

    pub fn finish(self) -> Ngrams {
        let mut longest: Vec<(Ngram, Blocks)> = self.longest.into_iter().collect();
        longest.sort_unstable_by_key(|(ngram, _)| text::ngram_rank(*ngram));
        let two = with_common_prefix(&longest, 2, self.block_count);
        let one = with_common_prefix(&two, 1, self.block_count);
        let longer = |all: Vec<(Ngram, Blocks)>, than: u32| {
            all.into_iter().filter(move |(ngram, _)| text::ngram_prefix(*ngram, than) != *ngram)
        };
        let mut all: Vec<(Ngram, Blocks)> = one.into_iter().chain(longer(two, 1)).chain(longer(longest, 2)).collect();
        all.sort_unstable_by_key(|(ngram, _)| text::ngram_rank(*ngram));
        Ngrams(all)
    }
}

/// The distinct prefixes of at most `length` characters of sorted n-grams. Each has the blocks of all n-grams that
/// begin with it.
fn with_common_prefix(sorted: &[(Ngram, Blocks)], length: u32, block_count: u32) -> Vec<(Ngram, Blocks)> {
    let prefix = |(ngram, _): &(Ngram, Blocks)| text::ngram_prefix(*ngram, length);
    let mut groups = Vec::new();
    for group in sorted.chunk_by(|one, next| prefix(one) == prefix(next)) {
        if let [one] = group {
            groups.push((prefix(one), one.1.clone()));
            continue;
        }
        let mut numbers = Bitset::new(block_count);
        let mut all = Blocks::default();
        for (_, blocks) in group {
            all.add_frequencies(blocks.document_frequencies);
            // `None` means damaged numbers. These were encoded here.
            let _ = positions::for_each(&blocks.numbers, |number| numbers.insert(number));
        }
        numbers.for_each(|number| positions::append(&mut all.numbers, number, &mut all.last));
        groups.extend(group.first().map(|first| (prefix(first), all)));
    }
    groups
}

/// All n-grams of the terms of a segment, in the order of their texts.
pub struct Ngrams(Vec<(Ngram, Blocks)>);

impl Ngrams {
    /// The approximate bytes of all n-grams in memory.
    pub fn memory(&self) -> u64 {
        self.0.iter().map(|(_, blocks)| ENTRY_MEMORY + blocks.numbers.len() as u64).sum()
    }

    /// The frequent n-grams of a segment with `document_count` documents. The prefixes of a frequent n-gram are
    /// frequent, too.
    pub fn frequent(&self, document_count: u64) -> Vec<(Field, Ngram)> {
        let threshold = (FREQUENT_FACTOR * document_count).max(MIN_FREQUENT);
        let of = |(ngram, blocks): &(Ngram, Blocks)| {
            let sums = FIELDS.into_iter().zip(blocks.document_frequencies);
            sums.filter(|(_, sum)| *sum > threshold).map(|(field, _)| (field, *ngram)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    pub fn write(
        &self,
        frequent: &FrequentNgrams,
        sink: impl FnMut(usize, &[u8]) -> Result<(), StoreError>,
    ) -> Result<PageIndex, StoreError> {
        let mut table = TableWriter::new(sink);
        let (mut value, mut numbers) = (Vec::new(), Vec::new());
        for (ngram, blocks) in &self.0 {
            numbers.clear();
            // `None` means damaged numbers. These were encoded here.
            let _ = positions::for_each(&blocks.numbers, |number| numbers.push(number));
            value.clear();
            set::encode(&mut value, &numbers);
            table.push(&blocks_key(&text::ngram_text(*ngram)), &value)?;
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

/// Calls `each` for the longest n-grams of a term, if searches may match parts of the term.
pub fn longest_of_term(term: &str, analyzer: Analyzer, each: impl FnMut(Ngram)) {
    if text::is_searched_by_part(term, analyzer) {
        text::longest_ngrams(term, each);
    }
}

/// The key of the blocks with an n-gram.
pub fn blocks_key(ngram: &str) -> Vec<u8> {
    [b"b", ngram.as_bytes()].concat()
}

/// Whether the entry has the blocks with an n-gram, and not its documents.
pub fn is_of_blocks(entry: &Entry) -> bool {
    entry.key.starts_with(b"b")
}

/// The key of the documents with a frequent n-gram.
pub fn documents_key(field: Field, ngram: &str) -> Vec<u8> {
    let kind = match field {
        Field::Title => b"t",
        Field::Description => b"d",
    };
    [kind, ngram.as_bytes()].concat()
}

/// A searchable text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    Title,
    Description,
}

pub const FIELDS: [Field; 2] = [Field::Title, Field::Description];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_ngrams_follow_from_the_longest() {
        let terms = ["a", "ab", "abab", "abcab", "b", "ba", "cab", "xé語", "語", " +ab", "\n"];
        let mut counts = NgramCounts::new(Analyzer::Runs);
        // By text: the blocks, and the sums of document frequencies.
        let mut expected: BTreeMap<String, (Vec<u32>, [u64; 2])> = BTreeMap::new();
        for number in 0..300_u32 {
            let (term, block) = (terms[(number * 7 % 11) as usize], number / 4);
            counts.add_term(term, block, [number % 3, 1]);
            if term.starts_with([' ', '\n', '語']) {
                continue;
            }
            let chars: Vec<char> = term.chars().collect();
            for window in (1..=3).flat_map(|length| chars.windows(length)) {
                let (blocks, sums) = expected.entry(window.iter().collect()).or_default();
                if blocks.last() != Some(&block) {
                    blocks.push(block);
                }
                *sums = [sums[0] + u64::from(number % 3), sums[1] + 1];
            }
        }
        let ngrams = counts.finish();
        let found = ngrams.0.iter().map(|(ngram, blocks)| {
            let mut numbers = Vec::new();
            positions::for_each(&blocks.numbers, |number| numbers.push(number)).unwrap();
            (text::ngram_text(*ngram), (numbers, blocks.document_frequencies))
        });
        assert_eq!(found.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
    }
}
