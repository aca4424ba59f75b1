//! The mark log of a run, in the store: the ids of the blobs that roots reach. Every step appends to it.

use super::{BlobId, KeyLayout};
use crate::env::Env;
use crate::store::{Store, StoreError};
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
