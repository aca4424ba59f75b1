//! Merges several adjacent segments into one, without superseded documents.
//!
//! All tables are read and written in order, one page of each at a time. So memory does not grow with the segments.
//! Only the blocks of each n-gram and the position lists of one term are kept whole. The merge policy bounds both.

use crate::query_cost::{QueryCost, SearchError};
use crate::segment::affixes::{self, Affix};
use crate::segment::dictionary::{DictionaryCursor, DictionarySinks, DictionaryWriter};
use crate::segment::id_index::{self, IdIndexWriter};
use crate::segment::lengths::{self, LengthsWriter};
use crate::segment::ngrams::{self, FrequentNgrams};
use crate::segment::postings::PostingList;
use crate::segment::term_search::{MatchKind, for_each_match};
use crate::segment::time_index::{self, TimeIndexWriter};
use crate::segment::{
    FIELDS, Field, PageSink, PageStore, Segment, SegmentHeader, SegmentPages, TableName, page_sink, phrase_search,
    positions,
};
use crate::set::{self, Bitset};
use crate::table::{Cursor, Entry, PageIndex, TableWriter};
use crate::text::{self, Ngram};
use kit::store::StoreError;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, VecDeque};

/// Merges `inputs` into the segment `id` and writes its pages. The inputs have one analyzer, and together
/// `document_count` documents without tombstones. The caller saves the header.
pub fn merge(
    inputs: &[MergeInput],
    document_count: u32,
    page_store: &dyn PageStore,
    id: &str,
) -> Result<SegmentHeader, StoreError> {
    let sink = |table| page_sink(page_store, id, table);
    let mut tables = BTreeMap::new();
    let mut keep = |table: TableName, index: PageIndex| tables.insert(table.as_str().to_owned(), index);

    keep(TableName::Facets, merge_facets(inputs, TableWriter::new(sink(TableName::Facets)))?);
    let (index, issue_ids) = merge_ids(inputs, IdIndexWriter::new(sink(TableName::Ids)))?;
    keep(TableName::Ids, index);
    for table in [TableName::Created, TableName::Updated] {
        keep(table, merge_times(inputs, table, TimeIndexWriter::new(sink(table), document_count))?);
    }
    let mut maps = [Vec::new(), Vec::new()];
    let mut ends = [0; 2];
    for ((field, maps), end) in FIELDS.into_iter().zip(&mut maps).zip(&mut ends) {
        let table = TableName::Lengths(field);
        let (index, next_position) = merge_lengths(inputs, field, LengthsWriter::new(sink(table)), maps)?;
        keep(table, index);
        *end = next_position;
    }
    let analyzer = inputs.first().map(|input| input.segment.header.analyzer).unwrap_or_default();
    let table = DictionaryWriter::new(
        analyzer,
        DictionarySinks {
            dictionary: sink(TableName::Dictionary),
            postings: FIELDS.map(|field| sink(TableName::Postings(field))),
            positions: FIELDS.map(|field| sink(TableName::Positions(field))),
        },
    );
    let written = merge_dictionaries(inputs, &maps, table)?.finish()?;
    keep(TableName::Dictionary, written.dictionary);
    let indexes = written.postings.into_iter().zip(written.positions);
    for (field, (postings, positions)) in FIELDS.into_iter().zip(indexes) {
        keep(TableName::Postings(field), postings);
        keep(TableName::Positions(field), positions);
    }
    for ((field, maps), end) in FIELDS.into_iter().zip(&maps).zip(ends) {
        let table = TableName::Affixes(field);
        let positions = |affix, text: &str| merge_affix(inputs, maps, end, field, (affix, text));
        keep(table, written.affixes.write(field, sink(table), positions)?);
    }
    let frequent = written.ngrams.frequent(document_count.into());
    let frequent = merge_frequent_ngrams(inputs, frequent, document_count)?;
    keep(TableName::Ngrams, written.ngrams.write(&frequent, sink(TableName::Ngrams))?);
    let position_count = ends.into_iter().map(u64::from).sum();
    let merge_memory = written.merge_memory;
    Ok(SegmentHeader { document_count, issue_ids, position_count, analyzer, merge_memory, tables })
}

pub fn merge_facets(inputs: &[MergeInput], mut table: TableWriter<PageSink>) -> Result<PageIndex, StoreError> {
    let mut cursors = inputs.iter().map(|input| input.cursor(TableName::Facets)).collect::<Result<Vec<_>, _>>()?;
    let mut heads = cursors.iter_mut().map(Cursor::next).collect::<Result<Vec<Option<Entry>>, _>>()?;
    let mut documents = Vec::new();
    let mut value = Vec::new();
    while let Some(key) = heads.iter().flatten().map(|entry| entry.key.clone()).min() {
        documents.clear();
        for ((head, cursor), input) in heads.iter_mut().zip(&mut cursors).zip(inputs) {
            let Some(entry) = head.take_if(|entry| entry.key == key) else { continue };
            set::for_each(&entry.value, |document| {
                documents.extend(input.new_number(document));
            })
            .ok_or_else(|| input.segment.corrupt(TableName::Facets))?;
            *head = cursor.next()?;
        }
        if !documents.is_empty() {
            value.clear();
            set::encode(&mut value, &documents);
            table.push(&key, &value)?;
        }
    }
    table.finish()
}

/// The entries of the blocks of one input. The next block is read when the entries of the previous one are used up.
struct BlockQueue<'a, T> {
    input: &'a MergeInput<'a>,
    table: TableName,
    cursor: Cursor<'a, SegmentPages<'a>>,
    entries: VecDeque<T>,
}

