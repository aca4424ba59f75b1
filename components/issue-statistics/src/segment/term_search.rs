//! Searches the dictionary for the terms that match a text. The n-grams of the text select the blocks that may contain
//! such terms. One substring search passes over all terms of a block.

use super::dictionary::{DictionaryBlock, SEPARATOR};
use super::postings::PostingsRef;
use super::{Segment, TableName, ngrams};
use crate::query_cost::{LOOKUP_COST, QueryCost, SearchError};
use crate::table::Entry;
use crate::{set, text};
use bytes::Bytes;
use memchr::{memchr, memchr_iter, memmem};

/// How a term has to match a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchKind {
    Contains,
    StartsWith,
    EndsWith,
    Equals,
}

/// The most n-grams of a text that are looked up. They suffice to select the blocks.
const MAX_LOOKUPS: usize = 16;

/// Calls `each` for every term that matches `text`, in ascending order.
pub fn for_each_match(
    segment: &Segment,
    text: &str,
    kind: MatchKind,
    cost: &QueryCost,
    mut each: impl FnMut(Bytes, PostingsRef) -> Result<(), SearchError>,
) -> Result<(), SearchError> {
    let table = segment.table(TableName::Dictionary);
    let corrupt = || segment.corrupt(TableName::Dictionary);
    // A part of a word is never a part of white space or of a bigram.
    let is_part = matches!(kind, MatchKind::Contains | MatchKind::EndsWith);
    let separator = &[SEPARATOR][..];
    let pattern = match kind {
        MatchKind::Contains => text.as_bytes().to_vec(),
        MatchKind::StartsWith => [separator, text.as_bytes()].concat(),
        MatchKind::EndsWith => [text.as_bytes(), separator].concat(),
        MatchKind::Equals => [separator, text.as_bytes(), separator].concat(),
    };
    let finder = memmem::Finder::new(&pattern);
    let lead = usize::from(matches!(kind, MatchKind::StartsWith | MatchKind::Equals));
    let mut search_block = |entry: Entry| -> Result<(), SearchError> {
        let block = DictionaryBlock::parse(&entry).ok_or_else(corrupt)?;
        cost.add(LOOKUP_COST)?;
        cost.add_search(block.terms.len())?;
        let found = matches_in_block(&block.terms, &finder, lead);
        let ordinals: Vec<usize> = found.iter().map(|(ordinal, _)| *ordinal).collect();
        let mut references = Vec::with_capacity(ordinals.len());
        block.references(&ordinals, |reference| references.push(reference)).ok_or_else(corrupt)?;
        for ((_, term), reference) in found.into_iter().zip(references) {
            if !is_part || !std::str::from_utf8(&term).is_ok_and(text::is_space_or_bigram) {
                each(term, reference)?;
            }
        }
        Ok(())
    };
    if kind == MatchKind::Equals {
        return table.floor(text.as_bytes())?.map_or(Ok(()), search_block);
    }
    if kind == MatchKind::StartsWith {
        // Terms with a common prefix are adjacent.
        for number in table.rank(text.as_bytes())?.unwrap_or(0)..table.index.entry_count {
            let block = table.nth(number)?;
            if block.key.as_ref() > text.as_bytes() && !block.key.starts_with(text.as_bytes()) {
                break;
            }
            search_block(block)?;
        }
        return Ok(());
    }
    for block in candidate_blocks(segment, text, cost)? {
        search_block(table.nth(block)?)?;
    }
    Ok(())
}

/// The matching terms of a block, each with its ordinal. A match begins `lead` bytes before the text of its term.
fn matches_in_block(terms: &Bytes, finder: &memmem::Finder, lead: usize) -> Vec<(usize, Bytes)> {
    let mut found = Vec::new();
    let (mut from, mut counted, mut separators) = (0, 0, 0_usize);
    while let Some(at) = terms.get(from..).and_then(|rest| finder.find(rest)) {
        let inside = from + at + lead;
        let before = terms.get(counted..inside).unwrap_or_default();
        separators += memchr_iter(SEPARATOR, before).count();
        let separator = before.iter().rposition(|byte| *byte == SEPARATOR);
        let start = separator.map_or(counted, |separator| counted + separator + 1);
        let end = terms.get(inside..).and_then(|rest| memchr(SEPARATOR, rest)).map(|end| inside + end);
        let Some(end) = end else { break };
        found.push((separators.saturating_sub(1), terms.slice(start..end)));
        counted = end;
        // The next term begins with the separator of this one.
        from = end;
    }
    found
}

/// The numbers of the blocks in which a term may contain `text`, ascending.
fn candidate_blocks(segment: &Segment, text: &str, cost: &QueryCost) -> Result<Vec<u32>, SearchError> {
    let table = segment.table(TableName::Ngrams);
    let chars: Vec<char> = text.chars().collect();
    let windows: Vec<String> = match chars.len() {
        0 => return Ok((0..segment.header.table(TableName::Dictionary).entry_count).collect()),
        1..=text::MAX_NGRAM => vec![text.to_owned()],
        _ => chars.windows(text::MAX_NGRAM).map(|window| window.iter().collect()).collect(),
    };
    let step = windows.len().div_ceil(MAX_LOOKUPS);
    let mut common: Option<Vec<u32>> = None;
    for ngram in windows.iter().step_by(step) {
        let Some(encoded) = table.get(&ngrams::blocks_key(ngram))? else { return Ok(Vec::new()) };
        cost.add(LOOKUP_COST + encoded.len() as u64)?;
        let mut numbers = Vec::new();
        set::for_each(&encoded, |number| numbers.push(number)).ok_or_else(|| segment.corrupt(TableName::Ngrams))?;
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
    let is_in_other = |number: &&u32| {
        while rest.next_if(|other| other < number).is_some() {}
        rest.peek() == Some(number)
    };
    one.iter().filter(is_in_other).copied().collect()
}
