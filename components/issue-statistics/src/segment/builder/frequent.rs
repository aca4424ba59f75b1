//! Frequent affixes and n-grams, which very many terms of a batch have in common. Terms are visited in memory order,
//! once for each affix and once for all n-grams.
//!
//! Finds the documents of positions in a batch. Most terms of logs occur once. So a batch has hundreds of thousands of
//! short lists, in no order.
//!
//! An approximate set of n-grams: one bit for each hash. It estimates their number, and it knows for sure that some
//! n-grams are absent.

use crate::hash::FxHashMap;
use crate::segment::affixes::Affix;
use crate::segment::builder::term_table::TermTable;
use crate::segment::postings::PostingList;
use crate::segment::{ngrams, positions};
use crate::set::Bitset;
use crate::text::{self, Analyzer, Ngram};

/// The positions of the terms with an affix. All positions are below `end`.
pub fn positions_with_affix(
    (terms, analyzer): (&TermTable, Analyzer),
    (affix, text): (Affix, &str),
    end: u32,
) -> Bitset {
    let mut found = Bitset::new(end);
    let mut encoded = Vec::new();
    for number in 0..terms.len() as u32 {
        let term = terms.text(number);
        if affix.is_of(term, text)
            && std::str::from_utf8(term).is_ok_and(|term| text::is_searched_by_part(term, analyzer))
        {
            terms.read(number, &mut encoded);
            // `None` means damaged positions. These were encoded here.
            let _ = positions::for_each(&encoded, |position| found.insert(position));
        }
    }
    found
}

/// The documents of the terms with each of the n-grams `of`. All documents are below `document_count`. `of` also
/// contains the prefixes of each n-gram.
pub fn documents_with_ngrams(
    (terms, analyzer): (&TermTable, Analyzer),
    documents: &DocumentMap,
    of: &[Ngram],
    document_count: u32,
) -> Vec<Bitset> {
    let mut found: Vec<Bitset> = of.iter().map(|_| Bitset::new(document_count)).collect();
    if of.is_empty() {
        return found;
    }
    let indexes: FxHashMap<Ngram, usize> = of.iter().copied().zip(0..).collect();
    let mut filter = NgramFilter::default();
    of.iter().for_each(|ngram| _ = filter.insert(*ngram));
    let index_of = |ngram: Ngram| if filter.may_contain(ngram) { indexes.get(&ngram).copied() } else { None };
    let (mut of_term, mut list) = (Vec::new(), PostingList::default());
    // The last term with each n-gram. A term may contain an n-gram several times.
    let mut last_terms = vec![u32::MAX; of.len()];
    // For each document, how many n-grams were not found in it yet.
    let mut missing = vec![of.len() as u32; document_count as usize];
    for number in 0..terms.len() as u32 {
        let only = terms.only_number(number).map(|position| documents.document_of(position).0);
        if only.is_some_and(|document| missing.get(document as usize) == Some(&0)) {
            continue;
        }
        let Ok(term) = std::str::from_utf8(terms.text(number)) else { continue };
        of_term.clear();
        ngrams::longest_of_term(term, analyzer, |ngram| {
            for index in text::ngram_prefixes(ngram).map_while(index_of) {
                if let Some(last) = last_terms.get_mut(index).filter(|last| **last != number) {
                    *last = number;
                    of_term.push(index);
                }
            }
        });
        if of_term.is_empty() {
            continue;
        }
        documents.read_list(terms, number, &mut list);
        for index in &of_term {
            let Some(found) = found.get_mut(*index) else { continue };
            for document in &list.documents {
                if !found.contains(*document) {
                    found.insert(*document);
                    missing.get_mut(*document as usize).into_iter().for_each(|missing| *missing -= 1);
                }
            }
        }
    }
    found
}

/// The document of the first position in each bucket, so that a look-up takes a step or two.
pub struct DocumentMap<'a> {
    starts: &'a [u32],
    /// The document of the first position in each bucket. A bucket has about as many positions as the average document.
    buckets: Vec<u32>,
    /// The binary logarithm of the number of positions in a bucket.
    shift: u32,
}

