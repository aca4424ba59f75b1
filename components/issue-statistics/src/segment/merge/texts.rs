//! Merges the tables of texts: lengths, dictionaries with their posting lists, affixes and n-grams.

use super::input::{MergeInput, PositionMap};
use crate::query_cost::{QueryCost, SearchError};
use crate::segment::affixes::{self, Affix};
use crate::segment::dictionary::DictionaryCursor;
use crate::segment::dictionary_writer::DictionaryWriter;
use crate::segment::lengths::{self, LengthsWriter};
use crate::segment::ngrams::{self, FrequentNgrams};
use crate::segment::postings::PostingList;
use crate::segment::term_search::{MatchKind, for_each_match};
use crate::segment::{Field, PageSink, TableName, positions, substring_search};
use crate::set::Bitset;
use crate::table::{Cursor, PageIndex};
use crate::text::{self, Ngram};
use kit::store::StoreError;

/// Also returns the position after the last one. Adds the map of each input to `maps`.
pub fn merge_lengths(
    inputs: &[MergeInput],
    field: Field,
    mut table: LengthsWriter<PageSink>,
    maps: &mut Vec<PositionMap>,
) -> Result<(PageIndex, u32), StoreError> {
    let mut next = 0_u32;
    for input in inputs {
        let old_starts = lengths::document_starts(&input.segment, field)?;
        let mut new_starts = Vec::new();
        let first = next;
        for (document, range) in (0..).zip(old_starts.windows(2)) {
            let &[start, end] = range else { continue };
            if !input.tombstones.is_empty() {
                new_starts.push(next);
            }
            if input.new_number(document).is_some() {
                table.push(end - start - 1)?;
                let after = next.checked_add(end - start);
                next = after.ok_or_else(|| StoreError::Other("too many positions for one segment".into()))?;
            }
        }
        maps.push(match input.tombstones.is_empty() {
            true => PositionMap::Shift(first),
            false => PositionMap::PerDocument { old_starts, new_starts },
        });
    }
    Ok((table.finish()?, next))
}

pub fn merge_dictionaries<'s>(
    inputs: &[MergeInput],
    maps: &[Vec<PositionMap>; 2],
    mut table: DictionaryWriter<PageSink<'s>>,
) -> Result<DictionaryWriter<PageSink<'s>>, StoreError> {
    let mut cursors = Vec::new();
    for input in inputs {
        let by_field = |table: fn(Field) -> TableName| -> Result<[Cursor<_>; 2], StoreError> {
            Ok([input.cursor(table(Field::Title))?, input.cursor(table(Field::Description))?])
        };
        let blocks = input.cursor(TableName::Dictionary)?;
        cursors.push(DictionaryCursor::new(blocks, by_field(TableName::Postings)?, by_field(TableName::Positions)?));
    }
    let advance = |cursor: &mut DictionaryCursor<_>, input: &MergeInput| {
        cursor.advance(|| input.segment.corrupt(TableName::Dictionary))
    };
    cursors.iter_mut().zip(inputs).try_for_each(|(cursor, input)| advance(cursor, input))?;
    let [title_maps, description_maps] = maps;
    let mut merged = [PostingList::default(), PostingList::default()];
    while let Some(text) = cursors.iter().filter_map(DictionaryCursor::term).min().cloned() {
        merged.iter_mut().for_each(PostingList::clear);
        let maps = title_maps.iter().zip(description_maps);
        for ((cursor, input), maps) in cursors.iter_mut().zip(inputs).zip(maps) {
            if cursor.term() != Some(&text) {
                continue;
            }
            for ((to, from), map) in merged.iter_mut().zip(cursor.lists()).zip([maps.0, maps.1]) {
                append(to, from, input, map).ok_or_else(|| input.segment.corrupt(TableName::Dictionary))?;
            }
            advance(cursor, input)?;
        }
        let [titles, descriptions] = &merged;
        if titles.documents.len() + descriptions.documents.len() > 0 {
            let text = std::str::from_utf8(&text);
            let text = text.map_err(|error| StoreError::Other(format!("a term is not UTF-8: {error}")))?;
            table.push(text, [titles, descriptions])?;
        }
    }
    Ok(table)
}

