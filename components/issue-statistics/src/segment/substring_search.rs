//! Which documents have a text in them.
//!
//! A text without white space is part of a word. Its grams tell the blocks of words that may have
//! it; it is looked for in their names, and the documents of all words with it are united. A part
//! that is frequent has its documents ready.

use super::dictionary::{Block, MARK, Reference};
use super::{Field, Part, Segment, ngrams, phrase_search};
use crate::set::{self, Bits};
use crate::text;
use bytes::Bytes;
use kit::store::StoreError;
use memchr::{memchr, memchr_iter, memmem};
use roaring::RoaringBitmap;

/// How a word has to agree with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    Contains,
    Starts,
    Ends,
    Equals,
}

/// At most so many grams of a text are looked up: they are enough to tell the blocks.
const GRAMS: usize = 16;

/// The documents that have the folded `text` in one of `fields`.
pub fn documents(segment: &Segment, text: &str, fields: &[Field]) -> Result<RoaringBitmap, StoreError> {
    if text.chars().any(char::is_whitespace) {
        return phrase_search::documents(segment, text, fields);
    }
    let mut found = RoaringBitmap::new();
    let mut wanted = fields.to_vec();
    if text.chars().count() <= text::GRAM {
        let table = segment.table(Part::Grams);
        for field in fields {
            if let Some(stored) = table.get(&ngrams::documents_key(*field, text))? {
                found |= set::bitmap(&stored).ok_or_else(|| segment.damaged(Part::Grams))?;
                wanted.retain(|other| other != field);
            }
        }
    }
    if !wanted.is_empty() {
        found |= united(segment, text, &wanted)?;
    }
    Ok(found)
}

/// The documents of all words that contain `text`.
fn united(segment: &Segment, text: &str, fields: &[Field]) -> Result<RoaringBitmap, StoreError> {
    let mut found = Collector::new(segment.documents());
    let tables = fields.iter().map(|field| (*field, segment.table(Part::Documents(*field)))).collect::<Vec<_>>();
    words(segment, text, Fit::Contains, |name, reference| match reference {
        Reference::Once { field, document, .. } => {
            if fields.contains(&field) {
                found.insert(document);
            }
            Ok(())
        }
        Reference::Lists(_) => {
            for (field, table) in tables.iter().filter(|(field, _)| reference.weight(*field) > 0) {
                let stored = table.get(&name)?.ok_or_else(|| segment.damaged(Part::Documents(*field)))?;
                found
                    .unite(&stored, reference.weight(*field))
                    .ok_or_else(|| segment.damaged(Part::Documents(*field)))?;
            }
            Ok(())
        }
    })?;
    Ok(found.finish())
}

/// Calls `each` for every word that fits `text`.
pub fn words(
    segment: &Segment,
    text: &str,
    fit: Fit,
    mut each: impl FnMut(Bytes, Reference) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let table = segment.table(Part::Words);
    let damaged = || segment.damaged(Part::Words);
    let mark = &[MARK][..];
    let pattern = match fit {
        Fit::Contains => text.as_bytes().to_vec(),
        Fit::Starts => [mark, text.as_bytes()].concat(),
        Fit::Ends => [text.as_bytes(), mark].concat(),
        Fit::Equals => [mark, text.as_bytes(), mark].concat(),
    };
    let finder = memmem::Finder::new(&pattern);
    let lead = usize::from(matches!(fit, Fit::Starts | Fit::Equals));
    let mut in_block = |entry: crate::table::Entry| -> Result<(), StoreError> {
        let block = Block::of(&entry).ok_or_else(damaged)?;
        let found = fitting(&block.names, &finder, lead);
        let places: Vec<usize> = found.iter().map(|(place, _)| *place).collect();
        let mut references = Vec::with_capacity(places.len());
        block.references(&places, |reference| references.push(reference)).ok_or_else(damaged)?;
        for ((_, name), reference) in found.into_iter().zip(references) {
            each(name, reference)?;
        }
        Ok(())
    };
    if fit == Fit::Equals {
        return table.floor(text.as_bytes())?.map_or(Ok(()), in_block);
    }
    if fit == Fit::Starts {
        // They are all next to one another.
        for number in table.rank(text.as_bytes())?.unwrap_or(0)..table.index.count {
            let block = table.nth(number)?;
            if block.key.as_ref() > text.as_bytes() && !block.key.starts_with(text.as_bytes()) {
                break;
            }
            in_block(block)?;
        }
        return Ok(());
    }
    for block in blocks(segment, text)? {
        in_block(table.nth(block)?)?;
    }
    Ok(())
}

