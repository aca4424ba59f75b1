//! Which documents have a text with white space in it: words one after the other, with the same
//! gaps between them. The first word may begin before the text does, and the last may go on.

use super::places;
use super::search::{Fit, words};
use super::words::Reference;
use super::{Field, Part, Segment};
use crate::set;
use crate::text;
use bytes::Bytes;
use kit::store::Fault;
use roaring::RoaringBitmap;

/// The documents that have the folded `text`, which has white space inside and none around, in one
/// of `fields`.
pub fn documents(segment: &Segment, text: &str, fields: &[Field]) -> Result<RoaringBitmap, Fault> {
    let mut pieces = Vec::new();
    text::pieces(text, |piece| pieces.push(piece));
    let last = pieces.len().saturating_sub(1);
    let mut found: Vec<Vec<(Bytes, Reference)>> = Vec::new();
    for (place, piece) in pieces.iter().enumerate() {
        let fit = match place {
            0 => Fit::Ends,
            place if place == last => Fit::Starts,
            _ => Fit::Equals,
        };
        let mut fitting = Vec::new();
        words(segment, piece, fit, |name, reference| {
            fitting.push((name, reference));
            Ok(())
        })?;
        if fitting.is_empty() {
            return Ok(RoaringBitmap::new());
        }
        found.push(fitting);
    }
    let mut all = RoaringBitmap::new();
    for field in fields {
        all |= in_field(segment, &found, *field)?;
    }
    Ok(all)
}

fn in_field(segment: &Segment, pieces: &[Vec<(Bytes, Reference)>], field: Field) -> Result<RoaringBitmap, Fault> {
    let mut common: Option<RoaringBitmap> = None;
    for fitting in pieces {
        let mut documents = RoaringBitmap::new();
        for (name, reference) in fitting {
            match reference {
                Reference::Once { field: its, document, .. } if *its == field => {
                    documents.insert(*document);
                }
                Reference::Lists(_) if reference.weight(field) > 0 => {
                    let stored = list(segment, Part::Documents(field), name)?;
                    documents |= set::bitmap(&stored).ok_or_else(|| segment.damaged(Part::Documents(field)))?;
                }
                _ => {}
            }
        }
        let both = match common {
            None => documents,
            Some(common) => common & documents,
        };
        if both.is_empty() {
            return Ok(both);
        }
        common = Some(both);
    }
    let candidates = common.unwrap_or_default();
    let mut starts: Option<Vec<u64>> = None;
    for (offset, fitting) in (0..).zip(pieces) {
        let places = places_of(segment, fitting, field, &candidates)?;
        let now = match starts {
            None => places,
            Some(starts) => followed(&starts, &places, offset),
        };
        starts = Some(now);
    }
    Ok(starts.into_iter().flatten().map(|start| (start >> 32) as u32).collect())
}

/// The places of some words in the candidates: the document in the upper half, ascending.
fn places_of(
    segment: &Segment,
    fitting: &[(Bytes, Reference)],
    field: Field,
    candidates: &RoaringBitmap,
) -> Result<Vec<u64>, Fault> {
    let joined = |document: u32, place: u32| u64::from(document) << 32 | u64::from(place);
    let mut all = Vec::new();
    for (name, reference) in fitting {
        match reference {
            Reference::Once { field: its, document, place } if *its == field && candidates.contains(*document) => {
                all.push(joined(*document, *place));
            }
            Reference::Lists(_) if reference.weight(field) > 0 => {
                let mut documents = Vec::new();
                let stored = list(segment, Part::Documents(field), name)?;
                set::for_each(&stored, |document| documents.push(document))
                    .ok_or_else(|| segment.damaged(Part::Documents(field)))?;
                let stored = list(segment, Part::Places(field), name)?;
                let mut latest: Option<(u32, bool)> = None;
                places::for_each(&documents, &stored, |document, place| {
                    let candidate = match latest.filter(|(its, _)| *its == document) {
                        Some((_, candidate)) => candidate,
                        None => candidates.contains(document),
                    };
                    latest = Some((document, candidate));
                    if candidate {
                        all.push(joined(document, place));
                    }
                })
                .ok_or_else(|| segment.damaged(Part::Places(field)))?;
            }
            _ => {}
        }
    }
    if fitting.len() > 1 {
        all.sort_unstable();
    }
    Ok(all)
}

/// Those of `starts` with a place so many pieces later.
fn followed(starts: &[u64], places: &[u64], offset: u64) -> Vec<u64> {
    let mut rest = places.iter().peekable();
    let is_followed = |start: &&u64| {
        let wanted = **start + offset;
        while rest.next_if(|place| **place < wanted).is_some() {}
        rest.peek() == Some(&&wanted)
    };
    starts.iter().filter(is_followed).copied().collect()
}

fn list(segment: &Segment, part: Part, word: &[u8]) -> Result<Bytes, Fault> {
    segment.table(part).get(word)?.ok_or_else(|| segment.damaged(part))
}
