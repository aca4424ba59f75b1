//! The mark log of a run, in the store: the ids of the blobs that roots reach. Every step appends to it.
//!
//! The sorted marks of a run. A sweep has keys in about the same order, so it reads each mark about once and keeps few
//! in memory.
//!
//! The mark log is sorted batch by batch. A batch consists of pages of sorted marks and an index. The index has the
//! first mark of each page and the id of the previous batch. Pages and indexes have new ids, so a repeated step changes
//! nothing that another step reads. The run's cursor names the last batch.

use crate::clock::Timestamp;
use crate::env::Env;
use crate::id;
use crate::reachability::{BlobId, KeyLayout};
use crate::store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::ops::RangeInclusive;

/// The most marks in a blob of the log, and the most that one step appends before it ends.
pub(super) const MAX_BLOB_MARKS: usize = 50_000;

/// The most marks, about, that a step keeps in memory. Beyond that, a step visits some blobs again.
const MAX_KNOWN: usize = 1_000_000;

/// The suffix of a log blob's key if its marks were visited in the step that found them.
pub(super) const VISITED: &str = "-visited";

/// The page size when the keys of the log are listed.
pub(super) const LIST_PAGE: usize = 1000;

/// The mark log of one run.
pub struct MarkLog<'a> {
    store: &'a dyn Store,
    prefix: String,
}

impl<'a> MarkLog<'a> {
    /// The log of `run`, which may be empty.
    pub fn open(env: &'a Env, layout: &KeyLayout, run: &str) -> Self {
        MarkLog { store: &*env.store, prefix: format!("{}{run}/log/", layout.marks) }
    }

    pub(super) fn list(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.store.list(&self.prefix, after, limit)
    }

    /// The keys of the log's blobs, in the order of their writing.
    pub(super) fn keys(&self) -> Result<Vec<String>, StoreError> {
        let mut keys: Vec<String> = Vec::new();
        loop {
            let page = self.list(keys.last().map_or("", String::as_str), LIST_PAGE)?;
            if page.is_empty() {
                return Ok(keys);
            }
            keys.extend(page);
        }
    }

    /// Whether the marks of this log blob were visited in the step that found them.
    pub(super) fn is_visited(&self, key: &str) -> bool {
        key.ends_with(VISITED)
    }

    /// The latest marks, at most about [`MAX_KNOWN`], and whether these are all marks.
    pub(super) fn latest(&self, keys: &[String]) -> Result<(HashSet<BlobId>, bool), StoreError> {
        let mut known = HashSet::new();
        for key in keys.iter().rev() {
            if known.len() >= MAX_KNOWN {
                return Ok((known, false));
            }
            known.extend(self.read(key)?);
        }
        Ok((known, true))
    }

    pub(super) fn read(&self, key: &str) -> Result<Vec<BlobId>, StoreError> {
        let marks = self.store.get(key)?.ok_or_else(|| StoreError::corrupt(key, "it is missing"))?;
        Ok(from_bytes(&marks))
    }

    /// Appends marks in new blobs whose names end in `suffix`. A repeated step appends a second copy. Marks are sorted,
    /// because a walk reads neighbouring keys faster.
    pub(super) fn append(
        &self,
        env: &Env,
        written: &mut u64,
        suffix: &str,
        marks: BTreeSet<BlobId>,
    ) -> Result<(), StoreError> {
        let marks: Vec<BlobId> = marks.into_iter().collect();
        for marks in marks.chunks(MAX_BLOB_MARKS) {
            let range = MarkRange::of(marks);
            self.store.set(&format!("{}{written:010}-{}-{range}{suffix}", self.prefix, env.id()), &to_bytes(marks))?;
            *written += 1;
        }
        Ok(())
    }

    /// Removes from each of `sets` every mark that is in the log's blobs `keys`. Log blobs whose range has no mark of a
    /// set are not read. Blobs of one repository have neighbouring ids, so most log blobs are skipped.
    pub(super) fn retain_new(&self, keys: &[String], sets: &mut [&mut BTreeSet<BlobId>]) -> Result<(), StoreError> {
        for key in keys {
            let is_inside = |set: &BTreeSet<BlobId>| match MarkRange::of_key(key) {
                Some(range) => set.range(range.bounds()).next().is_some(),
                // Earlier builds wrote no range into the key.
                None => !set.is_empty(),
            };
            if sets.iter().any(|set| is_inside(set)) {
                for mark in self.read(key)? {
                    for set in sets.iter_mut() {
                        set.remove(&mark);
                    }
                }
            }
        }
        Ok(())
    }