/// The words among `names` with a match: their places and names. A match begins `lead` bytes before
/// the word's text.
fn fitting(names: &Bytes, finder: &memmem::Finder, lead: usize) -> Vec<(usize, Bytes)> {
    let mut found = Vec::new();
    let (mut from, mut counted, mut words) = (0, 0, 0_usize);
    while let Some(at) = names.get(from..).and_then(|rest| finder.find(rest)) {
        let inside = from + at + lead;
        let before = names.get(counted..inside).unwrap_or_default();
        words += memchr_iter(MARK, before).count();
        let start = before.iter().rposition(|byte| *byte == MARK).map_or(counted, |mark| counted + mark + 1);
        let Some(end) = names.get(inside..).and_then(|rest| memchr(MARK, rest)).map(|end| inside + end) else { break };
        found.push((words.saturating_sub(1), names.slice(start..end)));
        counted = end;
        // The mark at the end is also the one before the next word.
        from = end;
    }
    found
}

/// The numbers of the blocks in which a word may have `text`, ascending.
fn blocks(segment: &Segment, text: &str) -> Result<Vec<u32>, StoreError> {
    let table = segment.table(Part::Grams);
    let chars: Vec<char> = text.chars().collect();
    let windows: Vec<String> = match chars.len() {
        0 => return Ok((0..segment.head.table(Part::Words).count).collect()),
        1..=text::GRAM => vec![text.to_owned()],
        _ => chars.windows(text::GRAM).map(|window| window.iter().collect()).collect(),
    };
    let step = windows.len().div_ceil(GRAMS);
    let mut common: Option<Vec<u32>> = None;
    for gram in windows.iter().step_by(step) {
        let Some(stored) = table.get(&ngrams::blocks_key(gram))? else { return Ok(Vec::new()) };
        let mut numbers = Vec::new();
        set::for_each(&stored, |number| numbers.push(number)).ok_or_else(|| segment.damaged(Part::Grams))?;
        let both = match common {
            None => numbers,
            Some(common) => intersection(&common, &numbers),
        };
        if both.len() <= 1 {
            return Ok(both);
        }
        common = Some(both);
    }
    Ok(common.unwrap_or_default())
}

fn intersection(one: &[u32], other: &[u32]) -> Vec<u32> {
    let mut rest = other.iter().peekable();
    let is_there = |number: &&u32| {
        while rest.next_if(|other| other < number).is_some() {}
        rest.peek() == Some(number)
    };
    one.iter().filter(is_there).copied().collect()
}

/// Documents as they are found: a list while they are few, then bits.
struct Collector {
    documents: u32,
    few: Vec<u32>,
    many: Option<Bits>,
}

impl Collector {
    fn new(documents: u32) -> Self {
        Collector { documents, few: Vec::new(), many: None }
    }

    /// The bits, if there are so many documents that a list would be larger.
    fn bits(&mut self, more: usize) -> Option<&mut Bits> {
        if self.many.is_none() && self.few.len() + more > self.documents as usize / 32 {
            let mut bits = Bits::new(self.documents);
            self.few.drain(..).for_each(|document| bits.insert(document));
            self.many = Some(bits);
        }
        self.many.as_mut()
    }

    fn insert(&mut self, document: u32) {
        match self.bits(1) {
            Some(bits) => bits.insert(document),
            None => self.few.push(document),
        }
    }

    fn unite(&mut self, stored: &[u8], count: u32) -> Option<()> {
        match self.bits(count as usize) {
            Some(bits) => bits.unite(stored),
            None => set::for_each(stored, |document| self.few.push(document)),
        }
    }

    fn finish(mut self) -> RoaringBitmap {
        match self.many {
            Some(bits) => bits.bitmap(),
            None => {
                self.few.sort_unstable();
                self.few.dedup();
                RoaringBitmap::from_sorted_iter(self.few.iter().copied()).unwrap_or_default()
            }
        }
    }
}
