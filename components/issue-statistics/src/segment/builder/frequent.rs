//! Frequent affixes and n-grams, which very many terms of a batch have in common. Terms are visited in memory order,
//! once for each affix and once for all n-grams.

use super::document_map::DocumentMap;
use super::ngram_filter::NgramFilter;
use super::term_table::TermTable;
use crate::hash::FxHashMap;
use crate::segment::affixes::Affix;
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
