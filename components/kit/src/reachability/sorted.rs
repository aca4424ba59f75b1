//! The sorted marks of a run. A sweep has keys in about the same order, so it reads each mark about once and keeps few
//! in memory.
//!
//! The mark log is sorted batch by batch. A batch consists of pages of sorted marks and an index. The index has the
//! first mark of each page and the id of the previous batch. Pages and indexes have new ids, so a repeated step changes
//! nothing that another step reads. The run's cursor names the last batch.

use super::cursor::StepError;
use super::log::{self, MarkLog};
use super::{BlobId, KeyLayout};
use crate::env::Env;
use crate::store::StoreError;
use serde::{Deserialize, Serialize};

/// The least number of marks in a batch, except in the last one: 16 MiB.
const BATCH_MARKS: usize = 1 << 19;

/// The number of marks in a page: 128 KiB.
const PAGE_MARKS: usize = 4096;

/// The sorted marks of one run.
pub struct SortedMarks<'a> {
    env: &'a Env,
    prefix: String,
}

/// The stored index of a batch.
#[derive(Serialize, Deserialize)]
struct BatchIndex {
    /// The id of the previous batch.
    previous: Option<String>,
    /// The first mark of each page, in hex digits.
    pages: Vec<String>,
}

/// The result of sorting a part of the log.
pub struct SortedPart {
    /// The new batch, or the previous one if there was nothing to sort.
    pub last: Option<String>,
    /// The number of log blobs that were read, and the key of the last one.
    pub read: u64,
    pub after: String,
    /// Whether the log is sorted completely.
    pub is_end: bool,
}

impl<'a> SortedMarks<'a> {
    /// The sorted marks of `run`.
    pub fn open(env: &'a Env, layout: &KeyLayout, run: &str) -> Self {
        SortedMarks { env, prefix: format!("{}{run}/sorted/", layout.marks) }
    }

    /// Sorts the marks of the log's blobs after `after`, as many as fit into a batch.
    pub fn sort(&self, log: &MarkLog, previous: Option<String>, after: &str) -> Result<SortedPart, StoreError> {
        let keys = log.list(after, log::LIST_PAGE)?;
        let mut part = SortedPart { last: previous, read: 0, after: after.to_owned(), is_end: false };
        let mut marks = Vec::new();
        for key in &keys {
            if marks.len() >= BATCH_MARKS {
                break;
            }
            marks.append(&mut log.read(key)?);
            part.read += 1;
            part.after.clone_from(key);
        }
        part.is_end = part.read == keys.len() as u64 && keys.len() < log::LIST_PAGE;
        marks.sort_unstable();
        marks.dedup();
        if !marks.is_empty() {
            part.last = Some(self.write(part.last.take(), &marks)?);
        }
        Ok(part)
    }

    /// Writes a batch, with its index last, and returns its id.
    fn write(&self, previous: Option<String>, marks: &[BlobId]) -> Result<String, StoreError> {
        let id = self.env.id();
        let mut index = BatchIndex { previous, pages: Vec::new() };
        for (number, page) in marks.chunks(PAGE_MARKS).enumerate() {
            self.env.store.set(&self.page_key(&id, number), &log::to_bytes(page))?;
            index.pages.extend(page.first().map(|mark| hex::encode(mark.0)));
        }
        let key = self.index_key(&id);
        let index = serde_json::to_vec(&index).map_err(|why| StoreError::corrupt(&key, why))?;
        self.env.store.set(&key, &index)?;
        Ok(id)
    }

    /// The unmarked ones of `candidates`, in order; `last` is the last batch. A page is read at most once, and only if
    /// it can contain a candidate; the instance caches the indexes. [`StepError::Cursor`] if marks are lost.
    pub fn unmarked(&self, last: Option<&str>, mut candidates: Vec<BlobId>) -> Result<Vec<BlobId>, StepError> {
        candidates.sort_unstable();
        candidates.dedup();
        let mut next = last.map(str::to_owned);
        while let Some(id) = next.filter(|_| !candidates.is_empty()) {
            let index = self.index(&id)?;
            let mut unmarked = Vec::new();
            let mut page: Option<(usize, Vec<BlobId>)> = None;
            for candidate in candidates {
                let digits = hex::encode(candidate.0);
                let Some(number) = index.pages.partition_point(|first| *first <= digits).checked_sub(1) else {
                    unmarked.push(candidate);
                    continue;
                };
                let marks = match page.take() {
                    Some((at, marks)) if at == number => marks,
                    _ => self.page(&id, number)?,
                };
                if marks.binary_search(&candidate).is_err() {
                    unmarked.push(candidate);
                }
                page = Some((number, marks));
            }
            (candidates, next) = (unmarked, index.previous);
        }
        Ok(candidates)
    }