    /// Deletes the blobs of the log.
    pub fn delete(&self) -> Result<(), StoreError> {
        loop {
            let page = self.list("", LIST_PAGE)?;
            for key in &page {
                self.store.delete(key)?;
            }
            if page.len() < LIST_PAGE {
                return Ok(());
            }
        }
    }
}

/// The stored form of marks.
pub(super) fn to_bytes(marks: &[BlobId]) -> Vec<u8> {
    marks.iter().flat_map(|mark| mark.0).collect()
}

pub(super) fn from_bytes(bytes: &[u8]) -> Vec<BlobId> {
    bytes.as_chunks::<{ BlobId::LENGTH }>().0.iter().map(|mark| BlobId(*mark)).collect()
}

/// The first eight bytes of the first and of the last mark in a blob of the log. The blob's key contains them.
struct MarkRange {
    first: u64,
    last: u64,
}

impl MarkRange {
    fn of(marks: &[BlobId]) -> Self {
        let beginning = |mark: Option<&BlobId>| {
            mark.and_then(|mark| mark.0.first_chunk()).map_or(0, |bytes| u64::from_be_bytes(*bytes))
        };
        MarkRange { first: beginning(marks.first()), last: beginning(marks.last()) }
    }

    fn of_key(key: &str) -> Option<Self> {
        let mut fields = key.strip_suffix(VISITED).unwrap_or(key).rsplit('-');
        let (last, first) = (fields.next()?, fields.next()?);
        let number = |text: &str| u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16);
        Some(MarkRange { first: number(first)?, last: number(last)? })
    }

    /// The least and the greatest mark that the blob can contain.
    fn bounds(&self) -> RangeInclusive<BlobId> {
        let filled = |beginning: u64, rest: u8| {
            let mut bytes = [rest; BlobId::LENGTH];
            bytes.iter_mut().zip(beginning.to_be_bytes()).for_each(|(byte, begins)| *byte = begins);
            BlobId(bytes)
        };
        filled(self.first, 0)..=filled(self.last, u8::MAX)
    }
}

impl fmt::Display for MarkRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}", self.first, self.last)
    }
}

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
        let keys = log.list(after, LIST_PAGE)?;
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
        part.is_end = part.read == keys.len() as u64 && keys.len() < LIST_PAGE;
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
            self.env.store.set(&self.page_key(&id, number), &to_bytes(page))?;
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
        Ok(from_bytes(&page))
    }

    fn index_key(&self, id: &str) -> String {
        format!("{}{id}", self.prefix)
    }

    fn page_key(&self, id: &str, number: usize) -> String {
        format!("{}{id}/{number:06}", self.prefix)
    }
}

/// The longest time that a run may take, in milliseconds. Its mark log becomes garbage some time later.
pub const LONGEST_RUN: i64 = 24 * 60 * 60 * 1000;

/// The position of a run between two steps.
pub struct Cursor {
    /// The run's id, which contains the time at which it began.
    pub run: String,
    pub phase: Phase,
    /// The last key that a step has handled.
    pub after: String,
}

/// The phases of a run, in order. `written` counts the blobs of the mark log.
pub enum Phase {
    /// `position` is where the removal of the root after `after` was suspended, if it takes more than a step.
    Roots { written: u64, position: Option<String> },
    /// `visited` counts the visited marks in the log blob after `after`.
    Blobs { written: u64, visited: usize },
    /// After everything is marked; only in garbage collection. `read` counts the log blobs that are sorted. `last` is
    /// the last batch of sorted marks.
    Sort { read: u64, last: Option<String> },
    /// After everything is sorted.
    Sweep { last: Option<String> },
    /// After the sweep, the run removes its own blobs.
    CleanUp,
}

