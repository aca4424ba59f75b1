//! Checks that the tables of a segment agree with each other. The check is for segments of earlier builds, whose pages
//! have no checksums. It cannot find damage in bytes that no other table depends on, such as the bytes of a timestamp
//! or a label.
//!
//! The check reads each table once, which takes some seconds for the largest merged segments. It takes a bit of memory
//! for each position of a field, and a few bytes for each document.

use super::dictionary::DictionaryCursor;
use super::lengths::{self, DocumentLocator};
use super::postings::PostingList;
use super::{FIELDS, Field, Segment, TableName, id_index, ngrams, positions, time_index};
use crate::set::{self, Bitset};
use crate::table::Entry;
use kit::store::StoreError;

/// [`StoreError::Corrupt`] names the table that is unreadable or contradicts the others.
pub fn check(segment: &Segment) -> Result<(), StoreError> {
    let document_count = segment.document_count();
    for_each_entry(segment, TableName::Facets, |facet| is_set_below(&facet.value, document_count))?;
    check_ids(segment)?;
    check_times(segment, TableName::Created)?;
    check_times(segment, TableName::Updated)?;
    check_texts(segment)?;
    let block_count = segment.header.table(TableName::Dictionary).entry_count;
    for_each_entry(segment, TableName::Ngrams, |ngram| {
        is_set_below(&ngram.value, if ngrams::is_of_blocks(ngram) { block_count } else { document_count })
    })
}

/// Calls `each` for every entry of a table. `each` returns whether the entry is sound. Also checks that the keys ascend
/// and agree with the header.
fn for_each_entry(
    segment: &Segment,
    name: TableName,
    mut each: impl FnMut(&Entry) -> Option<bool>,
) -> Result<(), StoreError> {
    let index = segment.header.table(name);
    let mut pages = index.pages.iter().peekable();
    let mut entries = segment.table(name).cursor_from(&[])?;
    let (mut count, mut last) = (0, None);
    while let Some(entry) = entries.next()? {
        if last.is_some_and(|last| last >= entry.key) || each(&entry) != Some(true) {
            return Err(segment.corrupt(name));
        }
        pages.next_if(|page| page.first_key == entry.key);
        count += 1;
        last = Some(entry.key);
    }
    let is_sound = pages.next().is_none() && count == index.entry_count;
    if is_sound { Ok(()) } else { Err(segment.corrupt(name)) }
}

/// Whether an encoded set has only numbers below `end`, each once. `None` if its bytes are damaged.
fn is_set_below(encoded: &[u8], end: u32) -> Option<bool> {
    let (mut next, mut is_sound) = (0, true);
    set::for_each(encoded, |number| {
        is_sound &= number >= next && number < end;
        next = number.saturating_add(1);
    })?;
    Some(is_sound)
}

/// Numbers below a bound, without repetitions.
struct DistinctNumbers {
    seen: Bitset,
    end: u32,
    count: u32,
}

impl DistinctNumbers {
    fn below(end: u32) -> Self {
        DistinctNumbers { seen: Bitset::new(end), end, count: 0 }
    }

    /// Adds a number. False if it is not below the bound, or was added before.
    fn insert(&mut self, number: u32) -> bool {
        let is_sound = number < self.end && !self.seen.contains(number);
        self.seen.insert(number);
        self.count += u32::from(is_sound);
        is_sound
    }
}

fn check_ids(segment: &Segment) -> Result<(), StoreError> {
    let mut documents = DistinctNumbers::below(segment.document_count());
    let (mut next, last) = segment.header.issue_ids;
    for_each_entry(segment, TableName::Ids, |block| {
        let mut is_sound = true;
        id_index::entries(&block.key, &block.value, |id, document| {
            is_sound &= (next..=last).contains(&id) && documents.insert(document);
            next = id.saturating_add(1);
        })?;
        Some(is_sound)
    })
}

fn check_times(segment: &Segment, name: TableName) -> Result<(), StoreError> {
    let mut distinct = DistinctNumbers::below(segment.document_count());
    // The documents of all blocks, and their number up to the end of each block.
    let (mut documents, mut ends) = (Vec::new(), Vec::new());
    let mut latest = i64::MIN;
    let mut cumulative = Bitset::new(segment.document_count());
    let mut in_cumulative = 0;
    for_each_entry(segment, name, |entry| {
        if time_index::is_block(entry) {
            let is_next = time_index::block_number(entry)? as usize == ends.len();
            let (timestamps, of_block) = time_index::entries(entry)?;
            let is_ascending = std::iter::once(latest).chain(timestamps.iter().copied()).is_sorted();
            latest = timestamps.last().copied().unwrap_or(latest);
            let before = documents.len();
            documents.extend(of_block);
            ends.push(documents.len());
            let of_block = documents.get(before..).unwrap_or_default();
            let is_complete = of_block.len() == timestamps.len();
            return Some(is_next && is_ascending && is_complete && of_block.iter().all(|it| distinct.insert(*it)));
        }
        // The sets follow after all blocks.
        let end = *ends.get(time_index::blocks_of_set(entry)?.checked_sub(1)?)?;
        documents.get(in_cumulative..end)?.iter().for_each(|document| cumulative.insert(*document));
        in_cumulative = end;
        let mut stored = Bitset::new(segment.document_count());
        stored.union_encoded(&entry.value)?;
        Some(stored == cumulative)
    })
}

/// The positions of a field that the terms so far have.
struct FieldPositions {
    /// The first position of each document, and then the position after the last document.
    starts: Vec<u32>,
    seen: DistinctNumbers,
}