    fn index(&self, id: &str) -> Result<BatchIndex, StepError> {
        let index = self.env.blob(&self.index_key(id))?.ok_or(StepError::Cursor)?;
        Ok(serde_json::from_slice(&index).map_err(|why| StoreError::corrupt(&self.index_key(id), why))?)
    }

    fn page(&self, id: &str, number: usize) -> Result<Vec<BlobId>, StepError> {
        let page = self.env.store.get(&self.page_key(id, number))?.ok_or(StepError::Cursor)?;
        Ok(log::from_bytes(&page))
    }

    fn index_key(&self, id: &str) -> String {
        format!("{}{id}", self.prefix)
    }

    fn page_key(&self, id: &str, number: usize) -> String {
        format!("{}{id}/{number:06}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::super::KeyLayout;
    use super::*;
    use crate::store::Store;
    use crate::testing::{self, CountingStore, MemoryStore};

    fn layout() -> KeyLayout {
        KeyLayout { roots: vec![], records: vec![], blobs: vec![], marks: "gc/".into() }
    }

    /// Every `step`th of `count` marks.
    fn marks(count: u64, step: usize) -> Vec<BlobId> {
        let mark = |number: u64| {
            let mut bytes = [0; BlobId::LENGTH];
            // Consecutive numbers get distant marks.
            let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            bytes.iter_mut().zip(scattered.to_be_bytes()).for_each(|(byte, digit)| *byte = digit);
            BlobId(bytes)
        };
        (0..count).map(mark).step_by(step).collect()
    }

    fn sort_all(sorted: &SortedMarks, log: &MarkLog) -> (Option<String>, u64) {
        let (mut last, mut after, mut parts) = (None, String::new(), 0);
        loop {
            let part = sorted.sort(log, last, &after).unwrap();
            (last, after, parts) = (part.last, part.after, parts + 1);
            if part.is_end {
                return (last, parts);
            }
        }
    }

    #[test]
    fn marks_of_several_batches_are_found_and_pages_are_read_at_most_once() {
        let store = CountingStore::over(MemoryStore::default());
        let env = testing::env(store.clone(), &[]);
        let (layout, run) = (layout(), env.id());
        let log = MarkLog::open(&env, &layout, &run);
        let all = marks(BATCH_MARKS as u64 + 200_000, 1);
        let mut written = 0;
        for part in all.chunks(100_000) {
            log.append(&env, &mut written, "", part.iter().copied().collect()).unwrap();
        }
        let sorted = SortedMarks::open(&env, &layout, &run);
        let (last, parts) = sort_all(&sorted, &log);
        assert_eq!(parts, 2);

        let candidates = marks(2 * BATCH_MARKS as u64, 100);
        let expected = candidates.iter().skip(all.len().div_ceil(100)).count();
        let before = store.operations();
        assert_eq!(sorted.unmarked(last.as_deref(), candidates).unwrap().len(), expected);
        let pages = all.len() / PAGE_MARKS + 2;
        assert!(store.operations() - before <= pages as u64 + 2, "and an index for each batch");

        let before = store.operations();
        assert_eq!(sorted.unmarked(last.as_deref(), all.iter().copied().take(3).collect()), Ok(vec![]));
        assert!(store.operations() - before <= 6, "few candidates need few pages");
        assert_eq!(sorted.unmarked(None, all.iter().copied().take(3).collect()).unwrap().len(), 3);
    }

    #[test]
    fn a_step_that_is_repeated_changes_nothing_that_another_one_wrote() {
        let store = MemoryStore::default();
        let env = testing::env(store.clone(), &[]);
        let (layout, run) = (layout(), env.id());
        let log = MarkLog::open(&env, &layout, &run);
        let mut written = 0;
        log.append(&env, &mut written, "", marks(10, 1).into_iter().collect()).unwrap();
        let sorted = SortedMarks::open(&env, &layout, &run);
        let (first, _) = sort_all(&sorted, &log);
        let before = store.snapshot();
        log.append(&env, &mut written, "", marks(20, 1).into_iter().collect()).unwrap();
        let (second, _) = sort_all(&sorted, &log);
        assert!(before.keys().iter().all(|key| store.get(key) == before.get(key)));
        let unmarked = |last: &Option<String>| sorted.unmarked(last.as_deref(), marks(20, 1)).unwrap().len();
        assert_eq!((unmarked(&first), unmarked(&second)), (10, 0));
    }
}
