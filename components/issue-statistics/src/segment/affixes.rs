//! Beginnings and ends of words, of one to three characters, that very many words of a text have:
//! the [places](super::positions) of these words, ready, so that a phrase that begins or ends within
//! words unites few lists of places, whatever its letters are.
//!
//! The key is `s` or `e` (how words start, how they end), the characters, `0xff` and the number of a
//! part in 4 big-endian bytes; the value is the [set](crate::set) of the places in the part, from 0.

use super::dictionary::Reference;
use super::{Field, Part, Segment, positions};
use crate::hash::Map;
use crate::set::Bits;
use crate::table::{Index, Writer};
use crate::text::{self, Gram};
use bytes::Bytes;
use kit::store::StoreError;

/// An edge is frequent if one of so many words has it, and so many words at least. So the places of
/// what is stored are no more than a few times all places, and of what is not, a small share.
const FREQUENT: u64 = 12;
const FREQUENT_AT_LEAST: u64 = 256;

/// Places in a part.
const PART: u32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    End,
    Start,
}

impl Side {
    /// Whether a word has this edge.
    pub fn is_of(self, word: &str, edge: &str) -> bool {
        match self {
            Side::Start => word.starts_with(edge),
            Side::End => word.ends_with(edge),
        }
    }

    fn key(self, edge: &str) -> Vec<u8> {
        let kind = match self {
            Side::Start => b"s",
            Side::End => b"e",
        };
        [kind, edge.as_bytes(), &[0xff]].concat()
    }
}

/// How many places the words with each edge have, by title and by description.
#[derive(Default)]
pub struct Edges {
    counts: Map<(Side, Gram), [u64; 2]>,
    all: [u64; 2],
}

impl Edges {
    pub fn word(&mut self, word: &str, places: [u32; 2]) {
        let add = |counts: &mut [u64; 2]| {
            counts.iter_mut().zip(places).for_each(|(count, more)| *count += u64::from(more));
        };
        add(&mut self.all);
        if !text::is_gap(word) {
            text::starts(word, |gram| add(self.counts.entry((Side::Start, gram)).or_default()));
            text::ends(word, |gram| add(self.counts.entry((Side::End, gram)).or_default()));
        }
    }

    /// The frequent edges of one text, in the order of their keys.
    fn frequent(&self, field: Field) -> Vec<(Side, String)> {
        let of = |counts: &[u64; 2]| {
            let [titles, descriptions] = *counts;
            if field == Field::Title { titles } else { descriptions }
        };
        let most = (of(&self.all) / FREQUENT).max(FREQUENT_AT_LEAST);
        let frequent = self.counts.iter().filter(|(_, counts)| of(counts) > most);
        let mut frequent: Vec<(Side, String)> =
            frequent.map(|((side, gram), _)| (*side, text::gram_text(*gram))).collect();
        frequent.sort_unstable_by_key(|(side, edge)| side.key(edge));
        frequent
    }

    /// Writes the table of one text; `places` tells those of an edge, one after the other.
    pub fn write(
        &self,
        field: Field,
        sink: impl FnMut(usize, &[u8]) -> Result<(), StoreError>,
        mut places: impl FnMut(Side, &str) -> Result<Bits, StoreError>,
    ) -> Result<Index, StoreError> {
        let mut table = Writer::new(sink);
        for (side, edge) in self.frequent(field) {
            let key = side.key(&edge);
            let places = places(side, &edge)?;
            for (number, part) in (0_u32..).zip(places.parts(PART)) {
                let mut value = Vec::new();
                part.put_smaller(&mut value);
                table.push(&[key.as_slice(), &number.to_be_bytes()].concat(), &value)?;
            }
        }
        table.finish()
    }
}

/// Adds the stored places of an edge to `found`, each `by` higher; false if none are stored.
pub fn unite(
    segment: &Segment,
    field: Field,
    side: Side,
    edge: &str,
    found: &mut Bits,
    by: u32,
) -> Result<bool, StoreError> {
    let part = Part::Edges(field);
    let damaged = || segment.damaged(part);
    let key = side.key(edge);
    let mut cursor = segment.table(part).from(&key)?;
    let mut is_stored = false;
    while let Some(entry) = cursor.next()?
        && let Some(number) = entry.key.strip_prefix(key.as_slice())
    {
        is_stored = true;
        let number = number.try_into().map(u32::from_be_bytes).map_err(|_| damaged())?;
        let begin = number.checked_mul(PART).and_then(|begin| begin.checked_add(by)).ok_or_else(damaged)?;
        found.unite_shifted(&entry.value, begin).ok_or_else(damaged)?;
    }
    Ok(is_stored)
}

/// Whether the places of an edge are stored.
pub fn is_stored(segment: &Segment, field: Field, side: Side, edge: &str) -> Result<bool, StoreError> {
    let key = [side.key(edge).as_slice(), &[0; 4]].concat();
    Ok(segment.table(Part::Edges(field)).get(&key)?.is_some())
}

/// Adds the places of these words, which are ascending, to `found`, each `by` higher.
pub fn unite_words(
    segment: &Segment,
    field: Field,
    words: &[(Bytes, Reference)],
    found: &mut Bits,
    by: u32,
) -> Result<(), StoreError> {
    let part = Part::Places(field);
    let damaged = || segment.damaged(part);
    let mut lists = segment.table(part).from(&[])?;
    for (name, reference) in words {
        match reference {
            Reference::Once { field: its, place, .. } if *its == field => found.insert(place.saturating_add(by)),
            Reference::Lists(_) if reference.weight(field) > 0 => {
                let stored = lists.seek(name)?.ok_or_else(damaged)?;
                positions::for_each(&stored, |place| found.insert(place.saturating_add(by))).ok_or_else(damaged)?;
            }
            _ => {}
        }
    }
    Ok(())
}
