//! What a run has marked: a log in the store, to which every step appends.

use super::{BlobId, KNOWN, KeyLayout, MARKS, PAGE, VISITED};
use crate::env::Env;
use crate::store::{Store, StoreError};
use std::collections::HashSet;

/// What a run has marked.
pub struct Log<'a> {
    store: &'a dyn Store,
    prefix: String,
}

impl<'a> Log<'a> {
    pub fn of(env: &'a Env, plan: &KeyLayout, run: &str) -> Self {
        Log { store: &*env.store, prefix: format!("{}{run}/log/", plan.marks) }
    }

    pub(super) fn list(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.store.list(&self.prefix, after, limit)
    }

    /// Every blob of it.
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

    /// Whether what a blob of it marks was visited when it was found.
    pub(super) fn is_visited(&self, key: &str) -> bool {
        key.ends_with(VISITED)
    }

    /// The latest marks, as many as fit, and whether these are all.
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

    /// Appends marks. A step that is repeated writes beside what it wrote before.
    pub(super) fn append(
        &self,
        env: &Env,
        written: &mut u64,
        end: &str,
        marks: HashSet<BlobId>,
    ) -> Result<(), StoreError> {
        let mut marks: Vec<BlobId> = marks.into_iter().collect();
        // Neighbours are read one after the other.
        marks.sort_unstable();
        for marks in marks.chunks(MARKS) {
            let bytes: Vec<u8> = marks.iter().flat_map(|mark| mark.0).collect();
            self.store.set(&format!("{}{written:010}-{}{end}", self.prefix, env.id()), &bytes)?;
            *written += 1;
        }
        Ok(())
    }

    /// Takes everything that is in the log out of `marks`; how many blobs the log has.
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

    /// Removes the log.
    pub fn forget(&self) -> Result<(), StoreError> {
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
