//! Merges the tables of facets, ids and timestamps.

use super::input::MergeInput;
use crate::segment::id_index::{self, IdIndexWriter};
use crate::segment::time_index::{self, TimeIndexWriter};
use crate::segment::{PageSink, SegmentPages, TableName};
use crate::set;
use crate::table::{Cursor, Entry, PageIndex, TableWriter};
use kit::store::StoreError;
use std::collections::VecDeque;

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
