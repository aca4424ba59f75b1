//! What the index reaches, for removing garbage and for checks.

use super::{INDEX, Store, dead_key, head_key, page_key};
use crate::index::Index;
use crate::segment::Head;
use crate::set;
use crate::table::{Pages, Table};
use bytes::Bytes;
use kit::maintenance::Maintain;
use kit::reachability::{BlobId, KeyLayout, Node, Roots, Tracer};
use kit::root;
use kit::store::StoreError;
use std::cell::Cell;

impl Maintain for Store {}

impl Roots for Store {
    fn plan(&self) -> KeyLayout {
        let below = |kinds: &[&str]| kinds.iter().map(|kind| format!("issue-statistics/v1/{kind}/")).collect();
        KeyLayout {
            roots: vec![INDEX.to_owned()],
            records: Vec::new(),
            blobs: below(&["dead", "segment"]),
            marks: "issue-statistics/v1/gc/".to_owned(),
        }
    }

    /// The index names everything. What it has retired is garbage.
    fn visit(&self, place: Node, visit: &mut Tracer) -> Result<bool, StoreError> {
        match place {
            Node::Root(INDEX) => self.read_index()?.segments.iter().for_each(|entry| {
                visit.reach(&entry.id);
                entry.dead.iter().for_each(|dead| visit.reach(&dead.id));
            }),
            // The counter beside it.
            Node::Root(_) => return Ok(false),
            Node::Blob(mark) if visit.check => self.check_blob(mark, visit)?,
            Node::Blob(_) => {}
        }
        Ok(true)
    }

    fn follows(&self) -> bool {
        true
    }
}

impl Store {
    fn read_index(&self) -> Result<Index, StoreError> {
        Ok(root::read(&*self.env.store, INDEX)?.unwrap_or_default())
    }

    /// Checks a segment, or a set of superseded documents, that the index named.
    fn check_blob(&self, mark: &BlobId, visit: &mut Tracer) -> Result<(), StoreError> {
        let outcome = self.check_as_named(mark, visit);
        match outcome {
            // It may have been replaced, and deleted, meanwhile.
            Err(StoreError::Corrupt { .. }) if !self.is_named(mark)? => Ok(()),
            outcome => outcome,
        }
    }

    fn is_named(&self, mark: &BlobId) -> Result<bool, StoreError> {
        let is = |id: &str| BlobId::of_id(id).as_ref() == Some(mark);
        let index = self.read_index()?;
        Ok(index.segments.iter().any(|entry| is(&entry.id) || entry.dead.as_ref().is_some_and(|dead| is(&dead.id))))
    }

    fn check_as_named(&self, mark: &BlobId, visit: &mut Tracer) -> Result<(), StoreError> {
        let is = |id: &str| BlobId::of_id(id).as_ref() == Some(mark);
        for entry in &self.read_index()?.segments {
            if is(&entry.id) {
                return self.check_segment(&entry.id, entry.documents, visit);
            }
            if let Some(dead) = entry.dead.as_ref().filter(|dead| is(&dead.id)) {
                let key = dead_key(&dead.id);
                let bytes = self.blob(&key)?;
                visit.read(bytes.len());
                let set = set::bitmap(&bytes).ok_or_else(|| StoreError::corrupt(&key, "no set"))?;
                if set.len() != u64::from(dead.count) || set.max().is_some_and(|last| last >= entry.documents) {
                    return Err(StoreError::corrupt(&key, "not documents of its segment, as many as the index says"));
                }
            }
        }
        Ok(())
    }

    /// Reads every entry of every table.
    fn check_segment(&self, id: &str, documents: u32, visit: &mut Tracer) -> Result<(), StoreError> {
        let key = head_key(id);
        let bytes = self.blob(&key)?;
        visit.read(bytes.len());
        let head: Head = serde_json::from_slice(&bytes).map_err(|why| StoreError::corrupt(&key, why))?;
        if head.documents != documents {
            return Err(StoreError::corrupt(&key, "it has not as many documents as the index says"));
        }
        for (name, index) in &head.tables {
            let read = Cell::default();
            let pages = Stored { store: self, id, name, read: &read };
            let damaged = |why| StoreError::corrupt(&format!("issue-statistics/v1/segment/{id}/{name}"), why);
            let mut entries = Table { index, pages }.from(&[])?;
            let (mut count, mut last) = (0, None);
            while let Some(entry) = entries.next()? {
                if last.is_some_and(|last| last >= entry.key) {
                    return Err(damaged("its entries are not in order"));
                }
                count += 1;
                last = Some(entry.key);
            }
            if count != index.count {
                return Err(damaged("it has not as many entries as its head says"));
            }
            visit.read(read.get());
        }
        Ok(())
    }

    fn blob(&self, key: &str) -> Result<Bytes, StoreError> {
        let bytes = self.env.store.get(key)?.ok_or_else(|| StoreError::corrupt(key, "the blob is missing"))?;
        Ok(bytes.into())
    }
}

/// The pages of a table as they are stored.
#[derive(Clone, Copy)]
struct Stored<'a> {
    store: &'a Store,
    id: &'a str,
    name: &'a str,
    /// Bytes.
    read: &'a Cell<usize>,
}

impl Pages for Stored<'_> {
    fn page(&self, number: usize) -> Result<Bytes, StoreError> {
        let page = self.store.blob(&page_key(self.id, self.name, number))?;
        self.read.set(self.read.get() + page.len());
        Ok(page)
    }

    fn damaged(&self) -> StoreError {
        StoreError::corrupt(&format!("issue-statistics/v1/segment/{}/{}", self.id, self.name), "a page is damaged")
    }
}
