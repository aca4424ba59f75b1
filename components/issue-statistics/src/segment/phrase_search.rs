//! The documents that contain a phrase: tokens at consecutive positions. The first token may be the end of a longer
//! term, the last one its beginning ([`super::query_tokens`]).
//!
//! For each token, a bitset marks the positions at which the phrase would end. The intersection of all bitsets is the
//! matches. The search passes once over the stored positions of the matching terms, however common these are. It takes
//! two bits of memory for each position of the segment.

use super::affixes::{self, Affix};
use super::postings::PostingsRef;
use super::query_tokens::{QueryToken, Tokenization};
use super::term_search::{MatchKind, for_each_match};
use super::{Field, Segment, lengths};
use crate::query_cost::{QueryCost, SearchError};
use crate::set::Bitset;
use crate::text;
use bytes::Bytes;
use kit::store::StoreError;
use roaring::RoaringBitmap;

/// The positions of a bitset that are made and intersected for one unit of cost.
const POSITIONS_PER_UNIT: u32 = 64;

struct PhraseToken {
    text: String,
    /// How many tokens follow in the phrase.
    distance_to_end: u32,
    kind: MatchKind,
    /// The matching terms. Empty if the positions of the affix are stored.
    terms: Vec<(Bytes, PostingsRef)>,
}

/// The documents that contain the tokens consecutively in one of `fields`.
pub fn documents(
    segment: &Segment,
    tokenization: Tokenization,
    fields: &[Field],
    cost: &QueryCost,
) -> Result<RoaringBitmap, SearchError> {
    let mut tokens = Vec::new();
    for (distance_to_end, QueryToken { text, kind }) in (0..).zip(tokenization.into_iter().rev()) {
        tokens.push(PhraseToken { text, distance_to_end, kind, terms: Vec::new() });
    }
    for token in &mut tokens {
        if !token.is_stored(segment, fields)? {
            let terms = &mut token.terms;
            for_each_match(segment, &token.text, token.kind, cost, |term, reference| {
                terms.push((term, reference));
                Ok(())
            })?;
            if terms.is_empty() {
                return Ok(RoaringBitmap::new());
            }
        }
    }
    let mut all = RoaringBitmap::new();
    for field in fields {
        all |= documents_in_field(segment, &mut tokens, *field, cost)?;
    }
    Ok(all)
}

fn documents_in_field(
    segment: &Segment,
    tokens: &mut [PhraseToken],
    field: Field,
    cost: &QueryCost,
) -> Result<RoaringBitmap, SearchError> {
    // The rarest token comes first, because it may be in no document.
    tokens.sort_by_cached_key(|token| token.document_frequency(field));
    if tokens.first().is_none_or(|rarest| rarest.document_frequency(field) == 0) {
        return Ok(RoaringBitmap::new());
    }
    let starts = lengths::document_starts(segment, field)?;
    let end = starts.last().copied().unwrap_or_default();
    let mut matches: Option<Bitset> = None;
    for token in tokens {
        cost.add(u64::from(end / POSITIONS_PER_UNIT))?;
        let mut found = Bitset::new(end);
        token.insert_phrase_ends(segment, field, &mut found, cost)?;
        if let Some(before) = &matches {
            found.intersect(before);
        }
        if found.is_empty() {
            return Ok(RoaringBitmap::new());
        }
        matches = Some(found);
    }
    Ok(matches.map(|matches| documents_with(&matches, &starts)).unwrap_or_default())
}

impl PhraseToken {
    /// The kind of affix that the token is, if the token is short enough.
    fn affix(&self) -> Option<Affix> {
        let affix = match self.kind {
            MatchKind::StartsWith => Affix::Prefix,
            MatchKind::EndsWith => Affix::Suffix,
            MatchKind::Equals | MatchKind::Contains => return None,
        };
        (self.text.chars().count() <= text::MAX_NGRAM).then_some(affix)
    }

    /// Whether the positions of the affix are stored for each of `fields`.
    fn is_stored(&self, segment: &Segment, fields: &[Field]) -> Result<bool, StoreError> {
        let Some(affix) = self.affix() else { return Ok(false) };
        for field in fields {
            if !affixes::is_stored(segment, *field, affix, &self.text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The sum over its terms, or the maximum if the terms are unknown.
    fn document_frequency(&self, field: Field) -> u64 {
        match self.terms.as_slice() {
            [] => u64::MAX,
            terms => terms.iter().map(|(_, reference)| u64::from(reference.document_frequency(field))).sum(),
        }
    }

    /// Adds the positions at which the phrase would end, by this token.
    fn insert_phrase_ends(
        &self,
        segment: &Segment,
        field: Field,
        found: &mut Bitset,
        cost: &QueryCost,
    ) -> Result<(), SearchError> {
        if let Some(affix) = self.affix()
            && affixes::insert_stored(segment, field, affix, &self.text, found, self.distance_to_end, cost)?
        {
            return Ok(());
        }
        affixes::insert_terms(segment, field, &self.terms, found, self.distance_to_end, cost)
    }
}

/// The documents that contain one of the positions.
fn documents_with(positions: &Bitset, starts: &[u32]) -> RoaringBitmap {
    let mut documents = Vec::new();
    let mut locator = lengths::DocumentLocator::new(starts);
    positions.for_each(|position| {
        let document = locator.document_of(position);
        if documents.last() != Some(&document) {
            documents.push(document);
        }
    });
    RoaringBitmap::from_sorted_iter(documents.iter().copied()).unwrap_or_default()
}
