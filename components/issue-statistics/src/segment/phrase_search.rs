//! The documents that contain a phrase: a text with white space in it, whose tokens have consecutive
//! positions. The first token may be the end of a longer term, the last one the beginning of one.
//!
//! Each token gives the positions where the phrase would end, as a bitset over the positions of the
//! segment; the intersection of all is the matches. That takes one pass over the stored positions of
//! the matching terms, however common they are, and two bits of memory for each position.

use super::affixes::{self, Affix};
use super::postings::PostingsRef;
use super::term_search::{MatchKind, for_each_match};
use super::{Field, Segment, lengths};
use crate::set::Bitset;
use crate::text;
use bytes::Bytes;
use kit::store::StoreError;
use roaring::RoaringBitmap;

struct PhraseToken<'a> {
    text: &'a str,
    /// How many tokens come after it in the phrase.
    distance_to_end: u32,
    kind: MatchKind,
    /// The matching terms; empty if all positions are stored by affix.
    terms: Vec<(Bytes, PostingsRef)>,
}

/// The documents that have the folded `text`, which has white space inside and none around, in one
/// of `fields`.
pub fn documents(segment: &Segment, text: &str, fields: &[Field]) -> Result<RoaringBitmap, StoreError> {
    let mut texts = Vec::new();
    text::tokens(text, |token| texts.push(token));
    let mut tokens = Vec::new();
    for (distance_to_end, text) in (0..).zip(texts.iter().rev()) {
        let kind = match distance_to_end {
            0 => MatchKind::StartsWith,
            _ if distance_to_end + 1 == texts.len() as u32 => MatchKind::EndsWith,
            _ => MatchKind::Equals,
        };
        tokens.push(PhraseToken { text, distance_to_end, kind, terms: Vec::new() });
    }
    for token in &mut tokens {
        if !token.is_stored(segment, fields)? {
            let terms = &mut token.terms;
            for_each_match(segment, token.text, token.kind, |term, reference| {
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
        all |= documents_in_field(segment, &mut tokens, *field)?;
    }
    Ok(all)
}

fn documents_in_field(
    segment: &Segment,
    tokens: &mut [PhraseToken],
    field: Field,
) -> Result<RoaringBitmap, StoreError> {
    // The rarest token comes first: it may be in no document at all.
    tokens.sort_by_cached_key(|token| token.document_frequency(field));
    if tokens.first().is_none_or(|rarest| rarest.document_frequency(field) == 0) {
        return Ok(RoaringBitmap::new());
    }
    let starts = lengths::document_starts(segment, field)?;
    let end = starts.last().copied().unwrap_or_default();
    let mut matches: Option<Bitset> = None;
    for token in tokens {
        let mut found = Bitset::new(end);
        token.insert_phrase_ends(segment, field, &mut found)?;
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

impl PhraseToken<'_> {
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
            if !affixes::is_stored(segment, *field, affix, self.text)? {
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
    fn insert_phrase_ends(&self, segment: &Segment, field: Field, found: &mut Bitset) -> Result<(), StoreError> {
        if let Some(affix) = self.affix()
            && affixes::insert_stored(segment, field, affix, self.text, found, self.distance_to_end)?
        {
            return Ok(());
        }
        affixes::insert_terms(segment, field, &self.terms, found, self.distance_to_end)
    }
}

/// The documents that have one of the positions.
fn documents_with(positions: &Bitset, starts: &[u32]) -> RoaringBitmap {
    let mut documents = Vec::new();
    let mut document = 0;
    let mut end = 0;
    positions.for_each(|position| {
        if position >= end {
            let rest = starts.get(document..).unwrap_or_default();
            document += rest.iter().take_while(|start| **start <= position).count();
            end = starts.get(document).copied().unwrap_or(u32::MAX);
            documents.extend(document.checked_sub(1).map(|document| document as u32));
        }
    });
    RoaringBitmap::from_sorted_iter(documents.iter().copied()).unwrap_or_default()
}
