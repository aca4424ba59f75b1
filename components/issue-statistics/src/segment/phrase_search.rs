//! Which documents have a text with white space in it: pieces at neighbouring places. The first word
//! may begin before the text does, and the last may go on.
//!
//! Each piece gives the places where the text would end, as a bit for each place of the segment;
//! what all of them have in common is a match. That takes a pass over the stored places of the words
//! that fit, however common they are, and two bits of memory for each place.

use super::affixes::{self, Side};
use super::dictionary::Reference;
use super::substring_search::{Fit, words};
use super::{Field, Segment, lengths};
use crate::set::Bits;
use crate::text;
use bytes::Bytes;
use kit::store::StoreError;
use roaring::RoaringBitmap;

/// A piece of the text.
struct Piece<'a> {
    text: &'a str,
    /// How many pieces come after it.
    after: u32,
    fit: Fit,
    /// The words that fit; none are looked up if all places are stored.
    words: Vec<(Bytes, Reference)>,
}

/// The documents that have the folded `text`, which has white space inside and none around, in one
/// of `fields`.
pub fn documents(segment: &Segment, text: &str, fields: &[Field]) -> Result<RoaringBitmap, StoreError> {
    let mut texts = Vec::new();
    text::pieces(text, |piece| texts.push(piece));
    let mut pieces = Vec::new();
    for (after, text) in (0..).zip(texts.iter().rev()) {
        let fit = match after {
            0 => Fit::Starts,
            _ if after + 1 == texts.len() as u32 => Fit::Ends,
            _ => Fit::Equals,
        };
        pieces.push(Piece { text, after, fit, words: Vec::new() });
    }
    for piece in &mut pieces {
        if !piece.is_stored(segment, fields)? {
            let found = &mut piece.words;
            words(segment, piece.text, piece.fit, |name, reference| {
                found.push((name, reference));
                Ok(())
            })?;
            if found.is_empty() {
                return Ok(RoaringBitmap::new());
            }
        }
    }
    let mut all = RoaringBitmap::new();
    for field in fields {
        all |= in_field(segment, &mut pieces, *field)?;
    }
    Ok(all)
}

fn in_field(segment: &Segment, pieces: &mut [Piece], field: Field) -> Result<RoaringBitmap, StoreError> {
    // What is rare comes first: it may be in no text at all.
    pieces.sort_by_cached_key(|piece| piece.weight(field));
    if pieces.first().is_none_or(|rarest| rarest.weight(field) == 0) {
        return Ok(RoaringBitmap::new());
    }
    let begins = lengths::begins(segment, field)?;
    let end = begins.last().copied().unwrap_or_default();
    let mut matches: Option<Bits> = None;
    for piece in pieces {
        let mut found = Bits::new(end);
        piece.unite(segment, field, &mut found)?;
        if let Some(before) = &matches {
            found.intersect(before);
        }
        if found.is_empty() {
            return Ok(RoaringBitmap::new());
        }
        matches = Some(found);
    }
    Ok(matches.map(|matches| documents_of(&matches, &begins)).unwrap_or_default())
}

impl Piece<'_> {
    fn side(&self) -> Option<Side> {
        let side = match self.fit {
            Fit::Starts => Side::Start,
            Fit::Ends => Side::End,
            Fit::Equals | Fit::Contains => return None,
        };
        (self.text.chars().count() <= text::GRAM).then_some(side)
    }

    /// Whether all its places are stored, in each of `fields`.
    fn is_stored(&self, segment: &Segment, fields: &[Field]) -> Result<bool, StoreError> {
        let Some(side) = self.side() else { return Ok(false) };
        for field in fields {
            if !affixes::is_stored(segment, *field, side, self.text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// In how many documents its words are, added up; very many if that is not known.
    fn weight(&self, field: Field) -> u64 {
        match self.words.as_slice() {
            [] => u64::MAX,
            words => words.iter().map(|(_, reference)| u64::from(reference.weight(field))).sum(),
        }
    }

    /// Adds the places where the text ends if this piece of it is there.
    fn unite(&self, segment: &Segment, field: Field, found: &mut Bits) -> Result<(), StoreError> {
        if let Some(side) = self.side()
            && affixes::unite(segment, field, side, self.text, found, self.after)?
        {
            return Ok(());
        }
        affixes::unite_words(segment, field, &self.words, found, self.after)
    }
}

/// The documents that have one of the places.
fn documents_of(places: &Bits, begins: &[u32]) -> RoaringBitmap {
    let mut documents = Vec::new();
    let mut document = 0;
    let mut end = 0;
    places.for_each(|place| {
        if place >= end {
            let rest = begins.get(document..).unwrap_or_default();
            document += rest.iter().take_while(|begin| **begin <= place).count();
            end = begins.get(document).copied().unwrap_or(u32::MAX);
            documents.extend(document.checked_sub(1).map(|document| document as u32));
        }
    });
    RoaringBitmap::from_sorted_iter(documents.iter().copied()).unwrap_or_default()
}
