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
    let mut is_candidate = vec![false; segment.documents() as usize];
    for document in common.unwrap_or_default() {
        if let Some(candidate) = is_candidate.get_mut(document as usize) {
            *candidate = true;
        }
    }
    let Some((first, rest)) = pieces.split_first() else { return Ok(RoaringBitmap::new()) };
    let mut starts = Starts::of(segment, first, field, &is_candidate)?;
    for (offset, fitting) in (1..).zip(rest) {
        each_place(segment, fitting, field, &is_candidate, |document, place| starts.follow(document, place, offset))?;
    }
    Ok(starts.reached(pieces.len() as u32))
}

/// The places of the first piece in each document, and how many pieces follow one another from
/// there: 8 bytes for each place, and no sorting, because a piece may be millions of times there.
struct Starts {
    /// Where the places of a document begin.
    begins: Vec<u32>,
    /// A place, and how many pieces were found.
    places: Vec<(u32, u32)>,
}

impl Starts {
    fn of(segment: &Segment, first: &[(Bytes, Reference)], field: Field, is_candidate: &[bool]) -> Result<Self, Fault> {
        let mut begins = vec![0_u32; is_candidate.len() + 1];
        each_place(segment, first, field, is_candidate, |document, _| {
            if let Some(count) = begins.get_mut(document as usize + 1) {
                *count += 1;
            }
        })?;
        let mut total = 0;
        for begin in &mut begins {
            total += *begin;
            *begin = total;
        }
        let mut places = vec![(0, 0); total as usize];
        let mut next = begins.clone();
        each_place(segment, first, field, is_candidate, |document, place| {
            if let Some(at) = next.get_mut(document as usize) {
                if let Some(start) = places.get_mut(*at as usize) {
                    *start = (place, 1);
                }
                *at += 1;
            }
        })?;
        Ok(Starts { begins, places })
    }

    /// A piece, which is `offset` pieces after the first one, is at this place.
    fn follow(&mut self, document: u32, place: u32, offset: u32) {
        let at = document as usize;
        let (Some(begin), Some(end)) = (self.begins.get(at), self.begins.get(at + 1)) else { return };
        let of_document = self.places.get_mut(*begin as usize..*end as usize).unwrap_or_default();
        if let Some(start) = of_document.iter_mut().find(|(start, _)| start + offset == place)
            && start.1 == offset
        {
            start.1 += 1;
        }
    }

    /// The documents in which so many pieces follow one another.
    fn reached(&self, pieces: u32) -> RoaringBitmap {
        let ranges = self.begins.iter().zip(self.begins.iter().skip(1));
        let reached = ranges.map(|(begin, end)| {
            let of_document = self.places.get(*begin as usize..*end as usize).unwrap_or_default();
            of_document.iter().any(|(_, found)| *found == pieces)
        });
        (0..).zip(reached).filter(|(_, reached)| *reached).map(|(document, _)| document).collect()
    }
}

/// Calls `each` for every place of some words in the candidates.
fn each_place(
    segment: &Segment,
    fitting: &[(Bytes, Reference)],
    field: Field,
    is_candidate: &[bool],
    mut each: impl FnMut(u32, u32),
) -> Result<(), Fault> {
    let is_candidate = |document: u32| is_candidate.get(document as usize) == Some(&true);
    for (name, reference) in fitting {
        match reference {
            Reference::Once { field: its, document, place } if *its == field && is_candidate(*document) => {
                each(*document, *place);
            }
            Reference::Lists(_) if reference.weight(field) > 0 => {
                let mut documents = Vec::new();
                let stored = list(segment, Part::Documents(field), name)?;
                set::for_each(&stored, |document| documents.push(document))
                    .ok_or_else(|| segment.damaged(Part::Documents(field)))?;
                let stored = list(segment, Part::Places(field), name)?;
                places::for_each(&documents, &stored, |document, place| {
                    if is_candidate(document) {
                        each(document, place);
                    }
                })
                .ok_or_else(|| segment.damaged(Part::Places(field)))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn list(segment: &Segment, part: Part, word: &[u8]) -> Result<Bytes, Fault> {
    segment.table(part).get(word)?.ok_or_else(|| segment.damaged(part))
}