/// Appends the occurrences in documents without tombstones. `None` if `from` is damaged.
fn append(to: &mut PostingList, from: &PostingList, input: &MergeInput, map: &PositionMap) -> Option<()> {
    if from.documents.is_empty() {
        return Some(());
    }
    match map {
        PositionMap::Shift(by) => {
            to.documents.extend(from.documents.iter().map(|document| input.first + document));
            to.position_count +=
                positions::append_shifted(&mut to.positions, &from.positions, *by, &mut to.last_position)?;
            Some(())
        }
        PositionMap::PerDocument { old_starts, new_starts } => {
            let mut documents = from.documents.iter().copied().peekable();
            let start_of = |document: u32| old_starts.get(document as usize).copied().unwrap_or(u32::MAX);
            positions::for_each(&from.positions, |position| {
                while documents.peek().is_some_and(|document| start_of(document + 1) <= position) {
                    documents.next();
                }
                let Some(document) = documents.peek().copied() else { return };
                let moved = position.checked_sub(start_of(document)).zip(new_starts.get(document as usize));
                if let (Some(number), Some((offset, start))) = (input.new_number(document), moved) {
                    to.push(number, start + offset);
                }
            })
        }
    }
}

/// The positions of a frequent affix. An input without stored positions searches for them.
pub fn merge_affix(
    inputs: &[MergeInput],
    maps: &[PositionMap],
    end: u32,
    field: Field,
    (affix, text): (Affix, &str),
) -> Result<Bitset, StoreError> {
    let kind = if affix == Affix::Prefix { MatchKind::StartsWith } else { MatchKind::EndsWith };
    let cost = QueryCost::unlimited();
    let search = |input: &MergeInput, found: &mut Bitset, by: u32| -> Result<(), SearchError> {
        if !affixes::insert_stored(&input.segment, field, affix, text, found, by, &cost)? {
            let mut terms = Vec::new();
            for_each_match(&input.segment, text, kind, &cost, |term, reference| {
                terms.push((term, reference));
                Ok(())
            })?;
            affixes::insert_terms(&input.segment, field, &terms, found, by, &cost)?;
        }
        Ok(())
    };
    let insert = |input: &MergeInput, found: &mut Bitset, by: u32| {
        search(input, found, by).map_err(SearchError::into_store_error)
    };
    let mut all = Bitset::new(end);
    for (input, map) in inputs.iter().zip(maps) {
        match map {
            PositionMap::Shift(by) => insert(input, &mut all, *by)?,
            PositionMap::PerDocument { old_starts, new_starts } => {
                let mut found = Bitset::new(old_starts.last().copied().unwrap_or_default());
                insert(input, &mut found, 0)?;
                let mut document = 0;
                found.for_each(|position| {
                    let rest = old_starts.get(document + 1..).unwrap_or_default();
                    document += rest.iter().take_while(|start| **start <= position).count();
                    let starts = old_starts.get(document).zip(new_starts.get(document));
                    let moved = starts.map(|(old, new)| new + (position - old));
                    if let Some(position) = moved.filter(|_| input.new_number(document as u32).is_some()) {
                        all.insert(position);
                    }
                });
            }
        }
    }
    Ok(all)
}

/// The encoded documents of the frequent n-grams. An input without stored documents searches for them.
pub fn merge_frequent_ngrams(
    inputs: &[MergeInput],
    frequent: Vec<(Field, Ngram)>,
    document_count: u32,
) -> Result<FrequentNgrams, StoreError> {
    let mut merged = FrequentNgrams::new();
    for (field, ngram) in frequent {
        let text = text::ngram_text(ngram);
        let mut documents = Bitset::new(document_count);
        for input in inputs {
            let stored = input.segment.table(TableName::Ngrams).get(&ngrams::documents_key(field, &text))?;
            if let Some(stored) = stored.filter(|_| input.tombstones.is_empty()) {
                let shifted = documents.union_encoded_shifted(&stored, input.first);
                shifted.ok_or_else(|| input.segment.corrupt(TableName::Ngrams))?;
                continue;
            }
            let found = substring_search::documents_with_part(&input.segment, &text, &[field], &QueryCost::unlimited());
            let found = found.map_err(SearchError::into_store_error)?;
            let kept = found.iter().filter_map(|document| input.new_number(document));
            kept.for_each(|document| documents.insert(document));
        }
        documents.encode_bits(merged.entry((field, ngram)).or_default());
    }
    Ok(merged)
}