impl Cursor {
    /// Parses a cursor; without text, begins a new run. [`StepError::Cursor`] if the run is older than [`LONGEST_RUN`].
    pub fn resume(env: &Env, text: Option<&str>) -> Result<Self, StepError> {
        let cursor = match text {
            None => Cursor { run: env.id(), phase: Phase::Roots { written: 0, position: None }, after: String::new() },
            Some(text) => Cursor::parse(text).ok_or(StepError::Cursor)?,
        };
        let age = env.now.millis() - cursor.began()?.millis();
        if age.abs() > LONGEST_RUN { Err(StepError::Cursor) } else { Ok(cursor) }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(3, ':');
        let (run, phase, after) = (fields.next()?, fields.next()?, fields.next()?);
        let phase = match phase.split_at_checked(1)? {
            ("r", reached) => {
                let (written, position) = match reached.split_once('.') {
                    Some((written, position)) => (written, Some(position.to_owned())),
                    None => (reached, None),
                };
                Phase::Roots { written: written.parse().ok()?, position }
            }
            ("b", places) => {
                let (written, visited) = places.split_once('.')?;
                Phase::Blobs { written: written.parse().ok()?, visited: visited.parse().ok()? }
            }
            ("s", sorted) => {
                let (read, last) = sorted.split_once('.')?;
                Phase::Sort { read: read.parse().ok()?, last: parse_batch(last)? }
            }
            ("w", last) => Phase::Sweep { last: parse_batch(last)? },
            ("c", "") => Phase::CleanUp,
            _ => return None,
        };
        Some(Cursor { run: run.to_owned(), phase, after: after.to_owned() })
    }

    /// The time at which the run began.
    pub fn began(&self) -> Result<Timestamp, StepError> {
        id::number(&self.run).map(id::made_at).ok_or(StepError::Cursor)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Cursor { run, phase, after } = self;
        match phase {
            Phase::Roots { written, position: None } => write!(f, "{run}:r{written}:{after}"),
            Phase::Roots { written, position: Some(position) } => write!(f, "{run}:r{written}.{position}:{after}"),
            Phase::Blobs { written, visited } => write!(f, "{run}:b{written}.{visited}:{after}"),
            Phase::Sort { read, last } => write!(f, "{run}:s{read}.{}:{after}", last.as_deref().unwrap_or_default()),
            Phase::Sweep { last } => write!(f, "{run}:w{}:{after}", last.as_deref().unwrap_or_default()),
            Phase::CleanUp => write!(f, "{run}:c:{after}"),
        }
    }
}

/// Parses the id of a batch of sorted marks. Empty text means that there is no batch.
fn parse_batch(text: &str) -> Option<Option<String>> {
    if text.is_empty() { Some(None) } else { id::number(text).map(|_| Some(text.to_owned())) }
}

/// The reason why a step was not done.
#[derive(Debug, PartialEq, Eq)]
pub enum StepError {
    /// The cursor is malformed, or its run has ended or expired.
    Cursor,
    Store(StoreError),
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        StepError::Store(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, CountingStore, MemoryStore};

    fn mark(beginning: u64, end: u8) -> BlobId {
        let mut bytes = [end; BlobId::LENGTH];
        bytes.iter_mut().zip(beginning.to_be_bytes()).for_each(|(byte, begins)| *byte = begins);
        BlobId(bytes)
    }

    #[test]
    fn only_blobs_of_the_log_that_can_have_a_mark_are_read() {
        let store = CountingStore::over(MemoryStore::default());
        let env = testing::env(store.clone(), &[]);
        let log = MarkLog { store: &*env.store, prefix: "log/".into() };
        let mut written = 0;
        for project in 0..100 {
            log.append(&env, &mut written, VISITED, [mark(project, 1), mark(project, 9)].into()).unwrap();
        }
        store.set("log/9999999999-of-an-earlier-build", &mark(7, 7).0).unwrap();
        let keys = log.keys().unwrap();
        let before = store.operations();
        let mut queue = BTreeSet::from([mark(3, 0), mark(3, 9), mark(7, 7)]);
        let mut visited = BTreeSet::from([mark(3, 1), mark(4, 2)]);
        log.retain_new(&keys, &mut [&mut queue, &mut visited]).unwrap();
        assert_eq!(queue, [mark(3, 0)].into());
        assert_eq!(visited, [mark(4, 2)].into());
        assert_eq!(store.operations() - before, 4, "those of 3, 4 and 7, and the one without a range");
    }
}

#[cfg(test)]
mod sorted_tests {
    use super::*;
    use crate::reachability::KeyLayout;
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