impl FieldPositions {
    /// Whether the postings of a term agree with its documents, at positions that no other term has. `None` if they are
    /// damaged.
    fn add(&mut self, list: &PostingList) -> Option<bool> {
        let mut locator = DocumentLocator::new(&self.starts);
        let mut documents = list.documents.iter();
        let (mut current, mut is_sound) = (None, true);
        positions::for_each(&list.positions, |position| {
            let document = locator.document_of(position);
            if current != Some(document) {
                current = Some(document);
                is_sound &= documents.next() == current.as_ref();
            }
            let next = self.starts.get(document as usize + 1);
            // The last position of a document belongs to no token.
            is_sound &= next.is_some_and(|next| position.saturating_add(1) < *next) && self.seen.insert(position);
        })?;
        Some(is_sound && documents.next().is_none())
    }

    /// Whether every position of a token had a term.
    fn is_complete(&self) -> bool {
        self.seen.count as usize + self.starts.len() - 1 == self.seen.end as usize
    }
}

/// Checks that each position of a text has exactly one term, and that the term is in the document of this position.
fn check_texts(segment: &Segment) -> Result<(), StoreError> {
    let mut fields = Vec::new();
    for field in FIELDS {
        let starts = lengths::document_starts(segment, field)?;
        let end = starts.last().copied().unwrap_or_default();
        for_each_entry(segment, TableName::Lengths(field), |_| Some(true))?;
        for_each_entry(segment, TableName::Postings(field), |_| Some(true))?;
        for_each_entry(segment, TableName::Positions(field), |_| Some(true))?;
        for_each_entry(segment, TableName::Affixes(field), |positions| is_set_below(&positions.value, end))?;
        fields.push((field, FieldPositions { starts, seen: DistinctNumbers::below(end) }));
    }
    for_each_entry(segment, TableName::Dictionary, |_| Some(true))?;
    let cursor = |table| segment.table(table).cursor_from(&[]);
    let both = |table: fn(Field) -> TableName| -> Result<_, StoreError> {
        let [title, description] = FIELDS.map(table);
        Ok([cursor(title)?, cursor(description)?])
    };
    let blocks = cursor(TableName::Dictionary)?;
    let mut terms = DictionaryCursor::new(blocks, both(TableName::Postings)?, both(TableName::Positions)?);
    let mut last = None;
    loop {
        terms.advance(|| segment.corrupt(TableName::Dictionary))?;
        let Some(term) = terms.term() else { break };
        if last.is_some_and(|last| last >= *term) {
            return Err(segment.corrupt(TableName::Dictionary));
        }
        last = Some(term.clone());
        for ((field, positions), list) in fields.iter_mut().zip(terms.lists()) {
            if positions.add(list) != Some(true) {
                return Err(segment.corrupt(TableName::Positions(*field)));
            }
        }
    }
    let incomplete = fields.iter().find(|(_, positions)| !positions.is_complete());
    incomplete.map_or(Ok(()), |(field, _)| Err(segment.corrupt(TableName::Positions(*field))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::builder::SegmentBuilder;
    use crate::store::IndexStore;
    use crate::{index_writer, issue};
    use kit::store::Store as _;
    use kit::testing::{MemoryStore, env};
    use std::rc::Rc;

    /// Enough issues for cumulative sets, frequent affixes and frequent n-grams. They are merged, and later documents
    /// supersede some of them.
    #[test]
    fn tables_of_a_large_merged_segment_agree() {
        let memory = MemoryStore::default();
        let env = env(memory.clone(), &[]);
        for batch in 0..4 {
            let mut builder = SegmentBuilder::default();
            for number in (0..9000_u64).rev() {
                let id = batch * 8900 + number + 1;
                let created = format!("2026-01-{:02}T00:00:{:02}.000Z", id * 7 % 28 + 1, id % 60);
                let line = serde_json::json!({"id": id, "project_id": id % 3, "created_at": created,
                    "title": format!("text {} {}", id % 500, id % 7), "description": "日本語 the context of it"});
                builder.add(&issue::parse(line.to_string().as_bytes()).unwrap());
            }
            index_writer::commit(&IndexStore::new(&env), builder).unwrap();
        }
        let store = IndexStore::new(&env);
        let check_all = |store: &IndexStore| {
            let manifest = store.manifest().unwrap();
            let check = |info| check(&store.segment(info).unwrap());
            (manifest.segments.len(), manifest.segments.iter().try_for_each(check))
        };
        assert_eq!(check_all(&store), (4, Ok(())));
        index_writer::compact(&store).unwrap();
        let store = store.without_page_cache();
        assert_eq!(check_all(&store), (1, Ok(())));

        let info = &store.manifest().unwrap().segments[0];
        let header = store.segment(info).unwrap().header;
        assert!(header.table(TableName::Affixes(Field::Title)).entry_count > 0);
        let mut without_checksums = serde_json::to_value(&*header).unwrap();
        for table in without_checksums["tables"].as_object_mut().unwrap().values_mut() {
            table.as_object_mut().unwrap().remove("checksums");
        }
        let header = Rc::new(serde_json::from_value(without_checksums).unwrap());
        let segment = Segment { id: &info.id, header, page_store: &store };
        assert_eq!(check(&segment), Ok(()));
        // The last entry of the table is a cumulative set.
        let key = memory.keys().into_iter().rfind(|key| key.contains("/created/")).unwrap();
        let mut page = memory.get(&key).unwrap().unwrap();
        let inside = page.len() - 1000;
        page[inside] ^= 1;
        memory.set(&key, &page).unwrap();
        assert_eq!(check(&segment), Err(segment.corrupt(TableName::Created)));
    }
}
