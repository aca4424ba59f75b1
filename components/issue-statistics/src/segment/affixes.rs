//! Affixes: prefixes and suffixes of terms, of one to three characters. For a frequent affix, the
//! [positions](super::positions) of all its terms in a field are stored. So a phrase that begins or ends within a term
//! unites few position lists, whatever its letters are.
//!
//! The key is `s` (prefix) or `e` (suffix), the characters, `0xff` and the number of a chunk in 4 big-endian bytes. The
//! value is the [set](crate::set) of the positions in the chunk, counted from 0.

use super::postings::PostingsRef;
use super::{Field, Segment, TableName, positions};
use crate::hash::FxHashMap;
use crate::query_cost::{LOOKUP_COST, QueryCost, SearchError};
use crate::set::Bitset;
use crate::table::{PageIndex, TableWriter};
use crate::text::{self, Analyzer, Ngram};
use bytes::Bytes;
use kit::store::StoreError;

/// An affix is frequent if its terms have more than this fraction of all positions, and more than [`MIN_FREQUENT`]
/// positions. So the stored positions are at most a few times all positions. A search for another affix unites only a
/// small fraction of them.
const FREQUENT_SHARE: u64 = 12;
const MIN_FREQUENT: u64 = 256;

/// Positions in a chunk.
const CHUNK: u32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Affix {
    Suffix,
    Prefix,
}

impl Affix {
    /// Whether the UTF-8 of a term has the affix `text`.
    pub fn is_of(self, term: &[u8], text: &str) -> bool {
        let text = text.as_bytes();
        // Most terms already differ in the outermost byte.
        match self {
            Affix::Prefix => term.first() == text.first() && term.starts_with(text),
            Affix::Suffix => term.last() == text.last() && term.ends_with(text),
        }
    }

    fn key(self, text: &str) -> Vec<u8> {
        let kind = match self {
            Affix::Prefix => b"s",
            Affix::Suffix => b"e",
        };
        [kind, text.as_bytes(), &[0xff]].concat()
    }
}

/// Counts the positions of the terms with each longest affix. The counts of shorter affixes follow from these. Arrays
/// are indexed by [`super::FIELDS`].
pub struct AffixCounts {
    analyzer: Analyzer,
    longest: FxHashMap<(Affix, Ngram), [u64; 2]>,
    total: [u64; 2],
}

impl AffixCounts {
    pub fn new(analyzer: Analyzer) -> Self {
        AffixCounts { analyzer, longest: FxHashMap::default(), total: [0; 2] }
    }

    pub fn add_term(&mut self, term: &str, position_counts: [u32; 2]) {
        let add = |counts: &mut [u64; 2]| {
            counts.iter_mut().zip(position_counts).for_each(|(count, more)| *count += u64::from(more));
        };
        add(&mut self.total);
        if text::is_searched_by_part(term, self.analyzer) {
            add(self.longest.entry((Affix::Prefix, text::longest_prefix(term))).or_default());
            add(self.longest.entry((Affix::Suffix, text::longest_suffix(term))).or_default());
        }
    }

    /// The frequent affixes of one field, in the order of their keys.
    fn frequent(&self, field: Field) -> Vec<(Affix, String)> {
        let of = |counts: &[u64; 2]| {
            let [titles, descriptions] = *counts;
            if field == Field::Title { titles } else { descriptions }
        };
        let mut all: FxHashMap<(Affix, Ngram), u64> = FxHashMap::default();
        for ((affix, longest), counts) in &self.longest {
            let mut add = |ngram| *all.entry((*affix, ngram)).or_default() += of(counts);
            match affix {
                Affix::Prefix => text::ngram_prefixes(*longest).for_each(&mut add),
                Affix::Suffix => text::ngram_suffixes(*longest).for_each(&mut add),
            }
        }
        let threshold = (of(&self.total) / FREQUENT_SHARE).max(MIN_FREQUENT);
        let frequent = all.into_iter().filter(|(_, count)| *count > threshold);
        let mut frequent: Vec<(Affix, String)> =
            frequent.map(|((affix, ngram), _)| (affix, text::ngram_text(ngram))).collect();
        frequent.sort_unstable_by_key(|(affix, text)| affix.key(text));
        frequent
    }

    /// Writes the table of one field. `positions` returns the positions of all terms with an affix. It is called for
    /// one affix after the other.
    pub fn write(
        &self,
        field: Field,
        sink: impl FnMut(usize, &[u8]) -> Result<(), StoreError>,
        mut positions: impl FnMut(Affix, &str) -> Result<Bitset, StoreError>,
    ) -> Result<PageIndex, StoreError> {
        let mut table = TableWriter::new(sink);
        for (affix, text) in self.frequent(field) {
            let key = affix.key(&text);
            let positions = positions(affix, &text)?;
            for (number, chunk) in (0_u32..).zip(positions.chunks(CHUNK)) {
                let mut value = Vec::new();
                chunk.encode_smallest(&mut value);
                table.push(&[key.as_slice(), &number.to_be_bytes()].concat(), &value)?;
            }
        }
        table.finish()
    }
}

/// Adds the stored positions of an affix to `found`, each increased by `by`. False if none are stored.
pub fn insert_stored(
    segment: &Segment,
    field: Field,
    affix: Affix,
    text: &str,
    found: &mut Bitset,
    by: u32,
    cost: &QueryCost,
) -> Result<bool, SearchError> {
    let table = TableName::Affixes(field);
    let corrupt = || segment.corrupt(table);
    let key = affix.key(text);
    let mut cursor = segment.table(table).cursor_from(&key)?;
    let mut is_stored = false;
    while let Some(entry) = cursor.next()?
        && let Some(number) = entry.key.strip_prefix(key.as_slice())
    {
        is_stored = true;
        cost.add(entry.value.len() as u64)?;
        let number = number.try_into().map(u32::from_be_bytes).map_err(|_| corrupt())?;
        let start = number.checked_mul(CHUNK).and_then(|start| start.checked_add(by)).ok_or_else(corrupt)?;
        found.union_encoded_shifted(&entry.value, start).ok_or_else(corrupt)?;
    }
    Ok(is_stored)
}

/// Whether the positions of an affix are stored.
pub fn is_stored(segment: &Segment, field: Field, affix: Affix, text: &str) -> Result<bool, StoreError> {
    let key = [affix.key(text).as_slice(), &[0; 4]].concat();
    Ok(segment.table(TableName::Affixes(field)).get(&key)?.is_some())
}

/// Adds the positions of `terms`, which ascend, to `found`, each increased by `by`.
pub fn insert_terms(
    segment: &Segment,
    field: Field,
    terms: &[(Bytes, PostingsRef)],
    found: &mut Bitset,
    by: u32,
    cost: &QueryCost,
) -> Result<(), SearchError> {
    let table = TableName::Positions(field);
    let corrupt = || segment.corrupt(table);
    let mut lists = segment.table(table).cursor_from(&[])?;
    for (term, reference) in terms {
        match reference {
            PostingsRef::Inline { field: its, position, .. } if *its == field => {
                found.insert(position.saturating_add(by));
            }
            PostingsRef::Lists(_) if reference.document_frequency(field) > 0 => {
                let encoded = lists.seek(term)?.ok_or_else(corrupt)?;
                cost.add(LOOKUP_COST + encoded.len() as u64)?;
                positions::for_each(&encoded, |position| found.insert(position.saturating_add(by)))
                    .ok_or_else(corrupt)?;
            }
            _ => {}
        }
    }
    Ok(())
}
