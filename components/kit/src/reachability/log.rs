//! The mark log of a run: the ids of the blobs that roots reach, in the store. Every step appends
//! to it.

use super::{BlobId, KeyLayout};
use crate::env::Env;
use crate::store::{Store, StoreError};
use std::collections::HashSet;

/// The most marks in a blob of the log, and the most that one step appends before it ends.
pub(super) const MARKS: usize = 50_000;

/// The most marks that a step keeps in memory. Beyond it, a step visits some blobs again.
const KNOWN: usize = 1_000_000;

/// The suffix of a log blob's key if its marks were visited in the step that found them.
pub(super) const VISITED: &str = "-visited";

/// How many keys of the log one listing returns.
const PAGE: usize = 1000;

/// The mark log of one run.
pub struct MarkLog<'a> {
    store: &'a dyn Store,
    prefix: String,
}

impl<'a> MarkLog<'a> {
    pub fn open(env: &'a Env, layout: &KeyLayout, run: &str) -> Self {
        MarkLog { store: &*env.store, prefix: format!("{}{run}/log/", layout.marks) }
    }

    pub(super) fn list(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.store.list(&self.prefix, after, limit)
    }

    /// The keys of its blobs, in the order in which they were written.
    pub(super) fn keys(&self) -> Result<Vec<String>, StoreError> {
        let mut keys: Vec<String> = Vec::new();
        loop {
            let page = self.list(keys.last().map_or("", String::as_str), PAGE)?;
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

    /// The latest marks, at most about [`KNOWN`], and whether they are all.
    pub(super) fn latest(&self, keys: &[String]) -> Result<(HashSet<BlobId>, bool), StoreError> {
        let mut known = HashSet::new();
        for key in keys.iter().rev() {
            if known.len() >= KNOWN {
                return Ok((known, false));
            }
            known.extend(self.read(key)?);
        }
        Ok((known, true))
    }

    pub(super) fn read(&self, key: &str) -> Result<Vec<BlobId>, StoreError> {
        let marks = self.store.get(key)?.ok_or_else(|| StoreError::corrupt(key, "it is missing"))?;
        Ok(marks.as_chunks::<{ BlobId::LENGTH }>().0.iter().map(|mark| BlobId(*mark)).collect())
    }

    /// Appends marks in new blobs whose names end in `suffix`. A repeated step appends a second copy.
    pub(super) fn append(
        &self,
        env: &Env,
        written: &mut u64,
        suffix: &str,
        marks: HashSet<BlobId>,
    ) -> Result<(), StoreError> {
        let mut marks: Vec<BlobId> = marks.into_iter().collect();
        // Sorted, because a walk reads neighbouring keys faster.
        marks.sort_unstable();
        for marks in marks.chunks(MARKS) {
            let bytes: Vec<u8> = marks.iter().flat_map(|mark| mark.0).collect();
            self.store.set(&format!("{}{written:010}-{}{suffix}", self.prefix, env.id()), &bytes)?;
            *written += 1;
        }
        Ok(())
    }

    /// Removes every mark that the log has from `marks`. Returns the number of the log's blobs.
    pub fn retain_new(&self, marks: &mut HashSet<BlobId>) -> Result<u64, StoreError> {
        let (mut after, mut read) = (String::new(), 0);
        loop {
            let page = self.list(&after, PAGE)?;
            for key in &page {
                if !marks.is_empty() {
                    self.read(key)?.iter().for_each(|mark| {
                        marks.remove(mark);
                    });
                }
                read += 1;
            }
            after = match page.into_iter().last() {
                Some(last) => last,
                None => return Ok(read),
            };
        }
    }

    /// Deletes the log.
    pub fn delete(&self) -> Result<(), StoreError> {
        loop {
            let page = self.list("", PAGE)?;
            for key in &page {
                self.store.delete(key)?;
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }
}