impl<'a, T> BlockQueue<'a, T> {
    fn new(input: &'a MergeInput<'a>, table: TableName) -> Result<Self, StoreError> {
        Ok(BlockQueue { input, table, cursor: input.cursor(table)?, entries: VecDeque::new() })
    }

    /// Reads blocks until there is an entry. `read` passes the entries of a block on.
    fn fill(&mut self, read: impl Fn(&MergeInput, &Entry, &mut dyn FnMut(T)) -> Option<()>) -> Result<(), StoreError> {
        while self.entries.is_empty() {
            let Some(block) = self.cursor.next()? else { break };
            let entries = &mut self.entries;
            let read = read(self.input, &block, &mut |entry| entries.push_back(entry));
            read.ok_or_else(|| self.input.segment.corrupt(self.table))?;
        }
        Ok(())
    }
}

/// Calls `each` for the entries of all inputs, in ascending order. `read` passes on the entries that are kept, with new
/// document numbers. It returns `None` if the block is damaged.
fn merge_blocks<T: Ord + Copy>(
    inputs: &[MergeInput],
    table: TableName,
    read: impl Fn(&MergeInput, &Entry, &mut dyn FnMut(T)) -> Option<()>,
    mut each: impl FnMut(T) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut queues = inputs.iter().map(|input| BlockQueue::new(input, table)).collect::<Result<Vec<_>, _>>()?;
    queues.iter_mut().try_for_each(|queue| queue.fill(&read))?;
    loop {
        let next = queues.iter_mut().filter(|queue| !queue.entries.is_empty());
        let Some(queue) = next.min_by_key(|queue| queue.entries.front().copied()) else { return Ok(()) };
        if let Some(entry) = queue.entries.pop_front() {
            each(entry)?;
        }
        if queue.entries.is_empty() {
            queue.fill(&read)?;
        }
    }
}

/// Also returns the lowest and the highest id.
pub fn merge_ids(
    inputs: &[MergeInput],
    mut table: IdIndexWriter<PageSink>,
) -> Result<(PageIndex, (u64, u64)), StoreError> {
    let mut bounds: Option<(u64, u64)> = None;
    merge_blocks(
        inputs,
        TableName::Ids,
        |input, block, keep| {
            id_index::entries(&block.key, &block.value, |id, document| {
                if let Some(document) = input.new_number(document) {
                    keep((id, document));
                }
            })
        },
        |(id, document)| {
            bounds = Some((bounds.map_or(id, |(lowest, _)| lowest), id));
            table.push(id, document)
        },
    )?;
    Ok((table.finish()?, bounds.unwrap_or_default()))
}

pub fn merge_times(
    inputs: &[MergeInput],
    name: TableName,
    mut table: TimeIndexWriter<PageSink>,
) -> Result<PageIndex, StoreError> {
    merge_blocks(
        inputs,
        name,
        |input, block, keep| {
            // The writer makes new cumulative sets.
            if time_index::is_block(block) {
                let (timestamps, documents) = time_index::entries(block)?;
                let both = timestamps.into_iter().zip(documents);
                both.filter_map(|(millis, document)| Some((millis, input.new_number(document)?))).for_each(keep);
            }
            Some(())
        },
        |(millis, document)| table.push(millis, document),
    )?;
    table.finish()
}

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
            let found = phrase_search::documents_with_part(&input.segment, &text, &[field], &QueryCost::unlimited());
            let found = found.map_err(SearchError::into_store_error)?;
            let kept = found.iter().filter_map(|document| input.new_number(document));
            kept.for_each(|document| documents.insert(document));
        }
        documents.encode_bits(merged.entry((field, ngram)).or_default());
    }
    Ok(merged)
}

/// An input segment of a merge.
pub struct MergeInput<'a> {
    pub segment: Segment<'a>,
    pub tombstones: RoaringBitmap,
    /// The new number of the first document without a tombstone.
    pub first: u32,
    /// The new number of each document, or [`SUPERSEDED`]. Empty without tombstones.
    new_numbers: Vec<u32>,
}

const SUPERSEDED: u32 = u32::MAX;

impl<'a> MergeInput<'a> {
    /// The documents without tombstones are numbered from `first`.
    pub fn new(segment: Segment<'a>, tombstones: RoaringBitmap, first: u32) -> Self {
        let mut new_numbers = Vec::new();
        if !tombstones.is_empty() {
            let mut next = first;
            new_numbers.extend((0..segment.document_count()).map(|document| {
                if tombstones.contains(document) {
                    return SUPERSEDED;
                }
                next += 1;
                next - 1
            }));
        }
        MergeInput { segment, tombstones, first, new_numbers }
    }

    /// The new number of a document; `None` if it is superseded.
    #[inline]
    pub fn new_number(&self, document: u32) -> Option<u32> {
        if self.tombstones.is_empty() {
            return Some(self.first + document);
        }
        self.new_numbers.get(document as usize).copied().filter(|number| *number != SUPERSEDED)
    }

    /// A cursor at the start of a table.
    pub fn cursor(&self, table: TableName) -> Result<Cursor<'_, SegmentPages<'_>>, StoreError> {
        self.segment.table(table).cursor_from(&[])
    }
}

/// How the positions of one input and field map to those of the merged segment.
pub enum PositionMap {
    /// All positions increase by this number: the input has no tombstones.
    Shift(u32),
    /// The old and the new first position of each document.
    PerDocument { old_starts: Vec<u32>, new_starts: Vec<u32> },
}