impl<'a> DocumentMap<'a> {
    /// `starts` has the first position of each document, and then the position after the last document.
    pub fn new(starts: &'a [u32]) -> Self {
        let (documents, end) = match starts {
            [documents @ .., end] => (documents, *end),
            [] => (starts, 0),
        };
        let shift = (end / documents.len().max(1) as u32).checked_ilog2().unwrap_or_default();
        let mut buckets = Vec::new();
        let mut document = 0;
        for first in (0..end).step_by(1 << shift) {
            while starts.get(document + 1).is_some_and(|next| *next <= first) {
                document += 1;
            }
            buckets.push(document as u32);
        }
        DocumentMap { starts, buckets, shift }
    }

    /// The document of a position, and the first position of the next document.
    pub fn document_of(&self, position: u32) -> (u32, u32) {
        let bucket = (position >> self.shift) as usize;
        let first = self.buckets.get(bucket).copied().unwrap_or_default();
        let last = self.buckets.get(bucket + 1).map_or(self.starts.len(), |document| *document as usize + 1);
        let later = self.starts.get(first as usize + 1..last).unwrap_or_default();
        let document = first + later.partition_point(|start| *start <= position) as u32;
        (document, self.starts.get(document as usize + 1).copied().unwrap_or(u32::MAX))
    }

    /// Replaces `list` by the occurrences of a term.
    pub fn read_list(&self, terms: &TermTable, number: u32, list: &mut PostingList) {
        list.clear();
        terms.read(number, &mut list.positions);
        list.position_count = terms.count(number);
        let PostingList { documents, positions, last_position, .. } = list;
        let mut end = 0;
        // `None` means damaged positions. These were encoded here.
        let _ = positions::for_each(positions, |position| {
            if position >= end {
                let document;
                (document, end) = self.document_of(position);
                documents.push(document);
            }
            *last_position = position;
        });
    }
}

/// The binary logarithm of the number of bits. A count of [`crate::segment::builder::MAX_NGRAMS`] is then about a tenth too low.
const BITS: u32 = 20;

#[derive(Default)]
pub struct NgramFilter {
    seen: Vec<u64>,
    count: u32,
}

/// The index of the word that has the bit of an n-gram, and the bit in this word.
#[inline]
fn bit_of(ngram: Ngram) -> (usize, u64) {
    let hash = ngram.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS);
    ((hash / 64) as usize, 1 << (hash % 64))
}

impl NgramFilter {
    /// Adds an n-gram. True if it is certainly new.
    #[inline]
    pub fn insert(&mut self, ngram: Ngram) -> bool {
        if self.seen.is_empty() {
            self.seen = vec![0; 1 << (BITS - 6)];
        }
        let (word, bit) = bit_of(ngram);
        let Some(word) = self.seen.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        self.count += u32::from(is_new);
        *word |= bit;
        is_new
    }

    /// False if the n-gram was certainly not inserted.
    #[inline]
    pub fn may_contain(&self, ngram: Ngram) -> bool {
        let (word, bit) = bit_of(ngram);
        self.seen.get(word).is_some_and(|word| word & bit != 0)
    }

    /// The approximate number of n-grams that were inserted.
    pub fn count(&self) -> u32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_is_in_its_document() {
        let uneven: Vec<u32> = (0..500).map(|number| if number == 300 { 20_000 } else { number % 3 }).collect();
        for lengths in [vec![], vec![0], vec![7], vec![0, 5, 0, 0, 1, 70, 3], vec![0; 100], uneven] {
            let mut starts = vec![0];
            lengths.iter().for_each(|length| starts.push(starts.last().unwrap() + length + 1));
            let map = DocumentMap::new(&starts);
            assert!(map.buckets.len() <= 2 * starts.len(), "{} for {}", map.buckets.len(), starts.len());
            for (document, range) in starts.windows(2).enumerate() {
                for position in range[0]..range[1] {
                    assert_eq!(map.document_of(position), (document as u32, range[1]), "{position} of {lengths:?}");
                }
            }
        }
    }
}

#[cfg(test)]
mod ngram_filter_tests {
    use super::*;

    #[test]
    fn inserted_ngrams_are_counted_and_found() {
        let mut filter = NgramFilter::default();
        let ngram = |number: u64| number << 21 | number << 42 | 97;
        (0..100_000).chain(0..50_000).for_each(|number| _ = filter.insert(ngram(number)));
        assert!(!filter.insert(ngram(7)));
        assert!((90_000..=100_000).contains(&filter.count()), "{}", filter.count());
        assert!((0..100_000).all(|number| filter.may_contain(ngram(number))));
        let others = (100_000..200_000).filter(|number| filter.may_contain(ngram(*number))).count();
        assert!(others < 20_000, "{others}");
    }
}
