//! The documents that contain a phrase: tokens at consecutive positions. The first token may be the end
//! of a longer term, the last one the beginning of one ([`super::query_tokens`]).
//!
//! Each token gives the positions where the phrase would end, as a bitset over the positions of the
//! segment; the intersection of all is the matches. That takes one pass over the stored positions of
//! the matching terms, however common they are, and two bits of memory for each position.

use super::affixes::{self, Affix};
use super::postings::PostingsRef;
use super::query_tokens::{QueryToken, Reading};
use super::term_search::{MatchKind, for_each_match};
use super::{Field, Segment, lengths};
use crate::set::Bitset;
use crate::text;
use crate::work::{SearchError, WorkBudget};
use bytes::Bytes;
use kit::store::StoreError;
use roaring::RoaringBitmap;

/// Positions of a bitset that are made and intersected in one step.
const BITS_IN_A_STEP: u32 = 64;

struct PhraseToken {
    text: String,
    /// How many tokens come after it in the phrase.
    distance_to_end: u32,
    kind: MatchKind,
    /// The matching terms; empty if all positions are stored by affix.
    terms: Vec<(Bytes, PostingsRef)>,
}

/// The documents that have the tokens one after the other in one of `fields`.
pub fn documents(
    segment: &Segment,
    reading: Reading,
    fields: &[Field],
    work: &WorkBudget,
) -> Result<RoaringBitmap, SearchError> {
    let mut tokens = Vec::new();
    for (distance_to_end, QueryToken { text, kind }) in (0..).zip(reading.into_iter().rev()) {
        tokens.push(PhraseToken { text, distance_to_end, kind, terms: Vec::new() });
    }
    for token in &mut tokens {
        if !token.is_stored(segment, fields)? {
            let terms = &mut token.terms;
            for_each_match(segment, &token.text, token.kind, work, |term, reference| {
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
        all |= documents_in_field(segment, &mut tokens, *field, work)?;
    }
    Ok(all)
}

fn documents_in_field(
    segment: &Segment,
    tokens: &mut [PhraseToken],
    field: Field,
    work: &WorkBudget,
) -> Result<RoaringBitmap, SearchError> {
    // The rarest token comes first: it may be in no document at all.
    tokens.sort_by_cached_key(|token| token.document_frequency(field));
    if tokens.first().is_none_or(|rarest| rarest.document_frequency(field) == 0) {
        return Ok(RoaringBitmap::new());
    }
    let starts = lengths::document_starts(segment, field)?;
    let end = starts.last().copied().unwrap_or_default();
    let mut matches: Option<Bitset> = None;
    for token in tokens {
        work.spend(u64::from(end / BITS_IN_A_STEP))?;
        let mut found = Bitset::new(end);
        token.insert_phrase_ends(segment, field, &mut found, work)?;
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
    /// The kind of affix that the token is, if it is short enough for one.
    fn affix(&self) -> Option<Affix> {
        let affix = match self.kind {
            MatchKind::StartsWith => Affix::Prefix,
            MatchKind::EndsWith => Affix::Suffix,
            MatchKind::Equals | MatchKind::Contains => return None,
        };
        (self.text.chars().count() <= text::MAX_NGRAM).then_some(affix)
    }

    /// Whether its positions in each of `fields` are stored by affix.
    fn is_stored(&self, segment: &Segment, fields: &[Field]) -> Result<bool, StoreError> {
        let Some(affix) = self.affix() else { return Ok(false) };
        for field in fields {
            if !affixes::is_stored(segment, *field, affix, &self.text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The sum over its terms; the maximum if that is not known.
    fn document_frequency(&self, field: Field) -> u64 {
        match self.terms.as_slice() {
            [] => u64::MAX,
            terms => terms.iter().map(|(_, reference)| u64::from(reference.document_frequency(field))).sum(),
        }
    }

    /// Adds the positions where the phrase ends if it has this token.
    fn insert_phrase_ends(
        &self,
        segment: &Segment,
        field: Field,
        found: &mut Bitset,
        work: &WorkBudget,
    ) -> Result<(), SearchError> {
        if let Some(affix) = self.affix()
            && affixes::insert_stored(segment, field, affix, &self.text, found, self.distance_to_end, work)?
        {
            return Ok(());
        }
        affixes::insert_terms(segment, field, &self.terms, found, self.distance_to_end, work)
    }
}

/// The documents that have one of the positions.
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
